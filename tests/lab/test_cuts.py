# SPDX-License-Identifier: Apache-2.0
"""A remediation is cut right before and right after what it writes and what it asks for, around each act: by SIGKILL,
and by taking the power away.

The moments are those of a traced run. By default the chosen ones are tried, which are told apart by what is on disk
and what the runtime knows; OSTREEWATCHD_CUTS=all tries every one, for both kinds of writer."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab import crowd, cuts, statedisk
from tests.lab.cuts import Moment, Moments
from tests.lab.node import Node
from tests.lab.statedisk import StateDisk
from tests.lab.trace import Call, follow
from tests.lab.witness import PATH_UNIT, WATCHER, acts, ctl, idle, ledger, reports, stops

pytestmark = pytest.mark.lab

ALL = os.environ.get("OSTREEWATCHD_CUTS") == "all"
ASKED = "intent: ask for the stop 1 done"
CHOSEN = (
    ("intent: open ledger.db-journal 1 begins", ""),  # Nothing is written yet.
    ("intent: fdatasync ledger.db 1 begins", ""),  # Written, and to be taken back: the transaction has not ended.
    ("intent: unlink ledger.db-journal 1 done", ""),  # The intent is there.
    ("intent: ask for the stop 1 begins", ""),
    (ASKED, ""),
    (ASKED, "the runtime is frozen"),  # It has the request, and nobody knows what it will do with it.
    ("intent: the answer 1 done", ""),
    ("intent: the answer 1 done", "the watcher is killed too"),
    ("outcome: open ledger.db-journal 1 begins", ""),  # The proof is there.
    ("outcome: fdatasync ledger.db 1 begins", ""),
    ("outcome: unlink ledger.db-journal 1 done", ""),
    ("outcome: tell the journal 1 done", ""),
)
Cut = tuple[str, str]
"""A moment, and what else is done there."""
LAST = f"2 {ASKED}"
BATCH = 8
"""Writers of each kind for one switch: both are less than what RestartsPerSwitch= allows."""


def test_killed_around_each_act(node: Node) -> None:
    """Invariants 6 and 7. One switch with as many acts as there are cuts, each cut at another moment: kubelet counts
    one restart of each, and each act has its outcome."""
    _killed_at(node, CHOSEN[::2], CHOSEN[1::2])


@pytest.mark.skipif(not ALL, reason="takes minutes: OSTREEWATCHD_CUTS=all")
def test_killed_at_every_moment_of_a_traced_run(built: None) -> None:
    """The same for whatever a run does for an act, for the first and for the second."""
    traced: list[Moment] = []
    with _booted() as node:
        crowd.gather(node, 1, 1)
        _wait_known(node, cuts.state(node))
        with cuts.held(node):
            node.in_service_patch()
            moments = Moments(node, switches=1, acts=2)
            follow(cuts.take(node), lambda call: traced.extend(filter(None, [moments.of(call)])) is not None)
    around = [one for one in traced if one.name.startswith(("intent:", "outcome:"))]
    calicos, multuses = ([(one.name, "") for one in around if one.act == act] for act in (1, 2))
    assert {name for name, _ in CHOSEN} <= {name for name, _ in calicos}
    while calicos or multuses:
        print(f"\n{len(calicos)} and {len(multuses)} to go", flush=True)
        with _booted() as node:
            _killed_at(node, calicos[:BATCH], multuses[:BATCH])
        del calicos[:BATCH], multuses[:BATCH]


@contextmanager
def _booted() -> Iterator[Node]:
    node = Node.create()
    try:
        node.boot()
        yield node
    finally:
        node.destroy()


def test_power_lost_around_each_act(node: Node) -> None:
    """Invariant 6. What is on the disk is copied at every moment of a run, and at one of them, with the second act
    asked for and its answer not there yet, the power is cut. The node is booted again with that, and then the product
    with each of the other copies that tell another history: every act gets its outcome, and nothing is stopped, for
    the boot has cured all."""
    disk = StateDisk(node)
    node.sh(["systemctl", "restart", WATCHER])
    before = crowd.gather(node, 1, 1)
    _wait_known(node, cuts.state(node))
    left: dict[str, bytes] = {}
    with cuts.held(node):
        node.in_service_patch()
        moments = Moments(node, switches=1, acts=2)

        def on_call(call: Call) -> bool:
            moment = moments.of(call)
            if moment is None:
                return False
            name = f"{moment.act} {moment.name}"
            if moment.act:
                left[name] = disk.now()
            return name == LAST

        follow(cuts.take(node), on_call)
        node.power_cut()
    assert LAST in left
    stories = _stories(left)
    assert set(stories) >= {(), ("",), ("cured",), ("cured", "")}, "each write can be lost, and none without its turn"
    for number in (1, 2):
        asked = _history(left[f"{number} intent: ask for the stop 1 begins"])
        assert asked == ("cured",) * (number - 1) + ("",), "the intent is on the disk before the act"

    statedisk.put(node, left[LAST])
    node.boot()
    names = list(before)
    booted = crowd.settled(node, names)
    _nothing_is_done(node, booted, LAST)
    for name in [name for names_ in stories.values() for name in names_ if name != LAST]:
        node.sh(["systemctl", "stop", WATCHER, PATH_UNIT])
        node.wait(lambda: idle(node), 30, "no remediation runs")
        statedisk.put(node, left[name])
        node.sh(["systemctl", "start", WATCHER])
        _nothing_is_done(node, booted, name)


def _nothing_is_done(node: Node, booted: crowd.Crowd, after: str) -> None:
    node.wait(lambda: _is_over(node), 30, f"a remediation of this boot has ended, after {after}")
    assert all(outcome for _, outcome in acts(node)), f"{after}: {acts(node)}"
    assert crowd.count(node, list(booted)) == booted, after
    assert ctl(node, "status")[0] == 0, after


def _is_over(node: Node) -> bool:
    """The newest switch in the ledger is this boot, and the newest run has ended."""
    boot = Path(node.root, "proc/sys/kernel/random/boot_id").read_text().strip()
    newest = ledger(node, "SELECT boot_id FROM switch ORDER BY number DESC LIMIT 1", poll=True)
    ended = ledger(node, "SELECT ended_at FROM run ORDER BY id DESC LIMIT 1", poll=True)
    return newest == [(boot,)] and bool(ended and ended[0][0]) and idle(node)


def _stories(left: dict[str, bytes]) -> dict[tuple[str, ...], list[str]]:
    """Names of copies, by the outcomes of their acts: the first of each, and the first with a transaction that is to
    be taken back. All that are different, if all are wanted."""
    found: dict[tuple[str, ...], dict[object, str]] = {}
    seen = set()
    for name, disk in left.items():
        digest = statedisk.digest(disk)
        if digest in seen:
            continue
        seen.add(digest)
        with statedisk.files(disk) as folder:
            history = _outcomes(folder)
            cut_short = any(folder.glob("*-journal"))
        found.setdefault(history, {}).setdefault(digest if ALL else cut_short, name)
    return {history: list(names.values()) for history, names in found.items()}


def _history(disk: bytes) -> tuple[str, ...]:
    with statedisk.files(disk) as folder:
        return _outcomes(folder)


def _outcomes(folder: Path) -> tuple[str, ...]:
    return tuple(outcome for (outcome,) in cuts.rows(folder, "SELECT outcome FROM act ORDER BY id"))


def _wait_known(node: Node, folder: Path) -> None:
    """Wait until the ledger knows the state before the switch."""
    node.wait(lambda: cuts.rows(folder, "SELECT id FROM run WHERE ended_at > 0"), 30, "the ledger knows of now")


def _killed_at(node: Node, calicos: Sequence[Cut], multuses: Sequence[Cut]) -> None:
    """The acts come in the platform's order: Calico's first."""
    before = crowd.gather(node, len(calicos), len(multuses))
    _wait_known(node, cuts.state(node))
    wanted = [*calicos, *multuses]
    with cuts.held(node):
        node.in_service_patch()
        for number, cut in enumerate(wanted, 1):
            assert _run(node, len(wanted), cut, number), f"act {number} has no moment {cut}"
        assert not _run(node, len(wanted)), "it came to its end"

    after = crowd.settled(node, list(before))

    assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(before, 1)
    assert {name: one.uid for name, one in after.items()} == {name: one.uid for name, one in before.items()}
    done = acts(node)
    assert [name for name, _ in done] == ["calico-node"] * len(calicos) + ["kube-multus"] * len(multuses)
    assert {outcome for _, outcome in done} == {"cured"}
    told = stops(node)
    assert set(told) == {one.id for one in before.values()}
    assert not reports(node, "not-cured")


def _run(node: Node, needed: int, cut: Cut = ("", ""), act: int = 0) -> bool:
    """One remediation, killed at that moment of that act, if it has it."""
    (name, also), moments = cut, Moments(node, switches=1, acts=needed)
    runtime = cuts.main_process(node, "containerd.service", "containerd")
    reached: list[Moment] = []

    def on_call(call: Call) -> bool:
        moment = moments.of(call)
        if moment is None or moment.act != act:
            return False
        if also == "the runtime is frozen" and moment.name == "intent: ask for the stop 1 begins":
            os.kill(runtime, signal.SIGSTOP)
        if moment.name != name:
            return False
        if also == "the watcher is killed too":
            node.kill(WATCHER)
        reached.append(moment)
        return True

    try:
        follow(cuts.take(node), on_call)
    finally:
        os.kill(runtime, signal.SIGCONT)
    return bool(reached)
