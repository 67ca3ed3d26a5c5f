# SPDX-License-Identifier: Apache-2.0
"""Pods for an API server, as the DaemonSets of real CNI writers make them, and one that needs their CNI."""

import uuid
from typing import Any, Optional

from tests.lab.api import PORT, Object

ADDRESS = "10.77.0.1"
SYSTEM = "kube-system"
WRITERS_IMAGE = "localhost/writers:1"
PROJECTED = "kube-api-access"


def plain(name: str) -> Object:
    """A pod that needs the CNI, and nothing else."""
    return _pod(name, "default", "plain", {"image": "localhost/busybox:1"}, host_network=False)


def multus() -> Object:
    """As the DaemonSet of Multus thin has it. It writes the kubeconfig anew only where it is also to clean up."""
    container = {
        "image": WRITERS_IMAGE,
        "command": ["/thin_entrypoint"],
        "args": ["--multus-conf-file=auto", "--cleanup-config-on-exit=true"],
        # It puts brackets around whatever it is given, and Go 1.26 takes them around a v6 address only.
        "env": _environment(f"::ffff:{ADDRESS}"),
    }
    mounts = {"/host/etc/cni/net.d": "/etc/cni/net.d", "/host/opt/cni/bin": "/var/opt/cni/bin"}
    labels = {"app": "multus", "name": "multus"}
    return _daemon("kube-multus-ds", "kube-multus", container, labels, mounts, account="multus", grace=10)


def calico_node() -> Object:
    """As the DaemonSet of Calico has it, as far as the host sees it."""
    container = {"image": WRITERS_IMAGE, "command": ["/calico-node"], "env": _environment(ADDRESS)}
    labels = {"k8s-app": "calico-node"}
    mounts = {"/host/etc/cni/net.d": "/etc/cni/net.d"}
    return _daemon("calico-node", "calico-node", container, labels, mounts, account="calico-node", grace=0)


def whereabouts() -> Object:
    """As the DaemonSet of whereabouts has it, less what frees addresses, which writes nothing on the host."""
    script = "SLEEP=false source /install-cni.sh; /token-watcher.sh & while :; do sleep 3600; done"
    container = {
        "image": WRITERS_IMAGE,
        "command": ["/bin/sh", "-c", script],
        "env": [*_environment(ADDRESS), {"name": "WHEREABOUTS_NAMESPACE", "value": SYSTEM}],
    }
    mounts = {"/host/etc/cni/net.d": "/etc/cni/net.d", "/host/opt/cni/bin": "/var/opt/cni/bin"}
    labels = {"tier": "node", "app": "whereabouts", "name": "whereabouts"}
    return _daemon("whereabouts", "whereabouts", container, labels, mounts, account="whereabouts", grace=0)


def _environment(host: str) -> list[Object]:
    return [{"name": "KUBERNETES_SERVICE_HOST", "value": host},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(PORT)}]  # fmt: skip


def _daemon(
    owner: str, name: str, container: Object, labels: Object, mounts: dict[str, str], *, account: str, grace: int
) -> Object:
    """A pod as the DaemonSet controller would make one, each time under another name."""
    made = _pod(f"{owner}-{uuid.uuid4().hex[:5]}", SYSTEM, name, container, grace=grace, account=account)
    made["metadata"]["labels"] = {**labels, "controller-revision-hash": "6f7c8d9b5", "pod-template-generation": "1"}
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": str(uuid.uuid4()), "controller": True}
    ]
    for number, (inside, host) in enumerate(mounts.items()):
        made["spec"]["volumes"].append({"name": f"host-{number}", "hostPath": {"path": host}})
        made["spec"]["containers"][0]["volumeMounts"].append({"name": f"host-{number}", "mountPath": inside})
    return made


def _pod(
    name: str,
    namespace: str,
    container_name: str,
    container: Object,
    *,
    host_network: bool = True,
    grace: int = 0,
    account: Optional[str] = None,
) -> Object:
    spec: dict[str, Any] = {
        "hostNetwork": host_network,
        "terminationGracePeriodSeconds": grace,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": container_name, "imagePullPolicy": "Never", "volumeMounts": [], **container}],
        "volumes": [],
    }
    if account is not None:
        spec["serviceAccountName"] = account
        # What the ServiceAccount admission plugin would add, with the shortest time that a token may have.
        sources = [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        ]
        spec["volumes"].append({"name": PROJECTED, "projected": {"sources": sources}})
        where = "/var/run/secrets/kubernetes.io/serviceaccount"
        spec["containers"][0]["volumeMounts"].append({"name": PROJECTED, "mountPath": where})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
