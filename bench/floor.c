// SPDX-License-Identifier: Apache-2.0
// The floor of a scan: what the kernel must be asked, and no more. For each process which mount namespace it is
// in; each mount namespace's mountinfo once; one stat for each mount that shows a deployment, through the
// process's root, and for the host's three paths. A namespace whose `/` is the host's own is a service's: it is
// left after the first page. Nothing is parsed beyond finding those lines, nothing is identified, judged or kept.
//
// Each line on standard input is answered with `<nanoseconds> <of the processor> <processes> <namespaces> <candidates>`.

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 65536
#define BUFFER (16 << 20)

static unsigned long seen[SLOTS];
static char buffer[BUFFER];
static int processes, namespaces, candidates;

// Whether it was new.
static int remember(unsigned long inode) {
    unsigned long slot = inode * 2654435761UL % SLOTS;
    for (; seen[slot]; slot = (slot + 1) % SLOTS)
        if (seen[slot] == inode)
            return 0;
    seen[slot] = inode;
    return 1;
}

// `device root ` of the line for `/`, which comes first.
static int top(char *mark, size_t size) {
    int at = -1;
    sscanf(buffer, "%*d %*d %n", &at);
    char *device = buffer + (at < 0 ? 0 : at), *root = strchr(device, ' '), *end = root ? strchr(root + 1, ' ') : NULL;
    return end ? snprintf(mark, size, "%.*s", (int)(end - device), device) : 0;
}

static size_t read_whole(int proc, const char *path, int is_host) {
    static char host[4096], mine[4096];
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    if (fd < 0)
        return 0;
    for (ssize_t n; (n = read(fd, buffer + length, BUFFER - 1 - length)) > 0;) {
        if (!length && top(is_host ? host : mine, sizeof host) && !is_host && strcmp(host, mine) == 0)
            break;
        length += n;
    }
    close(fd);
    buffer[length] = 0;
    return length;
}

static void look_at(int proc, const char *pid) {
    static const char mark[] = "/ostree/deploy/";
    char path[4096];
    struct stat what;
    snprintf(path, sizeof path, "%s/mountinfo", pid);
    size_t length = read_whole(proc, path, strcmp(pid, "1") == 0);
    for (char *at = buffer; (at = memmem(at, buffer + length - at, mark, sizeof mark - 1));) {
        // Inside the root field: `id parent device ROOT POINT ...`. The stateroot's var is no deployment.
        char *end_of_root = strchr(at, ' '), *line = at, *below = strchr(at + sizeof mark - 1, '/');
        while (line > buffer && line[-1] != '\n')
            line--;
        char *next = strchr(at, '\n');
        char *root = line;
        for (int field = 0; field < 3 && root; field++)
            root = (root = strchr(root, ' ')) ? root + 1 : NULL;
        if (end_of_root && root && at < strchr(root, ' ') && below && strncmp(below, "/deploy/", 8) == 0) {
            char *point = end_of_root + 1, *end = strchr(point, ' ');
            int size = snprintf(path, sizeof path, "%s/root%.*s", pid, (int)(end - point), point);
            if (size < (int)sizeof path && fstatat(proc, path, &what, 0) == 0)
                candidates++;
        }
        if (!next)
            break;
        at = next;
    }
}

static void scan(void) {
    static const char *host[] = {"1/root/usr", "1/root/etc", "1/root/etc/cni/net.d"};
    struct stat what;
    char path[512], link[64];
    memset(seen, 0, sizeof seen);
    processes = namespaces = candidates = 0;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fdopendir(proc);
    for (struct dirent *one; (one = readdir(all));) {
        if (one->d_name[0] < '0' || one->d_name[0] > '9')
            continue;
        processes++;
        // The link's text has the inode that a stat gives, and costs less.
        snprintf(path, sizeof path, "%s/ns/mnt", one->d_name);
        ssize_t length = readlinkat(proc, path, link, sizeof link - 1);
        if (length <= 5)
            continue;
        link[length] = 0;
        if (remember(strtoul(link + 5, NULL, 10))) {
            namespaces++;
            look_at(proc, one->d_name);
        }
    }
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        fstatat(proc, host[i], &what, 0);
    closedir(all);
}

static long long nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(void) {
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        long long used = nanoseconds(CLOCK_PROCESS_CPUTIME_ID), start = nanoseconds(CLOCK_MONOTONIC);
        scan();
        long long end = nanoseconds(CLOCK_MONOTONIC);
        used = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - used;
        printf("%lld %lld %d %d %d\n", end - start, used, processes, namespaces, candidates);
        fflush(stdout);
    }
    return 0;
}
