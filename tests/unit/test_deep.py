# SPDX-License-Identifier: Apache-2.0
"""What is asked of the runtime for kubelet's back-off, and how little that is."""

from __future__ import annotations

import time
from pathlib import Path

from ostreewatchd.observe.deep import _runtime
from ostreewatchd.peers.cri import runtime_pb2 as pb
from tests.fakes.cri_server import FakeRuntime, StatusCode, refuse


def put(fake: FakeRuntime, number: int, sandbox: str, attempt: int, *, age: float, ended: float = 0.0) -> str:
    """A container that was made `age` seconds ago; `ended`: how long ago it ended."""
    now = time.time_ns()
    state = pb.CONTAINER_EXITED if ended else pb.CONTAINER_RUNNING
    id = fake.container(number, sandbox, state=state, finished_at=now - int(ended * 1e9) if ended else 0)
    status = fake.containers[id].status
    status.metadata.attempt, status.created_at = attempt, now - int(age * 1e9)
    return id


def asked(fake: FakeRuntime) -> list[str]:
    return [call.request.container_id for call in fake.calls if call.verb == "ContainerStatus"]


def test_when_the_one_before_ended_is_asked_where_it_matters(fake: FakeRuntime) -> None:
    pod, other = fake.sandbox(1, name="a"), fake.sandbox(2, name="b")
    put(fake, 8, other, 3, age=5, ended=4)
    before = put(fake, 11, pod, 3, age=90, ended=60)
    put(fake, 10, pod, 2, age=300, ended=200)
    put(fake, 12, pod, 4, age=30)
    view = _runtime([str(fake.socket)])[0]
    assert asked(fake) == [before], "the newest before it, in its own pod"
    ends = {one.id: one.finished_at for one in view.containers if one.finished_at is not None}
    assert list(ends) == [before] and abs(time.time() - 60 - ends[before]) < 5
    made = {one.attempt: one.created_at for one in view.containers}
    assert abs(time.time() - 30 - (made[4] or 0)) < 5


def test_an_earlier_sandbox_is_of_the_same_pod(fake: FakeRuntime) -> None:
    old, new = fake.sandbox(1, name="a", state=pb.SANDBOX_NOTREADY), fake.sandbox(2, name="a")
    before = put(fake, 11, old, 1, age=90, ended=60)
    put(fake, 12, new, 2, age=30)
    _runtime([str(fake.socket)])
    assert asked(fake) == [before]


def test_what_runs_for_long_or_for_the_first_time_costs_no_question(fake: FakeRuntime) -> None:
    pod = fake.sandbox(1)
    put(fake, 11, pod, 3, age=9000, ended=8000)
    put(fake, 12, pod, 4, age=5000)
    other = fake.sandbox(2, name="other")
    put(fake, 13, other, 0, age=9, ended=8)
    put(fake, 14, other, 1, age=7)
    view = _runtime([str(fake.socket)])[0]
    assert not asked(fake) and len(view.containers) == 4 and not view.problem


def test_one_that_is_gone_meanwhile_is_no_problem(fake: FakeRuntime) -> None:
    pod = fake.sandbox(1)
    put(fake, 11, pod, 1, age=90, ended=60)
    put(fake, 12, pod, 2, age=30)
    fake.faults["ContainerStatus"] = refuse(StatusCode.NOT_FOUND, "gone")
    view = _runtime([str(fake.socket)])[0]
    assert not view.problem and all(one.finished_at is None for one in view.containers)


def test_only_a_runtime_that_the_node_has_is_said_to_be_down(tmp_path: Path) -> None:
    """containerd is down: CRI-O's socket, which the platform may have too, is none of this node's."""
    (tmp_path / "containerd").mkdir()
    sockets = [f"{tmp_path}/{name}/a.sock" for name in ("containerd", "crio")]
    view = _runtime(sockets)[0]
    assert sockets[0] in view.problem and "crio" not in view.problem, view.problem
    assert "give the path" not in view.problem, "there is no such setting"
    (tmp_path / "containerd").rmdir()
    view = _runtime(sockets)[0]
    assert all(socket in view.problem for socket in sockets), "none is known to be the node's"
