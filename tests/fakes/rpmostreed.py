# SPDX-License-Identifier: Apache-2.0
"""An rpm-ostreed on a real bus: its objects and properties, its signals in their order, its idle exit, and a
transaction's socket that nobody may touch; and as much of systemd as tells of its transient units.

Sources: rpm-ostree rpmostreed-sysroot.cxx, rpmostreed-os.cxx (each stateroot's object is told of first, then the
sysroot's, whose changes are emitted from an idle source; ActiveTransaction is reset last), rpmostreed-daemon.cxx (the
name is released, then the process ends; nothing is said of the properties); org.freedesktop.systemd1(5)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbus_next.aio.message_bus import MessageBus as Connection
from dbus_next.constants import MessageType
from dbus_next.message import Message
from dbus_next.signature import Variant

from ostreewatchd.peers.bus import _Patient
from tests.fakes.messagebus import NAME, SYSTEMD, MessageBus

PATH = "/org/projectatomic/rpmostree1"
OS = f"{PATH}/fedora_coreos"
UNLOCK = "rpm-ostree-unlock.service"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_MANAGER = f"{SYSTEMD}.Manager"
_IDLE = ("", "", "")


class _Service(ABC):
    """A connection that owns a name and answers calls."""

    name = ""

    def __init__(self, bus: MessageBus) -> None:
        self._address = f"unix:path={bus.socket}"
        self._connection: Connection | None = None
        self.calls: list[tuple[str, ...]] = []
        """(interface, member, ...) of each call that came."""
        self.hold = False
        """Signals wait in `held` for `release`."""
        self.held: list[Message] = []

    async def start(self) -> None:
        self._connection = await Connection(bus_address=self._address).connect()
        self._connection._writer.sock = _Patient(self._connection._sock)
        self._connection.add_message_handler(self._handle)
        await self._connection.request_name(self.name)

    async def stop(self, *, name_first: bool = True) -> None:
        """Release the name and end. Otherwise as a crash: only the connection ends."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if name_first and connection.connected:
            await asyncio.wait_for(connection.release_name(self.name), 10)
        if connection.connected:
            connection.disconnect()
        with contextlib.suppress(EOFError, OSError):
            await asyncio.wait_for(connection.wait_for_disconnect(), 10)
        connection._stream.close()
        connection._sock.close()

    def emit(self, path: str, interface: str, member: str, signature: str, *body: Any, to: str = "") -> None:
        message = Message(
            message_type=MessageType.SIGNAL, path=path, interface=interface, member=member, signature=signature,
            body=list(body), destination=to or None,
        )  # fmt: skip
        if self.hold:
            self.held.append(message)
        else:
            self._send(message)

    def release(self, choose: Callable[[list[Message]], list[Message]] = list) -> None:
        """Send what waits: all of it in order, or what `choose` makes of it."""
        held, self.held = choose(self.held), []
        for message in held:
            message.serial = 0
            self._send(message)

    def _send(self, message: Message) -> None:
        if self._connection is not None and self._connection.connected:
            self._connection.send(message)

    def _handle(self, message: Message) -> Message | bool:
        if message.message_type is not MessageType.METHOD_CALL:
            return False
        call = (str(message.interface), str(message.member), *map(str, message.body))
        # By its unique name: nobody is started for a call to that.
        is_by_unique_name = str(message.destination).startswith(":")
        self.calls.append(call if is_by_unique_name else ("not by its unique name", *call))
        assert is_by_unique_name
        return self.answer(message) or True

    @abstractmethod
    def answer(self, message: Message) -> Message | None:
        """To a call; None: there is none."""


class FakeRpmOstreed(_Service):
    """The daemon. `transaction`, `finish`, `apply_live` do what it does to its properties; `idle_exit` ends it."""

    name = NAME

    def __init__(self, bus: MessageBus, folder: Path) -> None:
        super().__init__(bus)
        self._socket = socket.socket(socket.AF_UNIX)
        self._transaction_path = str(folder / "rpm-ostree-transaction.sock")
        self._socket.bind(self._transaction_path)
        self._socket.listen(5)
        self._socket.setblocking(False)
        self.active: tuple[str, str, str] = _IDLE
        self.answers = True
        self.odd_answer: Variant | None = None
        self.packages = ["vim"]
        """Of the deployments' dictionaries: what makes them long."""

    def close(self) -> None:
        """Of the test: nobody may have touched the socket."""
        try:
            touched, _ = self._socket.accept()
        except BlockingIOError:
            return
        finally:
            self._socket.close()
        touched.close()
        raise AssertionError("somebody opened the transaction's socket")

    def transaction(self, method: str = "UpdateDeployment", on: str = OS) -> None:
        """One begins."""
        self.active = (method, ":1.99", on)
        self._sysroot(
            ActiveTransaction=Variant("(sss)", list(self.active)),
            ActiveTransactionPath=Variant("s", f"unix:path={self._transaction_path}"),
        )

    def finish(self) -> None:
        """It ends: the stateroot's object, then the sysroot's, then the transaction is no more."""
        self.reload()
        self.active = _IDLE
        self._sysroot(ActiveTransaction=Variant("(sss)", list(_IDLE)), ActiveTransactionPath=Variant("s", ""))

    def reload(self) -> None:
        """/ostree/deploy was touched."""
        deployment = {"id": Variant("s", f"fedora-coreos-{'a' * 64}.0"), "packages": Variant("as", self.packages)}
        self._changed(OS, f"{NAME}.OS", BootedDeployment=Variant("a{sv}", deployment))
        self._sysroot(Deployments=Variant("aa{sv}", [deployment]), Booted=Variant("o", OS))

    async def idle_exit(self) -> None:
        """Nobody called for a minute, and nothing is under way."""
        assert self.active == _IDLE
        await self.stop()

    def answer(self, message: Message) -> Message | None:
        if not self.answers:
            return None
        if message.interface == _PROPERTIES and message.member == "Get" and message.path == f"{PATH}/Sysroot":
            return Message.new_method_return(
                message, "v", [self.odd_answer or Variant("(sss)", list(self.active))]
            )  # fmt: skip
        return Message.new_error(message, "org.freedesktop.DBus.Error.UnknownMethod", "not that")

    def _sysroot(self, **values: Variant) -> None:
        self._changed(f"{PATH}/Sysroot", f"{NAME}.Sysroot", **values)

    def _changed(self, path: str, interface: str, **values: Variant) -> None:
        self.emit(path, _PROPERTIES, "PropertiesChanged", "sa{sv}as", interface, values, [])


class FakeSystemd(_Service):
    """PID 1 on the bus: it tells of units and jobs while somebody has subscribed."""

    name = SYSTEMD

    def __init__(self, bus: MessageBus) -> None:
        super().__init__(bus)
        self.subscribers: set[str] = set()
        self._job = 100

    def answer(self, message: Message) -> Message | None:
        if (message.interface, message.member) == (_MANAGER, "Subscribe"):
            self.subscribers.add(str(message.sender))
            return Message.new_method_return(message)
        return Message.new_error(message, "org.freedesktop.DBus.Error.UnknownMethod", "not that")

    def begin(self, unit: str = UNLOCK) -> None:
        """A transient unit is started."""
        self._job += 1
        self._tell("UnitNew", "so", unit, self._path(unit))
        self._tell("JobNew", "uos", self._job, f"/org/freedesktop/systemd1/job/{self._job}", unit)

    def end(self, unit: str = UNLOCK) -> None:
        """Its start is done (Type=oneshot: so is its work), and it is collected."""
        job = f"/org/freedesktop/systemd1/job/{self._job}"
        self._tell("JobRemoved", "uoss", self._job, job, unit, "done")
        self._tell("UnitRemoved", "so", unit, self._path(unit))

    def _path(self, unit: str) -> str:
        return "/org/freedesktop/systemd1/unit/" + "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in unit)

    def _tell(self, member: str, signature: str, *body: Any) -> None:
        if self.subscribers:
            self.emit("/org/freedesktop/systemd1", _MANAGER, member, signature, *body)


async def until(what: Callable[[], object], seconds: float = 15.0) -> None:
    """Wait for it. It is a matter of milliseconds, on a machine that does nothing else."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not what():
        assert loop.time() < end, "it did not come to pass"
        await asyncio.sleep(0.005)


def lossy(dice: random.Random) -> Callable[[list[Message]], list[Message]]:
    """What a bad day makes of signals: some are lost, some come twice, none is where it was."""

    def choose(held: list[Message]) -> list[Message]:
        kept = [message for message in held for _ in range(dice.choice((0, 1, 1, 2)))]
        dice.shuffle(kept)
        return kept

    return choose
