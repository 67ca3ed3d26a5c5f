// SPDX-License-Identifier: Apache-2.0
// PID 1 of the bench's node: a host root of its own, and containers the way a runtime makes them.
//
// usage: node BASE CGROUP. BASE is an empty directory, CGROUP a cgroup v2 directory of the bench's own. Lives in
// a pid and a mount namespace of its own, so that its end takes all processes and mounts with it; it ends when
// standard input does. Commands come in as lines and each is answered with one line, `ok ...` or `failed ...`.

#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Where measuring programs live: the machine's own root, read-only, with this pid namespace's /proc and an own
// /run. To the product it is one more service with a mount namespace of its own.
static pid_t start_tools(const char *hidden) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC))
        die("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) || mount("proc", "/proc", "proc", 0, NULL) ||
            mount("tmpfs", "/run", "tmpfs", 0, "mode=755"))
            die("tools");
        // The product's state is the node's own, whether or not the machine has any.
        mount_new("tmpfs", "/var/lib", 0, "mode=755");
        make_directory("/var/lib/ostreewatchd");
        static const char *product[] = {"/etc/ostreewatchd", "/usr/lib/ostreewatchd"};
        for (size_t i = 0; i < sizeof product / sizeof *product; i++)
            if (access(product[i], F_OK) == 0 && mount("tmpfs", product[i], "tmpfs", 0, NULL))
                die(product[i]);
        umount2(hidden, MNT_DETACH);
        make_directory("/run/systemd/journal");
        make_directory("/run/ostreewatchd");
        if (mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) || write(ready[1], ".", 1) != 1)
            die("tools");
        close(ready[1]);
        sleep_for_ever("tools");
    }
    close(ready[1]);
    char dot;
    if (read(ready[0], &dot, 1) != 1)
        _exit(1);
    close(ready[0]);
    return pid;
}

// As ostree-prepare-root(1) lays it out; `base` is the physical sysroot.
static void enter_root(const char *base, const char *deployment) {
    static const struct { const char *name; int minor; } devices[] = {{"null", 3}, {"zero", 5}, {"urandom", 9}};
    static const char *controllers[] = {"pids", "memory", "cpu", "cpuset"};
    char root[TEXT];
    snprintf(root, sizeof root, "%s" DEPLOY "/%s", base, deployment);
    bind_tree(root, root, 0);
    bind_tree(text("%s/usr", root), text("%s/usr", root), MS_RDONLY);
    if (mount(text("%s/ostree/deploy/debian/var", base), text("%s/var", root), NULL, MS_BIND, NULL) ||
        mount(text("%s/boot", base), text("%s/boot", root), NULL, MS_BIND, NULL) ||
        mount(base, text("%s/sysroot", root), NULL, MS_BIND, NULL))
        die("sysroot");
    mount_new("proc", text("%s/proc", root), MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_new("sysfs", text("%s/sys", root), MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (mount("tmpfs", text("%s/sys/fs/cgroup", root), "tmpfs", 0, "mode=755"))
        die("tmpfs on /sys/fs/cgroup");
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        char *at = text("%s/sys/fs/cgroup/%s", root, controllers[i]);
        make_directory(at);
        if (mount("cgroup", at, "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, controllers[i]))
            rmdir(at);  // A machine with cgroup v2 alone.
    }
    mount_new("tmpfs", text("%s/dev", root), MS_NOSUID, "mode=755");
    mount_new("tmpfs", text("%s/run", root), MS_NOSUID | MS_NODEV, "mode=755");
    mount_new("tmpfs", text("%s/tmp", root), MS_NOSUID | MS_NODEV, NULL);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        mknod(text("%s/dev/%s", root, devices[i].name), S_IFCHR | 0666, makedev(1, devices[i].minor));
    if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/") ||
        mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL))
        die("pivot_root");
}

static void start_idle(int count, int private) {
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork");
        if (pid == 0) {
            // PrivateMounts=, PrivateTmp=: a slave of the host's mounts.
            if (private && (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) ||
                            mount("tmpfs", "/tmp", "tmpfs", 0, NULL)))
                _exit(1);
            sleep_for_ever(private ? "service" : "daemon");
        }
    }
    usleep(private ? 200000 : 0);
    printf("ok\n");
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// The four binds of an in-service patch, in StarlingX's order; answers with when the last one returned.
static void in_service_patch(const char *active, const char *pending) {
    char from[4][TEXT], at[4][TEXT];
    static const char *what[4][2] = {{"usr", NULL}, {"etc", NULL}, {"usr/etc", "usr/etc"}, {"etc", "etc"}};
    for (int i = 0; i < 4; i++) {
        snprintf(from[i], TEXT, "/sysroot" DEPLOY "/%s/%s", pending, what[i][0]);
        if (what[i][1])
            snprintf(at[i], TEXT, "/sysroot" DEPLOY "/%s/%s", active, what[i][1]);
        else
            snprintf(at[i], TEXT, "/%s", what[i][0]);
    }
    for (int i = 0; i < 4; i++) {
        unsigned long flags = MS_BIND | MS_REMOUNT | MS_NOATIME | (i % 2 ? 0 : MS_RDONLY);
        if (mount(from[i], at[i], NULL, MS_BIND, NULL) || mount(NULL, at[i], NULL, flags, NULL)) {
            printf("failed %s: %s\n", at[i], strerror(errno));
            return;
        }
    }
    printf("ok %lld\n", now_ns());
}

static void undo_patch(const char *active) {
    const char *at[] = {text("/sysroot" DEPLOY "/%s/etc", active), text("/sysroot" DEPLOY "/%s/usr/etc", active),
                        "/etc", "/usr"};
    for (int i = 0; i < 4; i++)
        if (umount2(at[i], MNT_DETACH)) {
            printf("failed %s: %s\n", at[i], strerror(errno));
            return;
        }
    printf("ok %lld\n", now_ns());
}

// `rate` times a second one mount and its unmount.
static void storm(int rate, int seconds) {
    make_directory("/run/storm");
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    long long start = now_ns();
    int done = 0;
    for (; done < rate * seconds; done++) {
        if (mount("tmpfs", "/run/storm", "tmpfs", 0, "size=4k") || umount2("/run/storm", MNT_DETACH)) {
            printf("failed storm: %s\n", strerror(errno));
            return;
        }
        next.tv_nsec += 1000000000L / rate;
        if (next.tv_nsec >= 1000000000L) {
            next.tv_sec++;
            next.tv_nsec -= 1000000000L;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    printf("ok %d %lld\n", done, now_ns() - start);
}

static void serve(const char *base) {
    static struct pod pod;
    char line[4096], first[128], second[128];
    int number, other;
    while (fgets(line, sizeof line, stdin)) {
        struct container *one = &pod.containers[pod.count % MAX_CONTAINERS];
        if (sscanf(line, "root %127s", first) == 1) {
            pid_t tools = start_tools(base);
            enter_root(base, first);
            printf("ok %d\n", tools);
        } else if (sscanf(line, "pod %63s %79s", pod.uid, pod.sandbox) == 2) {
            pod.count = 0;
            printf("ok\n");
        } else if (sscanf(line, "container %79s %79s %15s %d %d %1023s", one->id, one->name, one->kind,
                          &one->snapshot, &one->processes, one->binds) == 6) {
            pod.count++;
            printf("ok\n");
        } else if (strcmp(line, "start\n") == 0)
            start_pod(&pod);
        else if (sscanf(line, "idle %d %d", &number, &other) == 2)
            start_idle(number, other);
        else if (sscanf(line, "patch %127s %127s", first, second) == 2)
            in_service_patch(first, second);
        else if (sscanf(line, "undo %127s", first) == 1)
            undo_patch(first);
        else if (sscanf(line, "storm %d %d", &number, &other) == 2)
            storm(number, other);
        else
            printf("failed: no such command: %s", line);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    if (strstr(argv[0], "containerd-shim"))
        sleep_for_ever("containerd-shim");
    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((cgroup_fd = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 || unshare(CLONE_NEWPID | CLONE_NEWNS))
        die("namespaces");
    int ready[2];
    if (pipe2(ready, O_CLOEXEC))
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0) {
        char dot;
        close(ready[1]);
        if (read(ready[0], &dot, 1) == 1) {
            printf("ok %d\n", pid);
            fflush(stdout);
        }
        close(1);
        int status;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "init");
    signal(SIGCHLD, SIG_IGN);  // Nobody's orphans stay as zombies.
    if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) ||
        mount("tmpfs", argv[1], "tmpfs", 0, "mode=755,size=4g,nr_inodes=0"))
        die(argv[1]);
    if (write(ready[1], ".", 1) != 1)
        return 1;
    close(ready[0]);
    close(ready[1]);
    serve(argv[1]);
    return 0;
}
