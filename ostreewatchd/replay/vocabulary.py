# SPDX-License-Identifier: Apache-2.0
"""Words that are nobody's name. What is not here, and in no platform's table, is replaced where a snapshot is
anonymized."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ostreewatchd.platforms import FLAGS, GENERIC, PLATFORMS, FlagFile

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
aarch64 abort aborted above absolute access accessing act active acts add address admin after again ago all allocate
alone already also alter always amd64 anew anode anonymized another answer answered answers any anybody apply
applying are argument arguments arm64 array aside asked assign attached attempt attempted attempting autoincrement
available avoided back backend backing bad became because been before began begin begins being belongs below between
bind binds block boot bootc booted boottime both broke broken buffer bundle busy but byte bytes call came can
canceled cancelled cannot cap caused certain changed channel character characters check child class clean cleaning
clock closed cluster cni code collection column combination communication complete configuration configured connect
connected connection container context contradict controller corrupt corrupted could create created cri cross csi
cure cured cures currently cut dac daemonset damaged database datagram day deadline deadlock death decode deep deeper
defined denied deployment deployments desc descriptor desired destination details development device df dial
dictionary did died different digits directly directories directory disabled disk do does done down driver dropped
due during each earlier early effect el10 el8 el9 element else empty end ended endpoint ends entries entry error
escaped every exceeded exchange exec exist existing exists exit exited expired fail failed fails failure false family
fault fifo file files filesystem finalize finding fingerprint first flag follows font for forbidden forgets fork form
format formats found fresh full function garbage gave generic get give go goes gone grace grpc gvariant had half
halted handle hangs has have heal health healthy healthz here hexadecimal higher hold holds hotfix hour how
identifier identity illegal image immediate implemented inappropriate incomplete info init initialized inode input
inside install installed integer intent internal interrupted into invalid ioctl is its itself journalctl judged
judging keeps kernel key kill kind know known knows label labels lacks large larger last later leads leave ledger
left level levels libraries library limit line link links list lists live lived lives locked locks long longer look
looked lookup lose lost lts machines made make makes malformed manifest many mapping marks max maximum may meanwhile
medium message metadata min mine missing moment more most mounted mountinfo mounting mounts multibyte multihop must
named names namespace namespaces need needed needs neither network never new newer newest next nextroot node nodes
non none nor normal not note noted nothing now ns null number numerical object observe off offsets ok old older on
once one only open opens operation option order ostreewatchctl ostreewatchd others otherwise out outcome output
overlayfs overloaded owed own owner owns package padding parsed part partly parts patch pause peer pending period
permission permission_denied permitted person pid piece place please plugins point possible post prepared primary
private procedure process processes product program progress proof propagation protocol ptrace queue quick raised
range reachable reaches read reads real reason reboot rebooted records recoverable reference references refusal
refused regular rejected remediate remediation remote remove removed removes rename repeat repeating replaced
replicaset report request requested required rerun reset resource resource_exhausted restart restarted restarting
restartpolicy restarts result resume returned revoked room rounds route rpc rpm rt rule running runs runtime said
same sandbox sandboxes say says script search second seconds secret section see seek seen selinux semaphores send
sent set sets setting severed short should shows shutdown since size snapshot so something somewhere space spec
specific specified spent srmount stage staged stale stamp start started starts statefulset status step still stop
stopped stopping stops stored stream streams structure subject such summary supported switch switched symbolic
synchronized systemctl table taken takes tell tells temporarily terminal text than that their them then there these
they thing this those through time timed timer times told too torn touched transient transport tree tried true tuple
turned twice two type umount unasked unauthenticated unavailable undeploy undeployed under unhealthy unimplemented
unique unit unknown unlock unlocked unreachable unreadable unsupported until up usable use used user users userspace
uses utc utf valid value version virt virtual visible wait waits was watched way well went were what whatever when
where whether which while who whole whose why wide will windows with within without would writable write writer
writes written wrong wrote x86 xenix yet younger
"""
"""Of the product's own texts, of strerror(3), and of kernels' release names."""


_TABLES = (GENERIC, *PLATFORMS, *FLAGS)


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

_MEANINGS = " ".join(flag.means for flag in FLAGS)
LANGUAGE = frozenset({*_words(_MOUNTS), *_words(_SENTENCES), *_words(_MEANINGS)})
"""Kept in texts for people and in mount lines, where they are in no name too."""
