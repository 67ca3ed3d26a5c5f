// SPDX-License-Identifier: Apache-2.0
// What node.c and containers.c share. All end the program with the reason where something fails.

#pragma once
#define _GNU_SOURCE

#define SANDBOXES "io.containerd.grpc.v1.cri/sandboxes"
#define SNAPSHOTS "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
#define TASKS "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
#define DEPLOY "/ostree/deploy/debian/deploy"
#define MAX_CONTAINERS 8
#define TEXT 1024

struct container {
    char id[80], name[80], kind[16], binds[TEXT];
    int snapshot, processes;
};
struct pod {
    char uid[64], sandbox[80];
    struct container containers[MAX_CONTAINERS];
    int count;
};

extern int cgroup_fd;

void die(const char *what) __attribute__((noreturn));
// Formatted text in one of a few slots that are used in turn.
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void make_directory(const char *path);
void make_file(const char *path);
void mount_new(const char *type, const char *at, unsigned long flags, const char *options);
void bind_tree(const char *source, const char *at, unsigned long flags);
// As a container gets it, so that nothing of the host's later mounts reaches it.
void bind_private(const char *source, const char *at, unsigned long flags);
void sleep_for_ever(const char *name) __attribute__((noreturn));
// The shim is the parent of a pod's containers, and in the host's mount namespace.
void start_pod(const struct pod *pod);
