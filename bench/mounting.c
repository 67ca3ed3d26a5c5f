// SPDX-License-Identifier: Apache-2.0
// Small helpers of the bench's node.

#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

int cgroup_fd;

void die(const char *what) {
    printf("failed %s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(1);
}

char *text(const char *format, ...) {
    static char slots[32][TEXT];
    static int next;
    char *slot = slots[next++ % 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(slot, TEXT, format, arguments);
    va_end(arguments);
    return slot;
}

void make_directory(const char *path) {
    char part[TEXT];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0755);
        *slash = '/';
    }
    if (mkdir(part, 0755) && errno != EEXIST)
        die(path);
}

void make_file(const char *path) {
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        die(path);
    close(fd);
}

void mount_new(const char *type, const char *at, unsigned long flags, const char *options) {
    make_directory(at);
    if (mount(type, at, type, flags, options))
        die(at);
}

void bind_tree(const char *source, const char *at, unsigned long flags) {
    if (mount(source, at, NULL, MS_BIND | MS_REC, NULL))
        die(text("bind %s on %s", source, at));
    if (flags && mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | flags, NULL))
        die(at);
}

void bind_private(const char *source, const char *at, unsigned long flags) {
    bind_tree(source, at, flags);
    if (mount(NULL, at, NULL, MS_PRIVATE | MS_REC, NULL))
        die(at);
}

void sleep_for_ever(const char *name) {
    prctl(PR_SET_NAME, name);
    close(0);
    close(1);
    for (;;)
        pause();
}
