# SPDX-License-Identifier: Apache-2.0
"""Words that are nobody's name. What is not here, and in no platform's table, is replaced where a snapshot is
anonymized."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ostreewatchd.platforms import GENERIC, PLATFORMS, FlagFile

WORD = re.compile("[A-Za-z0-9\x80-\U0010ffff]+")

_PATHS = """
a alternatives apps audit bin boot ca cgroup checkpoints cni conf config configs containerd containers containerdata
crio d data db deploy dev devices docker entries etc extensions fs etcd flexvolume group home host hostname hosts io
json k3s k8s kata kubelet kubernetes lib lib64 libexec libvirt loader localtime log logs machine-id manifests media
microk8s mnt modprobe modules multus net netns network nodename opt origin os-release ostree overlay
overlay-containers passwd path pem pki plugins plugin plugins_registry pod-resources pods policy proc prometheus
resolv rke2 rancher root run rootfs run-containerd sbin secrets security selinux server agent shadow shim share snap
snapshots snapshotter sockets socket srv ssl state static storage subpath sys sysctl sysroot system systemd timezone
tls tmp token tokens tuned udev userdata usr var volume-subpaths volumes volume xtables yaml yml zoneinfo
kubernetes.io~configmap kubernetes.io~projected kubernetes.io~secret kubernetes.io~empty-dir empty-dir-wrapped
conflist loopback bridge calico cilium flannel ovn ovs sriov whereabouts kubeconfig service slice scope mount target
automount swap timer apiserver controller manager scheduler proxy front crt key debian fedora rhcos centos scos
coreos flatcar default local v1 v2 runc crun conmon cri cloud hypervisor qemu firecracker dragonball openshift
calico-system tigera operator kube file http api https tcp unix unknown an and as at be by if in is it no of on or s
the to job name controller-revision-hash pod-template-generation pod-template-hash statefulset.kubernetes.io batch
kubernetes.io/config.source revision repo refs heads rpmostree live apply inprogress deployment staged locked booted
finalize failure stamp nextroot unlocked
"""
"""Of paths, file names, namespaces, labels and units that come with the platforms; and those of a sentence that are
too short to tell anything."""

_MOUNTS = """
rw ro relatime noatime nodiratime nosuid nodev noexec shared master propagate from unbindable strictatime lazytime
ext2 ext3 ext4 xfs btrfs f2fs erofs squashfs bcachefs zfs tmpfs ramfs devtmpfs devpts mqueue hugetlbfs sysfs
securityfs debugfs tracefs pstore bpf cgroup2 nsfs fuse fuseblk nfs nfs4 cifs smb3 ceph glusterfs 9p virtiofs autofs
vfat iso9660 composefs rpc_pipefs efivarfs configfs binfmt fusectl gpfs lustre beegfs ocfs2 gfs2 afs errors remount
continue panic seclabel inode32 inode64 logbufs logbsize attr2 noquota usrquota grpquota prjquota discard space cache
ssd subvolid subvol compress zstd lzo size mode uid gid nr inodes lowerdir upperdir workdir metacopy redirect dir
index nfs_export xino volatile userxattr uuid digest verity require vers rsize wsize namlen hard soft proto timeo
retrans sec clientaddr addr lookupcache lock mountproto mountvers mountport mountaddr username domain file iocharset
codepage shortname mixed utf8 quota stripe data ordered writeback barrier commit journal checksum user id allow other
group fd pgrp timeout minproto maxproto indirect direct offset pipe ino context huge memory recursiveprot sda sdb sdc
vda vdb nvme0n1 nvme0n1p1 dm mapper loop0 none deleted
"""

_SENTENCES = """
above absolute act active after again alone already all another answer answered answers any are aside asked attempt
because been before began begins being belongs below between bind binds boot booted boottime broke but bytes came can
cannot changed channel check clean clock closed cluster collection combination complete configuration configured
connect connection container contradict controller corrupt could cure cured cures database death decode denied
deployment details did digits directory disabled disk does done due during earlier each early effect else empty end
ended entries entry every exit exited failed fault file files filesystem fingerprint first for found full function
gone grace had hangs has have heal healthz here hexadecimal holds how identity image info init inside install intent
into its itself judged judging keeps kernel kill kind known knows lacks large larger later ledger level limit line
link list live lived lives long longer look looked lookup lost made make makes malformed mapping maximum may
meanwhile message metadata mine more most mounted mounting mounts must mountinfo names namespace namespaces needs
neither never new newer newest next node none nor not note noted nothing now number observe old older once one only
others out outcome overloaded owed own owner owns parsed part parts patch pending period person pid place please post
process processes program proof propagation quick read reachable reaches reason reference refusal refused regular
remediate remediation removed rename repeating replaced report request rerun restart restarted restarting restarts
rounds rule running runs runtime same sandbox sandboxes say says script second seconds section see seen sent set
shows shutdown since so something somewhere spec stale start started starts status step still stop stopped stopping
stored stops subject such summary switch switched table taken tell tells than that their them then there these they
thing this those through time times told too torn touched tree tried two under unit until unreadable up use used
value version waits was watched way were what when where whether which while who whose why will with within without
would writable write writer writes written wrong yet younger always on failure restartpolicy cri cni daemonset
replicaset statefulset ptrace cap dac search selinux aborted access address allocate argument arguments available bad
block broken busy cancelled corrupted create cross currently datagram deadlock descriptor device different error exec
exist existing exists expired fifo flag fork format forbidden handle higher illegal implemented initialized input
inappropriate interrupted invalid ioctl is key last levels many missing multihop network numerical open operation
option output package permission permitted point private procedure protocol queue range rejected remote required
reset resource result returned route seek setting size space specified stream structure supported symbolic
temporarily terminal text timer transport type unavailable unknown unsupported usable valid wide amd64 arm64 aarch64
x86 rt generic virt lts el8 el9 el10 development transient hotfix grpc rpc deadline exceeded unimplemented internal
resource_exhausted unauthenticated permission_denied dial desc code context canceled healthy unhealthy ok plugins
secret cut off
"""
"""Of the product's own texts, of strerror(3), and of kernels' release names."""


_TABLES = (GENERIC, *PLATFORMS)


def _words(text: str) -> Iterator[str]:
    return (match.lower() for match in WORD.findall(text))


def _of_table(thing: Any) -> Iterator[str]:
    """The words of all names and paths in a table."""
    if isinstance(thing, str):
        yield from _words(thing)
    elif isinstance(thing, FlagFile):
        yield from _words(thing.path)
    elif isinstance(thing, tuple):
        for one in thing:
            yield from _of_table(one)


PLATFORM = frozenset({*_words(_PATHS), *_of_table(_TABLES)})
"""Kept also in names and paths."""

_MEANINGS = " ".join(flag.means for table in _TABLES for flag in table.flags)
LANGUAGE = frozenset({*_words(_MOUNTS), *_words(_SENTENCES), *_words(_MEANINGS)})
"""Kept in texts for people and in mount lines, where they are in no name too."""
