# SPDX-License-Identifier: Apache-2.0
"""A runtime's watch of its CNI directory, against what the path leads to and against what it has loaded."""

from __future__ import annotations

from typing import Any, Optional

import msgspec
import pytest

from ostreewatchd.asking import _to_be_asked as to_be_asked
from ostreewatchd.judge import judge
from ostreewatchd.model import (
    CniReader,
    Daemon,
    Finding,
    History,
    Identity,
    InFlight,
    PastAct,
    Plan,
    Settings,
    Snapshot,
    Subject,
    Switch,
)
from ostreewatchd.parse.fdinfo import Mark, inotify_marks
from ostreewatchd.plan import plan
from tests.unit.runtimes import crio, service
from tests.unit.worlds import BOOT, CNI, HOST, NOW, world

READER = CniReader(
    runtime="containerd", pid=800, unit="containerd.service", mount_namespace=HOST, directory=CNI,
    identity=Identity(dev=65024, ino=10371999), watch="elsewhere", file="00-multus.conf", network="multus",
)  # fmt: skip
KUBELET = Daemon(kind="kubelet", name="kubelet", pid=900, mount_namespace=HOST, unit="kubelet.service")


def look(
    *, loaded: Optional[tuple[str, ...]] = None, asked: bool = True, daemons: Any = (KUBELET,), **more: Any
) -> Snapshot:
    built = world().part(cni_readers=(msgspec.structs.replace(READER, **more),), daemons=daemons)
    if not asked:
        return built.not_asked().snapshot()
    snapshot = built.snapshot()
    assert snapshot.runtime is not None
    return msgspec.structs.replace(snapshot, runtime=msgspec.structs.replace(snapshot.runtime, networks=loaded))


def found(snapshot: Snapshot) -> Optional[Finding]:
    return next((one for one in judge(snapshot) if one.rule == "runtime-watch-stale"), None)


@pytest.mark.parametrize("watch", ["elsewhere", "none"])
def test_owed_only_when_it_has_loaded_something_else(watch: str) -> None:
    other, same = found(look(loaded=("calico",), watch=watch)), found(look(loaded=("lo", "multus"), watch=watch))
    assert other is not None and other.owed and str(other.subject) == "containerd.service"
    assert "it has loaded calico, and the directory names multus first (00-multus.conf)" in other.reason
    assert same is not None and not same.owed and "which is what the directory names first" in same.reason


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({"loaded": None}, "containerd does not tell what it has loaded"),
        ({"asked": False}, "was not asked"),
        ({"loaded": ("x",), "network": "", "problem": "00-multus.conf: it is no JSON"}, "not known: 00-multus.conf"),
        ({"loaded": ("x",), "network": "", "file": ""}, "there is no CNI configuration in"),
    ],
)
def test_what_is_not_known_is_noted(more: dict[str, Any], because: str) -> None:
    one = found(look(**more))
    assert one is not None and not one.owed and because in one.reason
    assert plan(look(**more), judge(look(**more)), Settings()).refusals == ()


def test_nothing_loaded_at_all() -> None:
    one = found(look(loaded=()))
    assert one is not None and one.owed and "it has loaded no network" in one.reason


@pytest.mark.parametrize("watch", ["there", "unknown"])
def test_silent(watch: str) -> None:
    assert found(look(loaded=("calico",), watch=watch)) is None


def test_a_containerd_that_makes_no_pods() -> None:
    assert found(look(loaded=("calico",), daemons=())) is None, "nobody asks it for pods"
    two = (READER, msgspec.structs.replace(READER, runtime="crio", unit="crio.service", watch="there"))
    snapshot = msgspec.structs.replace(look(loaded=("calico",)), cni_readers=two)
    assert found(snapshot) is not None and snapshot.runtime is not None
    other = msgspec.structs.replace(snapshot.runtime, socket="/run/crio/crio.sock")
    assert found(msgspec.structs.replace(snapshot, runtime=other)) is None, "kubelet's socket is the other one's"


def planned(snapshot: Snapshot, lock: Any = "none", acts: tuple[PastAct, ...] = (), **runtime: Any) -> Plan:
    """With what is known of the unit."""
    mine = crio(**{"service": service("containerd.service"), "kind": "containerd", **runtime})
    switch = Switch(id="s2", fingerprint="after", boot_id=BOOT, deployment="", seen_at=NOW - 60)
    whole = msgspec.structs.replace(snapshot, node_runtime=mine, history=History(switch=switch, acts=acts))
    return plan(whole, judge(whole), Settings(lock=lock))


def test_its_restart_is_the_cure() -> None:
    made = planned(look(loaded=("calico",)))
    (step,) = made.steps
    assert (step.kind, str(step.subject), step.invocation) == ("restart-unit", "containerd.service", "a" * 32)
    assert "names multus first" in step.because and not made.refusals
    assert not planned(look(loaded=("multus",))).steps, "noted only"


def test_why_it_is_not_restarted() -> None:
    held = planned(look(loaded=("calico",)), lock="")
    assert not held.steps and [one.name for one in held.refusals] == ["no-lock"]
    flight = InFlight(creating=("a/b",))
    assert [one.name for one in planned(look(loaded=("calico",)), in_flight=flight).refusals] == [
        "containers-in-flight"
    ]
    missing = planned(look(loaded=("calico",)), cni_missing="there is no /etc/cni/net.d")
    assert [one.name for one in missing.refusals] == ["cni-configuration-missing"]
    snapshot = look(loaded=("calico",))
    made = plan(snapshot, judge(snapshot), Settings(lock="none"))
    assert [(one.name, str(one.subject), one.alarm) for one in made.refusals] == [
        ("runtime-is-stale", "containerd.service", True)
    ], "nothing is known of a unit"


@pytest.mark.parametrize(("switch", "again"), [("s2", False), ("s1", True)])
def test_once_a_switch(switch: str, again: bool) -> None:
    """A restart that did not help is not repeated; after another switch the watch is another matter."""
    past = PastAct(
        id=1, switch_id=switch, step="restart-unit", subject=Subject(kind="unit", unit="containerd.service"),
        because="b", intent_at=NOW - 30, outcome="cured", boot_id=BOOT, invocation="b" * 32,
    )  # fmt: skip
    made = planned(look(loaded=("calico",)), acts=(past,))
    assert bool(made.steps) == again
    assert again or [(one.name, one.alarm) for one in made.refusals] == [("already-restarted", True)]


def test_what_the_watcher_has_asked() -> None:
    """Once for each thing that may have changed; and nothing where no answer would tell more."""
    first = list(to_be_asked(look(asked=False)))
    assert len(first) == 1 and first == list(to_be_asked(look(asked=False)))
    others: list[dict[str, Any]] = [{"pid": 801}, {"network": "x"}, {"identity": Identity(dev=1, ino=2)}]
    for change in others:
        assert list(to_be_asked(look(asked=False, **change))) != first
    assert not list(to_be_asked(look(loaded=None)))
    assert not list(to_be_asked(look(asked=False, network="", problem="torn")))
    assert not list(to_be_asked(look(asked=False, watch="there")))


def test_fdinfo() -> None:
    data = (
        b"pos:\t0\nflags:\t02004000\nmnt_id:\t15\nino:\t2058\n"
        b"inotify wd:2 ino:1a2b sdev:fd00001 mask:3c6 ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:00\n"
        b"inotify wd:1 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 \ninotify wd:x ino:1 sdev:1 mask:1\n"
    )
    assert inotify_marks(data) == {Mark(0x1A2B, 0xFD00001), Mark(0x9E7E, 0x800013)}
