# SPDX-License-Identifier: Apache-2.0
"""The CRI client against a real gRPC server on a unix socket: what it reads and what it does."""

from __future__ import annotations

import msgspec
import pytest

from ostreewatchd.peers.cri import errors, types
from ostreewatchd.peers.cri import runtime_pb2 as pb
from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from tests.fakes.cri_server import FakeRuntime, StatusCode, full_id, refuse


def verbs(fake: FakeRuntime) -> list[str]:
    return [call.verb for call in fake.calls]


# --- what it reads


def test_version(runtime: Runtime) -> None:
    assert runtime.version() == types.Version(runtime="fake", version="1.6.20", api="v1")


def test_status(fake: FakeRuntime, runtime: Runtime) -> None:
    fake.handlers = ["", "runc", "kata"]
    assert runtime.status() == types.RuntimeStatus(
        runtime_ready=True, network_ready=True, why="", handlers=("", "runc", "kata")
    )
    # Others are not for us (containerd's ContainerdHasNoDeprecationWarnings), and what is not said is not known.
    fake.conditions = {"NetworkReady": False, "ContainerdHasNoDeprecationWarnings": False}
    assert runtime.status() == types.RuntimeStatus(
        runtime_ready=None,
        network_ready=False,
        why="NetworkReady: NetworkPluginNotReady: cni plugin not initialized",
        handlers=("", "runc", "kata"),
    )


def test_the_networks_that_are_loaded(fake: FakeRuntime, runtime: Runtime) -> None:
    assert runtime.cni_networks() is None
    fake.info = {"config": '{"password": "x"}', "cniconfig": '{"Networks": [{"Config": {"Name": "k8s-pod-network"}}]}'}
    assert runtime.cni_networks() == ("k8s-pod-network",)


def test_sandboxes(fake: FakeRuntime, runtime: Runtime) -> None:
    id = fake.sandbox(1, name="calico", labels={"a": "b"}, annotations={"c": "d"}, created_at=17)
    fake.sandbox(2, name="dead", state=pb.SANDBOX_NOTREADY)
    fake.sandbox(3, name="odd", state=77)
    first, dead, odd = runtime.sandboxes()
    assert first == types.Sandbox(
        id=id,
        name="calico",
        namespace="kube-system",
        uid="uid-calico",
        ready=True,
        created_ns=17,
        labels={"a": "b"},
        annotations={"c": "d"},
    )
    # A state that we have not heard of is not proof of readiness.
    assert (dead.ready, odd.ready) == (False, False)


def test_containers_in_all_states(fake: FakeRuntime, runtime: Runtime) -> None:
    sandbox = fake.sandbox(1)
    for number, state in enumerate((0, 1, 2, 3, 4, 99), start=10):
        fake.container(number, sandbox, name=f"c{number}", state=state)
    seen = runtime.containers()
    assert [each.state for each in seen] == ["created", "running", "exited", "unknown", "unknown", "unknown"]
    assert seen[0] == types.RuntimeContainer(
        id=full_id(10),
        sandbox_id=sandbox,
        name="c10",
        attempt=0,
        state="created",
        created_ns=1_700_000_000_000_000_001,
    )


def test_what_it_reads_survives_json(fake: FakeRuntime, runtime: Runtime) -> None:
    fake.container(2, fake.sandbox(1))
    for value in (runtime.sandboxes()[0], runtime.containers()[0], runtime.container_status(full_id(2))):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


def test_container_status(fake: FakeRuntime, runtime: Runtime) -> None:
    id = fake.container(2, fake.sandbox(1))
    status = runtime.container_status(id)
    assert (status.id, status.name, status.attempt, status.state) == (id, "app", 0, "running")
    assert status.started_ns == 1_700_000_000_000_000_002
    assert (status.finished_ns, status.exit_code) == (None, None)


@pytest.mark.parametrize("not_yet", [0, -6795364578871345152])
def test_a_time_that_has_not_come_is_none(fake: FakeRuntime, runtime: Runtime, not_yet: int) -> None:
    id = fake.container(2, fake.sandbox(1), state=pb.CONTAINER_CREATED)
    fake.containers[id].status.started_at = not_yet
    fake.containers[id].status.finished_at = not_yet
    status = runtime.container_status(id)
    assert (status.started_ns, status.finished_ns, status.exit_code) == (None, None, None)


# --- what it does


@pytest.mark.parametrize("grace", [0, 30])
def test_stop_container(fake: FakeRuntime, acts: RuntimeActs, grace: int) -> None:
    id = fake.container(2, fake.sandbox(1))
    assert acts.stop_container(id, grace) is types.Stopped.NOW
    assert fake.containers[id].status.exit_code == (143 if grace else 137)
    (call,) = fake.calls
    assert (call.request.container_id, call.request.timeout) == (id, grace)
    # The call outlives the grace period by the deadline.
    assert call.seconds is not None and grace + 3 < call.seconds < grace + 5.5


def test_stop_of_what_has_stopped_or_is_gone(fake: FakeRuntime, acts: RuntimeActs) -> None:
    id = fake.container(2, fake.sandbox(1), state=pb.CONTAINER_EXITED)
    assert acts.stop_container(id, 0) is types.Stopped.NOW
    assert acts.stop_container(full_id(3), 0) is types.Stopped.GONE
    fake.gone_is_stopped = True
    assert acts.stop_container(full_id(3), 0) is types.Stopped.NOW


def test_stop_sandbox(fake: FakeRuntime, acts: RuntimeActs) -> None:
    sandbox = fake.sandbox(1)
    id = fake.container(2, sandbox)
    assert acts.stop_sandbox(sandbox) is types.Stopped.NOW
    assert fake.sandboxes[sandbox].state == pb.SANDBOX_NOTREADY
    assert fake.containers[id].status.state == pb.CONTAINER_EXITED
    fake.faults["StopPodSandbox"] = refuse(StatusCode.NOT_FOUND, "no such sandbox")
    assert acts.stop_sandbox(full_id(9)) is types.Stopped.GONE


@pytest.mark.parametrize(
    "id", ["", "a", full_id(2)[:63], full_id(2) + "0", full_id(2) + "\n", "x" * 64, "A" * 64, "\udc80"]
)
def test_only_full_ids_are_sent(fake: FakeRuntime, runtime: Runtime, acts: RuntimeActs, id: str) -> None:
    fake.container(2, fake.sandbox(1))
    for call in (
        lambda: acts.stop_container(id, 0),
        lambda: acts.stop_sandbox(id),
        lambda: runtime.container_status(id),
    ):
        with pytest.raises(errors.BadId) as caught:
            call()
        assert "\n" not in str(caught.value)
        str(caught.value).encode()
    assert fake.calls == []


@pytest.mark.parametrize("grace", [-1, 3596, 10**30])
def test_grace_is_bounded(fake: FakeRuntime, acts: RuntimeActs, grace: int) -> None:
    with pytest.raises(ValueError, match="grace period"):
        acts.stop_container(full_id(2), grace)
    assert fake.calls == []


@pytest.mark.parametrize("verb", ["StopContainer", "StopPodSandbox"])
@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED])
def test_a_stop_is_sent_once_and_its_error_says_that_it_may_have_happened(
    fake: FakeRuntime, acts: RuntimeActs, verb: str, code: StatusCode
) -> None:
    fake.faults[verb] = refuse(code, "transport is closing")
    stop = acts.stop_sandbox if verb == "StopPodSandbox" else lambda id: acts.stop_container(id, 0)
    with pytest.raises((errors.RuntimeLost, errors.RuntimeSilent)) as caught:
        stop(full_id(2))
    assert "look again" in caught.value.hint
    assert verbs(fake) == [verb]


def test_a_stop_that_the_runtime_gave_up_may_happen_yet(fake: FakeRuntime, acts: RuntimeActs) -> None:
    """What containerd answers of a shim that hangs: the shim has the kill before it, and does it when it goes on."""
    fake.faults["StopContainer"] = refuse(StatusCode.UNKNOWN, "failed to kill container: context deadline exceeded")
    with pytest.raises(errors.RuntimeSilent, match="gave up StopContainer") as caught:
        acts.stop_container(full_id(2), 0)
    assert "look again" in caught.value.hint
