# SPDX-License-Identifier: Apache-2.0
"""The connection to the message bus: a real dbus-daemon, and peers that are none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from dbus_next.constants import MessageType
from dbus_next.message import Message
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.parse.dbusframes import MAX_BODY, MAX_HEADER, FrameError, Frames
from ostreewatchd.peers.bus import DRIVER, DRIVER_PATH, Bus, BusError, NoOwner, _decoded
from tests.fakes.messagebus import NAME, MessageBus
from tests.fakes.rpmostreed import until

GUID = "0" * 32


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[MessageBus]:
    with MessageBus(tmp_path) as one:
        yield one


def run(body: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(body, 30)  # type: ignore[arg-type]
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, "tasks are left"

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(bounded())
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor is left"


def signal(member: str = "Hello", *, body: bytes = b"", serial: int = 7, path: str = "/a") -> bytes:
    """One of bytes."""
    message = Message(
        message_type=MessageType.SIGNAL, path=path, interface="a.b", member=member, signature="ay" if body else "",
        body=[body] if body else [], serial=serial,
    )  # fmt: skip
    return bytes(message._marshall())


# Frames.


def test_messages_are_cut_wherever_the_stream_is() -> None:
    stream = signal("One") + signal("Two", body=b"x" * 100) + signal("Three")
    for size in (1, 7, 64, len(stream)):
        frames = Frames()
        found = [one for at in range(0, len(stream), size) for one in frames.feed(stream[at : at + size])]
        assert b"".join(found) == stream and [_decoded(one).member for one in found] == ["One", "Two", "Three"]  # type: ignore[union-attr]


def test_a_body_that_is_too_long_is_left_out() -> None:
    longest, longer = signal("Longest", body=b"x" * (MAX_BODY - 4)), signal("Longer", body=b"x" * (MAX_BODY - 3))
    stream = longest + longer + signal("After")
    for size in (1000, len(stream)):
        frames, found = Frames(), []
        for at in range(0, len(stream), size):
            found += list(frames.feed(stream[at : at + size]))
            assert len(frames._held) <= 16 + MAX_HEADER + MAX_BODY + size
        messages = [_decoded(one) for one in found]
        assert [(one.member, bool(one.body)) for one in messages if one] == [
            ("Longest", True), ("Longer", False), ("After", False),
        ]  # fmt: skip


def test_a_header_that_is_too_long_is_dropped_with_its_message() -> None:
    stream = signal("Odd", path="/" + "a" * MAX_HEADER, body=b"x" * 9) + signal("After")
    assert [_decoded(one).member for one in Frames().feed(stream)] == ["After"]  # type: ignore[union-attr]


@pytest.mark.parametrize("data", [b"x" * 16, b"l\4\0\2" + bytes(12), struct.pack("<4sIII", b"l\4\0\1", 1 << 27, 1, 9)])
def test_what_is_no_message_ends_the_stream(data: bytes) -> None:
    with pytest.raises(FrameError):
        list(Frames().feed(data))


@given(st.lists(st.one_of(st.binary(max_size=300), st.sampled_from((signal(), signal(body=b"x" * 40)))), max_size=8))
def test_any_bytes_are_messages_or_an_error(parts: list[bytes]) -> None:
    frames = Frames()
    with contextlib.suppress(FrameError):
        for part in parts:
            for frame in frames.feed(part):
                _decoded(frame)


def test_a_message_that_is_not_understood_is_passed_over() -> None:
    good = signal()
    for at, value in ((1, 9), (1, 0), (16, 77), (25, 0xFF)):
        bad = bytearray(good)
        bad[at] = value
        assert _decoded(bytes(bad)) is None
    deep = b"\1v\0" * 5000
    header = bytearray(signal(body=b"x" * (len(deep) - 4)))
    assert header.count(b"\2ay\0") == 1
    assert _decoded(bytes(header).replace(b"\2ay\0", b"\1v\0\0")[: -len(deep)] + deep) is None


# A real bus.


def test_it_asks_and_is_told(bus: MessageBus) -> None:
    async def body() -> None:
        one, two = await Bus.open(str(bus.socket)), await Bus.open(str(bus.socket))
        heard: list[Message] = []
        one.listen(heard.append)
        await one.match("type='signal',interface='a.b'")
        assert await one.owner(DRIVER) == DRIVER and await one.owner("no.such.name") == ""
        await two.send(Message(message_type=MessageType.SIGNAL, path="/a", interface="a.b", member="News"))
        await until(lambda: any(message.member == "News" for message in heard))
        with pytest.raises(BusError, match="UnknownMethod"):
            await one.ask(DRIVER, DRIVER_PATH, DRIVER, "NoSuchMethod")
        assert not one._method_return_handlers
        one.close()
        two.close()
        with pytest.raises(BusError, match="the bus is gone"):
            await one.ask(DRIVER, DRIVER_PATH, DRIVER, "ListNames")

    run(body())


def test_nobody_is_started_for_a_call(bus: MessageBus) -> None:
    """The fixture's end looks whether anybody was."""

    async def body() -> None:
        one = await Bus.open(str(bus.socket))
        with pytest.raises(NoOwner):
            await one.ask(NAME, "/", "org.freedesktop.DBus.Peer", "Ping")
        await one.match(f"type='signal',sender='{NAME}'")
        assert await one.owner(NAME) == ""
        one.close()

    run(body())


def test_nothing_is_offered(bus: MessageBus) -> None:
    async def body() -> None:
        one, two = await Bus.open(str(bus.socket)), await Bus.open(str(bus.socket))
        for interface, member in (("Introspectable", "Introspect"), ("Peer", "GetMachineId"), ("Peer", "Ping")):
            with pytest.raises(BusError, match="nothing is offered here"):
                await two.ask(str(one.unique_name), "/", f"org.freedesktop.DBus.{interface}", member)
        one.close()
        two.close()

    run(body())


def test_a_message_of_any_length_costs_little(bus: MessageBus) -> None:
    """Anybody may send one to anybody; the library alone takes 1.5 s for 2 MB of small pieces."""

    async def body() -> None:
        one, two = await Bus.open(str(bus.socket)), await Bus.open(str(bus.socket))
        heard: list[Message] = []
        one.listen(heard.append)
        long = Message(
            message_type=MessageType.SIGNAL, path="/a", interface="a.b", member="Long", signature="as",
            body=[["x"] * 250_000], destination=one.unique_name,
        )  # fmt: skip
        two.send(long)  # It is encoded here.
        before = time.process_time()
        await until(lambda: "Long" in [message.member for message in heard])
        assert time.process_time() - before < 0.5
        assert heard[-1].body == []
        one.close()
        two.close()

    run(body())


def test_a_bus_that_goes(bus: MessageBus) -> None:
    async def body() -> None:
        one = await Bus.open(str(bus.socket))
        waiting = asyncio.ensure_future(one.ask(DRIVER, DRIVER_PATH, DRIVER, "ListNames"))
        bus.freeze()
        late = asyncio.ensure_future(one.ask(DRIVER, DRIVER_PATH, DRIVER, "ListNames"))
        await waiting if waiting.done() else await asyncio.sleep(0)
        bus.stop()
        with pytest.raises(BusError):
            await late
        with contextlib.suppress(BusError):
            await waiting
        assert (await one.lost()).startswith(str(bus.socket)) and not one.connected
        one.close()
        with pytest.raises(BusError, match="Connection refused"):
            await Bus.open(str(bus.socket))
        bus.start()
        two = await Bus.open(str(bus.socket))
        assert await two.owner(DRIVER) == DRIVER
        two.close()

    run(body())


def test_a_bus_that_hangs(bus: MessageBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostreewatchd.peers.bus._ANSWER_WITHIN", 0.1)

    async def body() -> None:
        one = await Bus.open(str(bus.socket))
        bus.freeze()
        with pytest.raises(BusError, match="no answer within"):
            await one.ask(DRIVER, DRIVER_PATH, DRIVER, "ListNames")
        assert not one._method_return_handlers
        with pytest.raises(BusError, match="no answer within 0.2 s"):
            await Bus.open(str(bus.socket), within=0.2)
        bus.thaw()
        monkeypatch.setattr("ostreewatchd.peers.bus._ANSWER_WITHIN", 10.0)
        assert await one.owner(DRIVER) == DRIVER
        one.close()

    run(body())


def test_what_does_not_fit_now_is_sent_later(bus: MessageBus) -> None:
    """The library gives up the connection with the first write that would block, and loses the rest."""

    async def body() -> None:
        one, two = await Bus.open(str(bus.socket)), await Bus.open(str(bus.socket))
        heard: list[Message] = []
        two.listen(heard.append)
        await two.match("type='signal',interface='a.b'")
        bus.freeze()
        for _ in range(40):
            one.send(Message(message_type=MessageType.SIGNAL, path="/a", interface="a.b", member="News",
                             signature="ay", body=[b"x" * 20_000]))  # fmt: skip
        await asyncio.sleep(0.1)
        assert one.connected and not one._writer.messages.empty()
        bus.thaw()
        await until(lambda: sum(message.member == "News" for message in heard) == 40)
        one.close()
        two.close()

    run(body())


def test_two_hundred_connections_leave_nothing(bus: MessageBus) -> None:
    async def body() -> None:
        for _ in range(200):
            one = await Bus.open(str(bus.socket))
            one.close()

    run(body())


# A peer that is no bus.


@contextlib.asynccontextmanager
async def peer(path: Path, talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]):  # type: ignore[no-untyped-def]
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(served, str(path))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("said", [b"", b"O", b"OK", b"REJECTED EXTERNAL\r\n", b"\xff\xff\r\n", b"x" * 10_000])
def test_a_handshake_that_is_none(tmp_path: Path, said: bytes) -> None:
    """With the library alone its end is waited for with all of a processor, and without end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(said)
        await writer.drain()

    async def body() -> None:
        async with peer(tmp_path / "bus", talk):
            with pytest.raises(BusError):
                await Bus.open(str(tmp_path / "bus"))

    run(body())


@pytest.mark.parametrize("said", [b"", b"x" * 64, b"l\4\0\1" + bytes(12)])
def test_a_hello_that_is_not_answered(tmp_path: Path, said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(f"OK {GUID}\r\n".encode())
        await reader.readline()
        await reader.read(16)
        writer.write(said)
        await writer.drain()

    async def body() -> None:
        async with peer(tmp_path / "bus", talk):
            with pytest.raises(BusError):
                await Bus.open(str(tmp_path / "bus"), within=3)

    run(body())


def test_a_backlog_that_is_full_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, contextlib.ExitStack() as stack:
        server.bind(str(tmp_path / "bus"))
        server.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            with contextlib.suppress(BlockingIOError):
                waiting.connect(str(tmp_path / "bus"))

        async def body() -> None:
            with pytest.raises(BusError, match="temporarily unavailable"):
                await Bus.open(str(tmp_path / "bus"))

        run(body())


def test_there_is_no_bus(tmp_path: Path) -> None:
    async def body() -> None:
        with pytest.raises(BusError, match="No such file or directory; does the system bus run"):
            await Bus.open(str(tmp_path / "none"))

    run(body())
