# SPDX-License-Identifier: Apache-2.0
"""What kubelet, the kernel and the product each say of a node, for the product's tests to hold side by side.

Restarts are counted by kubelet and by containerd's records, never by the product."""

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from tests.lab import pods
from tests.lab.errors import NodeFailed
from tests.lab.node import Node

CNI = pods.CNI
MOUNTED = "/host/etc/cni/net.d"
TOKENS = {"calico-node": "calico-kubeconfig", "kube-multus": "multus.d/multus.kubeconfig"}
WRITERS = tuple(TOKENS)
WATCHER = "ostreewatchd.service"
PATH_UNIT = "ostreewatchd-remediate.path"
REMEDIATION = "ostreewatchd-remediate.service"
SETTINGS = "/etc/ostreewatchd/ostreewatchd.conf"
_LEDGER = "lib/ostreewatchd/ledger.db"


@dataclass(frozen=True)
class Instance:
    """One container of a pod. `restarts` is kubelet's number, `sandbox` containerd's record."""

    uid: str
    sandbox: str
    id: str
    restarts: int


def start(node: Node, *manifests: pods.Manifest) -> dict[str, Instance]:
    """Apply pods, wait until they run, and say what they are before anything happens to them."""
    for manifest in manifests:
        node.apply_pod(manifest)
    names = [str(manifest["metadata"]["name"]) for manifest in manifests]
    for name in names:
        node.wait_pod(name)
    return instances(node, names)


def start_writers(node: Node) -> dict[str, Instance]:
    """The Calico and the Multus stand-in."""
    return start(node, pods.calico_node(), pods.kube_multus())


def instances(node: Node, names: Iterable[str] = WRITERS) -> dict[str, Instance]:
    """By name of the pod, once kubelet's numbers and containerd's records are of the same containers."""

    def same() -> Optional[dict[str, Instance]]:
        found = {}
        for name in names:
            status, container = node.pod_status(name), node.container(name)
            counted = status.containers[container.name]
            if not counted.running or counted.id != container.id:
                return None
            found[name] = Instance(container.pod_uid, container.sandbox, container.id, counted.restarts)
        return found

    return node.wait(same, 30, f"kubelet and containerd agree about {', '.join(names)}")


def fresh(node: Node, names: Iterable[str] = WRITERS) -> bool:
    """Whether each of these pods has the directory that the host has, by identity."""
    host = node.identity(CNI)
    return all(node.identity_in(node.container(name), MOUNTED) == host for name in names)


def healed(
    node: Node, before: Mapping[str, Instance], names: Iterable[str] = WRITERS, timeout: float = 30.0
) -> dict[str, Instance]:
    """Wait until each writer of `before` has the host's directory and the remediation is done; then each must have
    been restarted exactly once, in place: attempt + 1, same pod UID, same sandbox. All other pods of `before` must
    be the very containers that they were. `names` are the writers, if they are not the usual ones."""
    names = [name for name in names if name in before]
    node.wait(lambda: fresh(node, names) and idle(node), timeout, f"{', '.join(names)} are healed")
    after = instances(node, before)
    for name, one in after.items():
        if name not in names:
            assert one == before[name], f"{name} was not to be touched"
            continue
        assert one.restarts == before[name].restarts + 1, f"{name}: restarts {before[name].restarts} → {one.restarts}"
        assert one.id != before[name].id
        assert (one.uid, one.sandbox) == (before[name].uid, before[name].sandbox), f"{name}: not in place"
    return after


def untouched(node: Node, before: Mapping[str, Instance], seconds: float = 0.0) -> None:
    """All pods are the very containers that they were, now and for a while; works without kubelet."""
    end = time.monotonic() + seconds
    while True:
        for name, one in before.items():
            container = node.container(name)
            assert (container.id, container.sandbox) == (one.id, one.sandbox), f"{name} was restarted"
        if time.monotonic() >= end:
            return
        time.sleep(0.1)


def idle(node: Node) -> bool:
    """Whether no remediation runs or is asked for."""
    state = node.sh(["systemctl", "show", "-P", "ActiveState", REMEDIATION]).stdout.strip()
    return state in ("inactive", "failed") and node.sh("test -e /run/ostreewatchd/wanted", check=False).returncode == 1


def status_text(node: Node) -> str:
    """What the watcher tells systemd of itself."""
    return node.sh(["systemctl", "show", "-P", "StatusText", WATCHER]).stdout.strip()


def ctl(node: Node, *words: str, timeout: float = 60.0) -> tuple[int, str]:
    """ostreewatchctl as a person runs it: exit status and standard output."""
    done = node.sh(["ostreewatchctl", *words], check=False, timeout=timeout)
    return done.returncode, done.stdout


def facts(node: Node, *words: str) -> Any:
    """What a verb prints with --json."""
    status, text = ctl(node, *words, "--json")
    try:
        return json.loads(text)
    except ValueError:
        raise NodeFailed(f"ostreewatchctl {' '.join(words)} --json: exit status {status}, printed {text!r}") from None


def findings(node: Node, pod: Optional[str] = None) -> list[dict[str, Any]]:
    """All findings of `scan --json`, or one pod's."""
    found: list[dict[str, Any]] = facts(node, "scan")["findings"]
    names = {pod, f"{pod}-{node.name}"}
    return [one for one in found if pod is None or one["subject"]["pod"] in names]


def reports(node: Node, kind: str, since: Optional[float] = None) -> list[dict[str, Any]]:
    """The product's entries of a kind in the journal."""
    return node.journal(since=since, OSTREEWATCHD_KIND=kind)


def stops(node: Node, since: Optional[float] = None) -> list[str]:
    """The containers, by id, that the product said it was about to stop."""
    found = [one.get("OSTREEWATCHD_CONTAINER_ID") for one in reports(node, "intent", since)]
    return [one for one in found if one]


def refused(node: Node, name: str, since: Optional[float] = None) -> Optional[dict[str, Any]]:
    """The refusal's newest entry in the journal."""
    found = node.journal(since=since, OSTREEWATCHD_REFUSAL=name)
    return found[-1] if found else None


def wait_refusal(node: Node, name: str, timeout: float = 20.0) -> dict[str, Any]:
    """Wait for a refusal of that name in the journal; `status --json` must name it too, with its reason."""
    entry = node.wait(lambda: refused(node, name), timeout, f"the journal has the refusal {name}", every=0.2)
    node.wait(lambda: name in [one["name"] for one in facts(node, "status")["refusals"]], 10, f"status names {name}")
    return entry


def ledger(node: Node, query: str, poll: bool = False) -> list[tuple[Any, ...]]:
    """A query to the ledger, from outside of the node and without writing. `poll`: one that is not there or is
    being written is an empty one."""
    path = node.disk.var / _LEDGER
    try:
        base = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.0 if poll else 5.0)
        try:
            return base.execute(query).fetchall()
        finally:
            base.close()
    except sqlite3.Error as error:
        if poll:
            return []
        raise NodeFailed(f"{path}: {error}") from error


def acts(node: Node) -> list[tuple[str, str]]:
    """The ledger's acts, oldest first: container and outcome. None where there is no ledger yet."""
    if not (node.disk.var / _LEDGER).exists():
        return []
    return [
        (json.loads(one)["container"], end)
        for one, end in ledger(node, "SELECT subject, outcome FROM act ORDER BY id")
    ]


def reaches_host(node: Node, pod: str) -> bool:
    """Write a token in a pod the way that its CNI writer does: whether the host reads that one at once."""
    token = f"users: [{{user: {{token: of-the-test-{time.time_ns()}}}}}]"
    file = f"{MOUNTED}/{TOKENS[pod]}"
    how = {
        "calico-node": f"echo '{token}' >{file}",
        "kube-multus": f"echo '{token}' >{file}.new && mv {file}.new {file}",
    }
    container = node.container(pod)
    enter = ["nsenter", f"--target={container.pid}", "--mount", "--root", "--wdns=/", "/bin/sh", "-c", how[pod]]
    # The pod's own loop writes to the same file each second: it is stopped for the moment between.
    node.sh(["kill", "-STOP", str(container.pid)])
    try:
        node.sh(enter)
        return node.sh(["cat", f"{CNI}/{TOKENS[pod]}"]).stdout.strip() == token
    finally:
        node.sh(["kill", "-CONT", str(container.pid)])
