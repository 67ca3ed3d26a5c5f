# SPDX-License-Identifier: Apache-2.0
"""Many CNI writers on one node, each in a pod of its own: one switch, and an act for each. kubelet counts a restart of
each, and none of them is within its back-off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from tests.lab import pods
from tests.lab.node import MANIFESTS, Node
from tests.lab.witness import CNI, MOUNTED, idle


@dataclass(frozen=True)
class Member:
    """A container, with kubelet's number of its restarts."""

    uid: str
    id: str
    restarts: int


Crowd = dict[str, Member]
"""By the pod's name, as in its manifest."""


def gather(node: Node, calicos: int, multuses: int) -> Crowd:
    """So many of each, running."""
    names = []
    for make, many in ((pods.calico_node, calicos), (pods.kube_multus, multuses)):
        for number in range(1, many + 1):
            manifest = make()
            manifest["metadata"]["name"] += f"-{number}"
            node.apply_pod(manifest)
            names.append(str(manifest["metadata"]["name"]))
    return node.wait(lambda: count(node, names), 60, f"{len(names)} pods run")


def count(node: Node, names: Sequence[str]) -> Optional[Crowd]:
    """By kubelet's own account, once containerd agrees; nothing while one does not run."""
    running = {one.id for one in node.containers()}
    found = {}
    for pod in node.pods():
        name = pod.name[: -len(f"-{node.name}")]
        for one in pod.containers.values() if name in names else ():
            if one.running and one.id in running:
                found[name] = Member(pod.uid, one.id, one.restarts)
    return found if len(found) == len(names) else None


def settled(node: Node, names: Sequence[str], timeout: float = 60.0) -> Crowd:
    """Wait until all show the host's directory, and no remediation runs or is asked for."""

    def done() -> Optional[Crowd]:
        found = count(node, names)
        if found is None or not idle(node):
            return None
        host, known = node.identity(CNI), {one.id for one in found.values()}
        mine = [one for one in node.containers() if one.id in known]
        fresh = len(mine) == len(names) and all(node.identity_in(one, MOUNTED) == host for one in mine)
        return found if fresh else None

    return node.wait(done, timeout, f"{len(names)} writers are fresh, and it is quiet", every=0.2)


def dismiss(node: Node) -> None:
    """Take all away, and wait for it."""
    node.sh(f"rm -f {MANIFESTS}/*.json")
    node.wait(lambda: not node.containers(), 30, "no pod is left")
