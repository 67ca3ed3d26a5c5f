# SPDX-License-Identifier: Apache-2.0
"""Manifests of the pods that tests look at: two CNI writers, and bystanders that must be left alone."""

from typing import Any, Optional

IMAGE = "localhost/busybox:1"
CNI = "/etc/cni/net.d"
Manifest = dict[str, Any]

# PID 1 of a pod gets no default action for SIGTERM: without the trap each stop lasts its grace period.
_SHELL = "trap 'exit 0' TERM INT; "

# As Calico does: the file is truncated and written in place, never replaced (its inode stays).
CALICO_LOOP = """
n=0
while :; do
    n=$((n + 1))
    echo "users: [{user: {token: $n-$(cat /proc/sys/kernel/random/uuid)}}]" >/host/etc/cni/net.d/calico-kubeconfig
    sleep 1 & wait $!
done
"""

# As Multus does: a temporary file, then a rename (each time another inode).
MULTUS_LOOP = """
mkdir -p /host/etc/cni/net.d/multus.d
n=0
while :; do
    n=$((n + 1))
    new=/host/etc/cni/net.d/multus.d/.multus.kubeconfig.new
    echo "users: [{user: {token: $n-$(cat /proc/sys/kernel/random/uuid)}}]" >$new
    mv $new /host/etc/cni/net.d/multus.d/multus.kubeconfig
    sleep 1 & wait $!
done
"""

IDLE = "while :; do sleep 3600 & wait $!; done"


def pod(
    name: str,
    script: str = IDLE,
    *,
    namespace: str = "kube-system",
    mounts: Optional[list[dict[str, Any]]] = None,
    labels: Optional[dict[str, str]] = None,
    restart: str = "Always",
    host_network: bool = True,
    grace: int = 5,
) -> Manifest:
    """A static pod with one container of its own name. A mount: name, hostPath and what volumeMounts takes."""
    volumes = []
    volume_mounts = []
    for mount in mounts or []:
        rest = dict(mount)
        volumes.append({"name": rest["name"], "hostPath": {"path": rest.pop("hostPath")}})
        volume_mounts.append(rest)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {
            "hostNetwork": host_network,
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": grace,
            "containers": [
                {
                    "name": name,
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["/bin/sh", "-c", _SHELL + script],
                    "volumeMounts": volume_mounts,
                }
            ],
            "volumes": volumes,
        },
    }


def _net_d() -> list[dict[str, Any]]:
    return [{"name": "cni-net-dir", "hostPath": CNI, "mountPath": "/host/etc/cni/net.d"}]


def calico_node() -> Manifest:
    """A CNI writer with a DaemonSet pod's labels."""
    labels = {
        "k8s-app": "calico-node",
        "controller-revision-hash": "6f7c8d9b5",
        "pod-template-generation": "1",
    }
    return pod("calico-node", CALICO_LOOP, mounts=_net_d(), labels=labels, grace=0)


def kube_multus() -> Manifest:
    """A CNI writer that is a plain static pod: only its manifest proves that kubelet starts it again."""
    return pod("kube-multus", MULTUS_LOOP, mounts=_net_d(), labels={"app": "multus", "name": "multus"}, grace=0)


def host_root() -> Manifest:
    """Sees all of the host and follows its mounts."""
    mounts = [
        {
            "name": "root-dir",
            "hostPath": "/",
            "mountPath": "/hostroot",
            "mountPropagation": "HostToContainer",
        }
    ]
    return pod("host-root", mounts=mounts)


def etc_readonly() -> Manifest:
    """Reads /etc."""
    return pod(
        "etc-readonly",
        mounts=[{"name": "etc-dir", "hostPath": "/etc", "mountPath": "/host/etc", "readOnly": True}],
    )


def lib_modules() -> Manifest:
    """Reads the kernel's modules, as calico-node and kube-proxy do."""
    mounts = [{"name": "modules", "hostPath": "/lib/modules", "mountPath": "/lib/modules", "readOnly": True}]
    return pod("lib-modules", mounts=mounts)


def plain(host_network: bool = True) -> Manifest:
    """Mounts nothing of the host; without the host's network its sandbox needs the CNI."""
    return pod("plain", namespace="default", host_network=host_network)


def job_like() -> Manifest:
    """A CNI writer that kubelet would not start again."""
    return pod("job-like", mounts=_net_d(), namespace="default", restart="Never")
