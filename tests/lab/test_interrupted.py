# SPDX-License-Identifier: Apache-2.0
"""The remediation is killed around its one act: what is left is taken up again, and one restart is all there is.

The moments are found from outside: the intent's row is in the ledger before the stop, the container's end comes
after it. A process is stopped at such a moment, looked at, and killed."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable

import pytest

from tests.lab import cgroups, pods
from tests.lab.errors import NodeFailed
from tests.lab.node import Node
from tests.lab.witness import (
    REMEDIATION,
    WATCHER,
    Instance,
    acts,
    healed,
    instances,
    ledger,
    reports,
    start,
    stops,
    untouched,
)

pytestmark = pytest.mark.lab

TRIES = 3


def test_killed_just_before_the_stop(node: Node) -> None:
    """Invariant 6. The intent is on disk and nothing is stopped yet: the next run takes up that very act."""
    for _ in range(TRIES):
        before = start(node, pods.calico_node())
        pid = node.container("calico-node").pid
        known = _intents(node)
        node.in_service_patch()
        _at_intent(node, known)
        remediation = _main_process(node, REMEDIATION, "ostreewatchd-re")
        with _stopped(remediation):
            time.sleep(0.3)  # A stop that was sent already would have ended the container by now.
            in_time = _lives(node, pid)
            if in_time:
                assert acts(node)[known:] == [("calico-node", "")]
                os.kill(remediation, signal.SIGKILL)
        if in_time:
            break
        # It was quicker than this process: next switch, next try.
        healed(node, before, timeout=45)
    else:
        pytest.fail(f"not stopped between intent and stop in {TRIES} tries")

    _one_restart(node, before, known)
    assert stops(node).count(before["calico-node"].id) == 1, "announced once, by the run that did it"


def test_killed_while_the_stop_is_under_way(node: Node) -> None:
    """Invariant 6. The runtime has the request, or has it not: nobody knows, so the container is what is asked."""
    before = start(node, pods.calico_node())
    containerd = _main_process(node, "containerd.service", "containerd")
    node.in_service_patch()
    _at_intent(node, 0)
    with _stopped(containerd):
        # Said right before the call, which gets no answer now.
        node.wait(lambda: stops(node), 5, "the stop is about to be sent")
        time.sleep(0.2)
        assert acts(node) == [("calico-node", "")]
        os.kill(_main_process(node, REMEDIATION, "ostreewatchd-re"), signal.SIGKILL)

    _one_restart(node, before, 0)


@pytest.mark.parametrize("watcher_too", [False, True], ids=["remediation", "remediation and watcher"])
def test_killed_just_after_the_stop(node: Node, watcher_too: bool) -> None:
    """Invariants 6 and 7. The container is stopped, and kubelet starts it again by itself: still the act gets its
    proof and its outcome, from the next run, and that run stops nothing."""
    before = start(node, pods.calico_node())
    pid = node.container("calico-node").pid
    node.in_service_patch()
    _at_intent(node, 0)
    _at(lambda: not _lives(node, pid), "the container is stopped")
    remediation = _main_process(node, REMEDIATION, "ostreewatchd-re")
    with _stopped(remediation):
        assert acts(node) == [("calico-node", "")], "not killed before the outcome was written"
        if watcher_too:
            node.kill(WATCHER)
        os.kill(remediation, signal.SIGKILL)

    _one_restart(node, before, 0)
    assert len(stops(node)) == 1, "announced once, by the run that was killed"
    assert "resumed" in reports(node, "cured")[-1]["OSTREEWATCHD_PROOF"]


def _one_restart(node: Node, before: dict[str, Instance], known: int) -> None:
    """One act with the outcome cured, one restart by kubelet's count, and none after that."""
    assert node.sh(["systemctl", "show", "-P", "Result", REMEDIATION]).stdout.strip() in ("signal", "success")
    node.wait(lambda: [end for _, end in acts(node)[known:]] == ["cured"], 45, "the act has its outcome", every=0.2)
    after = healed(node, before)
    untouched(node, after, seconds=1.0)
    assert instances(node, after) == after
    assert acts(node)[known:] == [("calico-node", "cured")]


def _intents(node: Node) -> int:
    return len(ledger(node, "SELECT id FROM act", poll=True))


def _at_intent(node: Node, known: int) -> None:
    """Return the moment that there are more than the known intents."""
    _at(lambda: _intents(node) > known, "the intent is in the ledger")


def _at(condition: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
    """Return the moment that it is so: asked without a pause, for the moment is milliseconds long."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise NodeFailed(f"not within {timeout:g} s: {what}")


def _main_process(node: Node, unit: str, command: str) -> int:
    """The process of a unit that has this command name, as the machine counts."""
    for group in cgroups.entries(node.leader):
        try:
            members = (group / "system.slice" / unit / "cgroup.procs").read_text().split()
        except (FileNotFoundError, OSError):
            continue
        for member in members:
            if Path("/proc", member, "comm").read_text().strip() == command:
                return int(member)
    raise NodeFailed(f"{unit} has no process {command}")


@contextmanager
def _stopped(process: int) -> Iterator[None]:
    """Hold a process for a while; it may end meanwhile."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def _lives(node: Node, pid: int) -> bool:
    """Whether a process of the node runs: neither gone nor a zombie."""
    try:
        return Path(node.root, "proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
