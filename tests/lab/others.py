# SPDX-License-Identifier: Apache-2.0
"""Others at work on a node: the distribution's own script, and who stops a sandbox by hand. What they stopped is
remembered, to be held against kubelet's numbers."""

import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from ostreewatchd.peers.cri.acts import RuntimeActs
from tests.lab import pods
from tests.lab.errors import NodeFailed
from tests.lab.node import MANIFESTS, Node
from tests.lab.witness import CNI, MOUNTED, idle, ledger

# What the script of starlingx/update stops by name (23d2727): `crictl stop` of each that runs, in this order.
NAMES = ("calico-node", "kube-multus", "multus-watcher")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Counted:
    """A container, with kubelet's number of its restarts."""

    uid: str
    id: str
    restarts: int


@dataclass
class Round:
    """Pods that are new to kubelet, on a node that may have seen others: no restart is counted yet."""

    node: Node
    suffix: str
    """Of its pods' names."""
    before: dict[str, Counted]
    acts_before: int
    by_others: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in NAMES})
    """Ids of the running containers that somebody else stopped."""

    def script(self, names: Sequence[str] = NAMES) -> None:
        """As `crictl ps -q --name` and `crictl stop`, which kills at once: in each case the same CRI call."""
        with RuntimeActs.connect(f"{self.node.root}/run/containerd/containerd.sock", deadline=10.0) as runtime:
            for name in names:
                for one in self.node.containers():
                    if one.name == name:
                        runtime.stop_container(one.id, 0)
                        self.by_others[name].add(one.id)

    def stop_sandbox(self, pod: str) -> None:
        """As `crictl stopp`."""
        found = self.node.containers(pod + self.suffix)
        with RuntimeActs.connect(f"{self.node.root}/run/containerd/containerd.sock", deadline=20.0) as runtime:
            runtime.stop_sandbox(found[0].sandbox)
        for one in found:
            self.by_others[one.name].add(one.id)

    def acts(self) -> list[tuple[str, str, str]]:
        """Of this round: container, its id, outcome."""
        rows = ledger(self.node, f"SELECT subject, outcome FROM act WHERE id > {self.acts_before} ORDER BY id")
        subjects = [(json.loads(subject), outcome) for subject, outcome in rows]
        return [(one["container"], one["container_id"], outcome) for one, outcome in subjects]

    def by_us(self) -> dict[str, list[str]]:
        """By name: the ids of what the product stopped, as far as it may have."""
        found: dict[str, list[str]] = {name: [] for name in NAMES}
        for name, id, outcome in self.acts():
            if outcome not in ("not-needed", "not-done"):
                found[name].append(id)
        return found

    def at_intent(self, number: int = 1, timeout: float = 60.0) -> None:
        """Return the moment that there are so many intents: asked without a pause, it is milliseconds long."""
        deadline = time.monotonic() + timeout
        while len(ledger(self.node, f"SELECT id FROM act WHERE id > {self.acts_before}", poll=True)) < number:
            if time.monotonic() > deadline:
                raise NodeFailed(f"not within {timeout:g} s: intent number {number}")

    def settled(self, names: Sequence[str] = NAMES, timeout: float = 45.0) -> dict[str, Counted]:
        """Wait until these run, show the host's directory, and no remediation is to come."""

        def done() -> Optional[dict[str, Counted]]:
            found = counted(self.node, self.suffix, names)
            host = self.node.identity(CNI)
            running = {one.name: one for one in self.node.containers() if one.name in names}
            if {name: one.id for name, one in running.items()} != {name: one.id for name, one in found.items()}:
                return None
            fresh = all(self.node.identity_in(one, MOUNTED) == host for one in running.values())
            return found if fresh and idle(self.node) else None

        return self.node.wait(done, timeout, f"{', '.join(names)} are fresh, and it is quiet", every=0.1)

    def check(self, after: dict[str, Counted]) -> None:
        """Invariants 6 and 7: nothing was stopped twice by the product, each act has its outcome, and kubelet
        counts what the product and the others can account for, no more and no less."""
        ours = self.by_us()
        assert all(outcome for _, _, outcome in self.acts()), f"an act has no outcome: {self.acts()}"
        for name, one in after.items():
            assert len(ours[name]) <= 1, f"{name} was stopped twice by the product: {ours[name]}"
            accounted = set(ours[name]) | self.by_others[name]
            restarts = one.restarts - self.before[name].restarts
            assert restarts == len(accounted), (
                f"{name}: kubelet counts {restarts}; the product stopped {ours[name]}, others"
                f" {sorted(self.by_others[name])}"
            )

    def stays(self, after: dict[str, Counted], seconds: float = 1.5) -> None:
        """Nothing more comes."""
        time.sleep(seconds)
        assert self.settled(list(after)) == after


def begin(node: Node) -> Round:
    """Both pods anew, under other names: kubelet would wait long before it starts one of the same name again."""
    suffix = f"-{next(_numbers)}"
    node.sh(f"rm -f {MANIFESTS}/*.json")
    for manifest in (pods.calico_node(), multus()):
        manifest["metadata"]["name"] += suffix
        node.apply_pod(manifest)

    def there() -> Optional[dict[str, Counted]]:
        known = counted(node, suffix, NAMES)
        return (
            known if sorted(one.id for one in node.containers()) == sorted(one.id for one in known.values()) else None
        )

    known = node.wait(there, 30, "the new pods run, and no others")
    acts = ledger(node, "SELECT COALESCE(MAX(id), 0) FROM act", poll=True)
    assert all(one.restarts == 0 for one in known.values())
    return Round(node, suffix, known, int(acts[0][0]) if acts else 0)


def next_switch(round: Round, names: Sequence[str] = NAMES) -> Round:
    """The same pods, counted from here."""
    known = counted(round.node, round.suffix, names)
    return Round(round.node, round.suffix, known, ledger(round.node, "SELECT MAX(id) FROM act")[0][0])


def multus() -> pods.Manifest:
    """The Multus stand-in with the second container that StarlingX gives it, which writes there too."""
    manifest = pods.kube_multus()
    main = manifest["spec"]["containers"][0]
    script = main["command"][2].replace("multus.kubeconfig", "watcher.kubeconfig")
    manifest["spec"]["containers"].append({**main, "name": "multus-watcher", "command": ["/bin/sh", "-c", script]})
    return manifest


def counted(node: Node, suffix: str, names: Sequence[str]) -> dict[str, Counted]:
    """By container, by kubelet's own account. Raises NodeFailed while one does not run."""
    found = {}
    for pod in node.pods():
        if not pod.name.endswith(f"{suffix}-{node.name}"):
            continue
        for name, one in pod.containers.items():
            if name in names and one.running:
                found[name] = Counted(pod.uid, one.id, one.restarts)
    if set(found) != set(names):
        raise NodeFailed(f"kubelet knows of {sorted(found)} only")
    return found
