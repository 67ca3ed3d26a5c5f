# SPDX-License-Identifier: Apache-2.0
"""What a runtime answers after a restart, judged: a real containerd, and the stand-in for CRI-O with its habits. All
else on the node is well. Needs what test_cri_containerd.py needs."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from msgspec.structs import replace

from ostreewatchd.judge.recovery import judge
from ostreewatchd.model import KubeletSeen, Recovered, Recovery, Sample
from ostreewatchd.observe import recoverycri
from ostreewatchd.peers.cri.acts import RuntimeActs
from tests.host.containerd import IMAGE, MISSING, Containerd, end
from tests.host.cri_creator import Creator
from tests.host.crio import Crio
from tests.unit.recoveries import BOOT, sample, unit

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

pytest.importorskip("tomllib", reason="the stand-in reads TOML with Python's own")
_numbers = itertools.count(1)
PODS = ("one", "two", "three")


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    server = Containerd(tmp_path_factory.mktemp("c"))
    # Its pods are in the host's network: no plugin is called, and the network is ready.
    (server.base / "cni-net.d/10-none.conflist").write_text(
        '{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "none"}]}'
    )
    try:
        server.load_image()
        with Creator(server.socket, server.cgroup) as creator:
            for name in PODS:
                pod = creator.sandbox(name, "default", f"uid-{name}")
                creator.start(creator.container(pod, "app", 0, IMAGE, server.base, "/base"))
        yield server
    finally:
        end(server)


@pytest.fixture
def crio(behind: Containerd) -> Iterator[Crio]:
    made = Crio(behind, f"crio-{next(_numbers)}")
    try:
        made.start()
        yield made
    finally:
        made.close()


class Node:
    """The rest of the node: units that were started when the process was, and a kubelet that has the pods."""

    def __init__(self, socket: str, configuration: Optional[Path] = None) -> None:
        self.socket = socket
        self.configuration = configuration
        self.began = time.monotonic()
        self.invocation = 1
        self.before: Optional[Sample] = None
        self.samples: list[Sample] = []

    def restarted(self) -> None:
        """From here on evidence counts."""
        self.before = self.samples[-1]
        self.began, self.samples = time.monotonic(), []
        self.invocation += 1

    def look(self, *handlers: str) -> Recovered:
        at, wall = time.monotonic(), time.time()
        name = f"crio.service-{self.invocation}"
        mine = replace(unit("crio.service", self.began), active_since=self.began, invocation=name)
        uids = tuple(f"uid-{name}" for name in PODS)
        changed = os.stat(self.configuration).st_mtime if self.configuration is not None else wall - 1000
        seen = replace(
            sample(at), wall=wall, runtime=mine, kubelet=mine, cluster=None, config_wall=changed,
            cri=recoverycri.ask((self.socket,)).seen,
            api=KubeletSeen(asked=time.monotonic(), healthy=True, directories=uids, unseen="HTTP 401"),
        )  # fmt: skip
        self.samples.append(seen)
        series = Recovery(boot_id=BOOT, since=self.began, handlers=handlers, before=self.before,
                          samples=tuple(self.samples))  # fmt: skip
        return judge(series, window=0, samples=1)


def hinders(found: Recovered) -> dict[str, str]:
    return {row.name: row.verdict for row in found.rows if row.verdict not in ("good", "unseen")}


def test_a_restart_of_containerd(behind: Containerd) -> None:
    node = Node(behind.socket)
    found = node.look()
    assert found.verdict == "recovered", found.cause
    behind.kill()
    node.restarted()
    found = node.look()
    assert hinders(found)["runtime-ready"] == "bad" and "no connection" in found.cause
    behind.restart()
    found = node.look()
    assert (found.verdict, found.notes) == ("recovered", ()), found.cause
    # Without a display of its handlers (1.6) a wanted one is not seen, and is named.
    (row,) = (one for one in node.look("runc").rows if one.name == "handlers")
    assert row.verdict in ("good", "unseen")


def test_a_restart_of_crio(crio: Crio) -> None:
    node = Node(crio.socket)
    assert node.look().verdict == "recovered"
    node.restarted()
    crio.restart()
    found = node.look()
    assert (found.verdict, found.notes) == ("recovered", ()), found.cause
    assert len(node.samples[-1].cri.sandboxes) == len(node.samples[-1].cri.containers) == 3


def test_a_container_that_the_restart_cost(crio: Crio) -> None:
    node = Node(crio.socket)
    node.look()
    (victim,) = (one for one in node.samples[-1].cri.containers if one.pod == "two")
    node.restarted()
    crio.restart()
    with RuntimeActs.connect(crio.socket, deadline=20) as acts:
        acts.stop_container(victim.id, 0)
    found = node.look()
    assert hinders(found) == {"containers-run": "bad"} and "default/two/app (exit 137)" in found.cause
    # It is down for good: the next restart is not answerable for it.
    node.restarted()
    crio.restart()
    assert node.look().verdict == "recovered"


def test_a_handler_that_is_shown_and_not_served(crio: Crio) -> None:
    """cri-o#10202."""
    node = Node(crio.socket, crio.drop_ins)
    time.sleep(0.05)
    (crio.drop_ins / "50-extra.conf").write_text(f'[crio.runtime.runtimes.extra]\nruntime_path = "{crio.runc}"\n')
    assert hinders(node.look("extra"))["handlers"] == "bad"
    crio.reload()
    found = node.look("extra")
    assert "extra" in node.samples[-1].cri.handlers
    assert hinders(found) == {"handlers": "old", "runtime-unit": "old"}
    node.restarted()
    crio.restart()
    assert node.look("extra").verdict == "recovered"


def test_it_accepts_and_does_not_answer(crio: Crio) -> None:
    node = Node(crio.socket)
    node.look()
    node.restarted()
    crio.process.send_signal(signal.SIGSTOP)
    try:
        found = node.look()
        assert hinders(found)["runtime-ready"] == "bad" and "gave no answer to Version" in found.cause
    finally:
        crio.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("known_before", [True, False])
def test_ready_and_knows_none_of_its_pods(crio: Crio, known_before: bool) -> None:
    """Killed, and a layer is damaged: READY=1 all the same."""
    node = Node(crio.socket)
    node.look()
    crio.kill()
    (crio.base / "storage/damaged-layer").touch()
    node.restarted()
    if not known_before:
        node.before = None
    crio.start()
    found = node.look()
    assert node.samples[-1].cri.ready and node.samples[-1].cri.network_ready
    assert found.verdict == "not-yet" and hinders(found)["pods-known"] == "bad"
    assert "ready and knows none of its pods" in found.alarm


def test_it_removes_its_pods(crio: Crio) -> None:
    """Last: nothing is left of them."""
    node = Node(crio.socket)
    node.look()
    assert crio.end() == 0
    (crio.base / "version").unlink()
    node.restarted()
    crio.start()
    found = node.look()
    assert found.verdict == "not-yet" and "ready and knows none of its pods" in found.alarm
