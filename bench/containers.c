// SPDX-License-Identifier: Apache-2.0
// Containers of the bench's node, made the way a runtime makes them.

#include "node.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void mount_system(const char *root) {
    static const char *masked[] = {"bus", "fs", "irq", "sys", "sysrq-trigger"};
    static const char *hidden_files[] = {"kcore", "keys", "timer_list"};
    static const char *controllers[] = {"pids", "memory", "cpu", "cpuset"};
    bind_private("/proc", text("%s/proc", root), MS_NOSUID | MS_NODEV | MS_NOEXEC);
    mount_new("tmpfs", text("%s/dev", root), MS_NOSUID, "mode=755,size=64k");
    mount_new("devpts", text("%s/dev/pts", root), MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620");
    mount_new("mqueue", text("%s/dev/mqueue", root), MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_new("sysfs", text("%s/sys", root), MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL);
    if (mount("tmpfs", text("%s/sys/fs/cgroup", root), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755"))
        die("tmpfs on /sys/fs/cgroup");
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        char *source = text("/sys/fs/cgroup/%s", controllers[i]);
        if (access(source, F_OK) == 0) {
            char *at = text("%s/sys/fs/cgroup/%s", root, controllers[i]);
            make_directory(at);
            bind_private(source, at, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
        }
    }
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
        char *at = text("%s/proc/%s", root, masked[i]);
        if (access(at, F_OK) == 0)
            bind_private(at, at, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
    }
    for (size_t i = 0; i < sizeof hidden_files / sizeof *hidden_files; i++)
        if (access(text("%s/proc/%s", root, hidden_files[i]), F_OK) == 0)
            bind_private("/dev/null", text("%s/proc/%s", root, hidden_files[i]), 0);
    mount_new("tmpfs", text("%s/sys/firmware", root), MS_RDONLY, NULL);
}

static void bind_file(const char *root, const char *source, const char *at) {
    make_file(text("%s%s", root, at));
    bind_private(source, text("%s%s", root, at), MS_RELATIME);
}

static void mount_pod_parts(const struct pod *pod, const struct container *one, const char *root) {
    const char *sandbox = text("/var/lib/containerd/" SANDBOXES "/%s", pod->sandbox);
    bind_file(root, text("%s/hostname", sandbox), "/etc/hostname");
    bind_file(root, text("%s/resolv.conf", sandbox), "/etc/resolv.conf");
    make_directory(text("%s/dev/shm", root));
    bind_private(text("/run/containerd/" SANDBOXES "/%s/shm", pod->sandbox), text("%s/dev/shm", root), 0);
    if (strcmp(one->kind, "sandbox") == 0)
        return;
    const char *kubelet = text("/var/lib/kubelet/pods/%s", pod->uid);
    bind_file(root, text("%s/etc-hosts", kubelet), "/etc/hosts");
    bind_file(root, text("%s/containers/%s/log", kubelet, one->name), "/dev/termination-log");
    make_directory(text("%s/config", root));
    bind_private(text("%s/volumes/kubernetes.io~configmap/config", kubelet), text("%s/config", root), MS_RDONLY);
    make_directory(text("%s/run/secrets/kubernetes.io/serviceaccount", root));
    bind_private(text("%s/volumes/kubernetes.io~projected/token", kubelet),
                 text("%s/run/secrets/kubernetes.io/serviceaccount", root), MS_RDONLY);
}

// `source>inside>mode` for each, with `;` between them. Mode: rw, ro, slave (HostToContainer).
static void mount_volumes(const struct container *one, const char *root) {
    char binds[TEXT], *rest = binds;
    snprintf(binds, sizeof binds, "%s", one->binds);
    for (char *item; (item = strsep(&rest, ";"));) {
        char *source = strsep(&item, ">"), *inside = strsep(&item, ">"), *mode = item;
        if (!source || !inside || !mode)
            continue;
        char *at = text("%s%s", root, inside);
        make_directory(at);
        if (strcmp(mode, "slave") == 0)
            bind_tree(source, at, 0);
        else
            bind_private(source, at, strcmp(mode, "ro") == 0 ? MS_RDONLY : 0);
    }
}

static void be_container(const struct pod *pod, const struct container *one, int ready) {
    char root[TEXT];
    snprintf(root, sizeof root, "%s/%s/rootfs", TASKS, one->id);
    if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL))
        die("slave");
    mount_system(root);
    mount_pod_parts(pod, one, root);
    mount_volumes(one, root);
    if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        die("pivot_root");
    // What a runtime leaves to a container that is not privileged, as those are not that hold nothing of the host.
    if (strcmp(one->binds, "-") == 0)
        for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
            if (!(0xa80425fbULL >> capability & 1) && prctl(PR_CAPBSET_DROP, capability))
                die("capabilities");
    for (int i = 1; i < one->processes; i++)
        if (fork() == 0)
            sleep_for_ever("worker");
    if (write(ready, ".", 1) != 1)
        _exit(1);
    close(ready);
    sleep_for_ever(one->name);
}

// As containerd's shim does it.
static void note_pid(const struct container *one, long pid) {
    int fd = open(text("%s/%s/init.pid", TASKS, one->id), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || dprintf(fd, "%ld", pid) < 0)
        die("init.pid");
    close(fd);
}

static void start_container(const struct pod *pod, const struct container *one, int ready) {
    char options[TEXT * 2], *upper = text(SNAPSHOTS "/%d", one->snapshot);
    const char *root = text("%s/%s/rootfs", TASKS, one->id);
    int length = snprintf(options, sizeof options, "lowerdir=");
    for (int layer = 6; layer >= 1; layer--)
        length += snprintf(options + length, sizeof options - length, "%s" SNAPSHOTS "/%d/fs", layer < 6 ? ":" : "", layer);
    make_directory(text("%s/fs", upper));
    make_directory(text("%s/work", upper));
    make_directory(root);
    snprintf(options + length, sizeof options - length, ",upperdir=%s/fs,workdir=%s/work", upper, upper);
    if (mount("overlay", root, "overlay", 0, options))
        die("overlay");
    char *group = text("kubepods/besteffort/pod%s/%s", pod->uid, one->id), part[TEXT];
    snprintf(part, sizeof part, "%s", group);
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdirat(cgroup_fd, part, 0755);
        *slash = '/';
    }
    if (mkdirat(cgroup_fd, part, 0755))
        die("cgroup");
    int fd = openat(cgroup_fd, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct clone_args how = {
        .flags = CLONE_INTO_CGROUP | CLONE_NEWNS, .exit_signal = SIGCHLD, .cgroup = (unsigned long long)fd};
    long pid = syscall(SYS_clone3, &how, sizeof how);
    if (pid < 0)
        die("clone3 into a cgroup");
    if (pid == 0)
        be_container(pod, one, ready);
    note_pid(one, pid);
    close(fd);
}

static const char SHIM[] = "/usr/bin/containerd-shim-runc-v2";

// The shim is the parent of a pod's containers, and in the host's mount namespace.
void start_pod(const struct pod *pod) {
    mount_new("tmpfs", text("/run/containerd/" SANDBOXES "/%s/shm", pod->sandbox),
              MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=65536k");
    mount_new("tmpfs", text("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~projected/token", pod->uid), 0, "size=64k");
    int ready[2];
    if (pipe2(ready, O_CLOEXEC))
        die("pipe");
    pid_t shim = fork();
    if (shim < 0)
        die("fork");
    if (shim == 0) {
        for (int i = 0; i < pod->count; i++)
            start_container(pod, &pod->containers[i], ready[1]);
        close(ready[1]);
        // What it is, its program and its command line tell.
        execl(SHIM, SHIM, "-namespace", "k8s.io", "-id", pod->sandbox, NULL);
        die(SHIM);
    }
    close(ready[1]);
    char dots[MAX_CONTAINERS];
    int got = 0;
    for (ssize_t n; got < pod->count && (n = read(ready[0], dots, sizeof dots)) > 0;)
        got += n;
    close(ready[0]);
    if (got < pod->count)
        _exit(1);  // The child has said why.
    printf("ok %d\n", shim);
}
