# SPDX-License-Identifier: Apache-2.0
"""The CRI client against everything that a socket, a connection and a runtime can do wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ostreewatchd.peers.cri import channel, errors, types
from ostreewatchd.peers.cri import runtime_pb2 as pb
from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from tests.fakes.cri_server import FakeRuntime, StatusCode, full_id, raw, refuse

ROOT = Path(__file__).resolve().parents[2]


def verbs(fake: FakeRuntime) -> list[str]:
    return [call.verb for call in fake.calls]


# --- how it fails


def reads(runtime: Runtime) -> list[tuple[str, object]]:
    return [
        ("Version", runtime.version),
        ("ListPodSandbox", runtime.sandboxes),
        ("ListContainers", runtime.containers),
        ("ContainerStatus", lambda: runtime.container_status(full_id(2))),
    ]


def test_not_found(runtime: Runtime) -> None:
    with pytest.raises(errors.NotFound, match="does not know what ContainerStatus named"):
        runtime.container_status(full_id(2))


def test_each_call_has_the_deadline(fake: FakeRuntime) -> None:
    for verb in ("Version", "ListPodSandbox", "ListContainers", "ContainerStatus"):
        fake.faults[verb] = fake.silence
    with Runtime.connect(str(fake.socket), deadline=0.2) as runtime:
        for verb, call in reads(runtime):
            began = time.monotonic()
            with pytest.raises(errors.RuntimeSilent, match=f"no answer to {verb} after 0.2 s .limit 0.2 s") as caught:
                call()  # type: ignore[operator]
            assert 0.15 < time.monotonic() - began < 20
            assert "look again" not in caught.value.hint
    assert len(fake.calls) == 4


def test_a_listener_that_says_nothing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with Runtime.connect(str(tmp_path / "s"), deadline=0.3) as runtime, pytest.raises(errors.RuntimeSilent):
            runtime.version()


@pytest.mark.parametrize(
    ("code", "details", "hint"),
    [
        (StatusCode.PERMISSION_DENIED, "no", "journal"),
        (StatusCode.UNKNOWN, "rpc error: shim died", "journal"),
        (StatusCode.RESOURCE_EXHAUSTED, "too many requests", "journal"),
        (StatusCode.UNIMPLEMENTED, "unknown service runtime.v1.RuntimeService", "CRI plugin is disabled"),
    ],
)
def test_refused(fake: FakeRuntime, runtime: Runtime, code: StatusCode, details: str, hint: str) -> None:
    fake.faults["Version"] = refuse(code, details)
    with pytest.raises(errors.RuntimeRefused) as caught:
        runtime.version()
    assert caught.value.code == code.name
    assert details in caught.value.what and hint in caught.value.hint


def test_another_service_on_the_socket(tmp_path: Path) -> None:
    class Other(FakeRuntime):
        def serve(self, verb: str, data: bytes, context: object) -> bytes:
            context.abort(StatusCode.UNIMPLEMENTED, "unknown service")  # type: ignore[attr-defined]
            return b""

    with Other(tmp_path / "s"), Runtime.connect(str(tmp_path / "s"), deadline=5) as runtime:
        with pytest.raises(errors.RuntimeRefused, match="UNIMPLEMENTED"):
            runtime.version()


def test_a_peers_words_are_one_bounded_line(fake: FakeRuntime, runtime: Runtime) -> None:
    fake.faults["Version"] = refuse(StatusCode.UNKNOWN, "a\nJan 1 kernel: \x1b[31mpanic" + "x" * 5000)
    with pytest.raises(errors.RuntimeRefused) as caught:
        runtime.version()
    assert str(caught.value).isprintable() and len(str(caught.value)) < 800


def test_an_oversized_answer(fake: FakeRuntime, runtime: Runtime) -> None:
    fake.faults["ListContainers"] = raw(b"\0" * (channel.MAX_ANSWER + 1))
    with pytest.raises(errors.AnswerTooLarge, match="message larger than max"):
        runtime.containers()
    # One bad answer does not cost the connection.
    assert runtime.version().runtime == "fake"


def test_the_largest_answer(fake: FakeRuntime, runtime: Runtime) -> None:
    frame = pb.VersionResponse(runtime_name="x" * (channel.MAX_ANSWER - 5)).SerializeToString()
    assert len(frame) == channel.MAX_ANSWER
    fake.faults["Version"] = raw(frame)
    assert len(runtime.version().runtime) == channel.MAX_ANSWER - 5


def test_the_runtime_itself_finds_its_answer_too_large(fake: FakeRuntime, runtime: Runtime) -> None:
    details = "grpc: trying to send message larger than max (17000000 vs. 16777216)"
    fake.faults["ListContainers"] = refuse(StatusCode.RESOURCE_EXHAUSTED, details)
    with pytest.raises(errors.AnswerTooLarge, match="garbage collection"):
        runtime.containers()


@pytest.mark.parametrize("over", [0, 1])
def test_too_many_entries(fake: FakeRuntime, runtime: Runtime, over: int) -> None:
    count = channel.MAX_ENTRIES + over
    fake.faults["ListContainers"] = raw(b"\x0a\0" * count)
    fake.faults["ListPodSandbox"] = raw(b"\x0a\0" * count)
    for verb, call in reads(runtime)[1:3]:
        if over:
            with pytest.raises(errors.AnswerTooLarge, match=f"{verb} has {count} entries"):
                call()  # type: ignore[operator]
        else:
            call()  # type: ignore[operator]


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\x7fshort", b"\x0a\x03\x0a\x01\xff"])
def test_an_answer_that_is_no_message(fake: FakeRuntime, runtime: Runtime, data: bytes) -> None:
    fake.faults["ListContainers"] = raw(data)
    with pytest.raises(errors.AnswerUnclear, match="no CRI message"):
        runtime.containers()


@pytest.mark.parametrize("status", [None, pb.ContainerStatus(id=full_id(3))])
def test_a_status_of_another_container(fake: FakeRuntime, runtime: Runtime, status: pb.ContainerStatus) -> None:
    fake.faults["ContainerStatus"] = raw(pb.ContainerStatusResponse(status=status).SerializeToString())
    with pytest.raises(errors.AnswerUnclear, match="none or another|told of another"):
        runtime.container_status(full_id(2))


def test_empty_answers_are_empty(fake: FakeRuntime, runtime: Runtime) -> None:
    for verb in ("Version", "ListPodSandbox", "ListContainers"):
        fake.faults[verb] = raw(b"")
    assert runtime.version() == types.Version(runtime="", version="", api="")
    assert (runtime.sandboxes(), runtime.containers()) == ((), ())
    fake.faults["ListContainers"] = raw(b"\x0a\0")
    (bare,) = runtime.containers()
    assert (bare.id, bare.name, bare.state) == ("", "", "created")


# --- sockets


def test_no_socket(tmp_path: Path) -> None:
    for path in (tmp_path / "none.sock", tmp_path / "no" / "dir.sock"):
        with pytest.raises(errors.RuntimeUnavailable, match=f"^no socket at {path}; start the container runtime"):
            Runtime.connect(str(path), deadline=1)


def test_something_else_at_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("link")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(errors.RuntimeUnavailable, match="but something else"):
            RuntimeActs.connect(str(path), deadline=1)
    with pytest.raises(errors.RuntimeUnavailable, match="no socket at"):
        Runtime.connect(str(tmp_path / "file" / "below"), deadline=1)
    with pytest.raises(errors.RuntimeUnavailable, match="no look at"):
        Runtime.connect(str(tmp_path / "link"), deadline=1)


@pytest.mark.parametrize("path", ["", "cri.sock", "unix:///run/cri.sock", "@abstract", "/a\0b"])
def test_no_absolute_path(path: str) -> None:
    with pytest.raises(errors.RuntimeUnavailable, match="no absolute path"):
        Runtime.connect(path, deadline=1)


def test_a_path_too_long_for_a_socket() -> None:
    with pytest.raises(errors.RuntimeUnavailable, match="too long for a socket; at most 107 bytes"):
        Runtime.connect("/" + "x" * 107, deadline=1)


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(tmp_path / "s"))
    began = time.monotonic()
    with Runtime.connect(str(tmp_path / "s"), deadline=5) as runtime:
        with pytest.raises(errors.RuntimeUnavailable, match="onnection refused.*unit is active"):
            runtime.version()
    with RuntimeActs.connect(str(tmp_path / "s"), deadline=5) as acts:
        with pytest.raises(errors.RuntimeUnavailable) as caught:
            acts.stop_container(full_id(2), 0)
    # Nothing was sent, so nothing can have happened.
    assert type(caught.value) is errors.RuntimeUnavailable and "look again" not in str(caught.value)
    assert time.monotonic() - began < 20


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up root's rights in a child")
def test_no_right_to_the_socket(fake: FakeRuntime) -> None:
    # Not below pytest's own folder: each other run of pytest takes that away from others again.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        socket = f"{folder}/cri.sock"
        os.link(fake.socket, socket)
        os.chmod(socket, 0o600)
        code = f"""
import os
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.errors import RuntimeUnavailable
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with Runtime.connect({socket!r}, deadline=5) as runtime:
        runtime.version()
except RuntimeUnavailable as error:
    print(error)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
        )
    assert "run as root, or as a user who may write" in done.stdout


def test_an_odd_path_is_taken_literally(tmp_path: Path) -> None:
    path = tmp_path / "a b%41?x=1#y.sock"
    with FakeRuntime(path), Runtime.connect(str(path), deadline=5) as runtime:
        assert runtime.version().runtime == "fake"


def test_a_link_to_the_socket(fake: FakeRuntime, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("cri.sock")
    with Runtime.connect(str(tmp_path / "link"), deadline=5) as runtime:
        assert runtime.version().runtime == "fake"


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf"), 3601])
def test_deadlines_are_bounded(fake: FakeRuntime, deadline: float) -> None:
    with pytest.raises(ValueError, match="time limit"):
        Runtime.connect(str(fake.socket), deadline=deadline)


# --- connections


def test_the_connection_breaks_during_the_call(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"\0\0\0\4\0\0\0\0\0")  # an empty HTTP/2 SETTINGS frame: the call goes out
                connection.settimeout(5)
                got = b""
                while b"Version" not in got and len(got) < 4096 and not got.endswith(b"v1"):
                    got += connection.recv(4096)

        thread = threading.Thread(target=hang_up)
        thread.start()
        with Runtime.connect(str(tmp_path / "s"), deadline=5) as runtime:
            with pytest.raises(errors.RuntimeLost, match="broke during Version"):
                runtime.version()
        thread.join(5)


def test_the_runtime_stops_during_the_call_and_comes_back(fake: FakeRuntime, runtime: Runtime) -> None:
    assert runtime.version().runtime == "fake"

    def hold(context: object) -> bytes:
        threading.Thread(target=fake.stop).start()
        return fake.silence(context)

    fake.faults["Version"] = hold
    with pytest.raises(errors.RuntimeLost):
        runtime.version()
    fake.faults.clear()
    time.sleep(0.2)
    fake.start()
    # No minutes of back-off: a runtime that is back is seen within its proof's time.
    ends = time.monotonic() + 20
    while True:
        try:
            assert runtime.version().runtime == "fake"
            break
        except errors.RuntimeUnavailable:
            assert time.monotonic() < ends
            time.sleep(0.05)


def test_a_new_connection_does_not_inherit_back_off(tmp_path: Path) -> None:
    fake = FakeRuntime(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(fake.socket))
    with Runtime.connect(str(fake.socket), deadline=5) as first:
        with pytest.raises(errors.RuntimeUnavailable):
            first.version()
        with fake, Runtime.connect(str(fake.socket), deadline=5) as second:
            assert second.version().runtime == "fake"


@pytest.mark.parametrize("fails", [False, True])
def test_the_connection_ends_with_the_block(tmp_path: Path, fails: bool) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(errors.RuntimeSilent if fails else KeyError):
            with Runtime.connect(str(tmp_path / "s"), deadline=0.2) as runtime:
                held: Any = runtime._channel._channel  # so that not the garbage collection closes it
                with pytest.raises(errors.RuntimeSilent):
                    runtime.version()
                if fails:
                    runtime.version()
                raise KeyError
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(5)
            while connection.recv(4096):
                pass
        with pytest.raises(ValueError, match="closed channel"):
            held.unary_unary("/x/y")(b"", timeout=1)


def test_closed_is_closed(fake: FakeRuntime) -> None:
    for opened in (Runtime.connect, RuntimeActs.connect):
        client = opened(str(fake.socket), deadline=5)
        client.close()
        client.close()
        with pytest.raises(ValueError, match="is closed"):
            client.version() if isinstance(client, Runtime) else client.stop_sandbox(full_id(1))


def test_forgetting_to_close_is_noticed(fake: FakeRuntime) -> None:
    runtime = Runtime.connect(str(fake.socket), deadline=5)
    with pytest.warns(ResourceWarning, match="was not closed"):
        runtime._channel.__del__()
    runtime.close()
