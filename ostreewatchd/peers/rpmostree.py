# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree's daemon on the message bus: which signals tell of its work, and whether it is at work now.

It is read and never disturbed: it is not started, no client is registered with it (that would keep it from its idle
exit), and the socket of a transaction is not touched (who is connected there keeps the transaction open).

Sources: rpm-ostree org.projectatomic.rpmostree1.xml, rpmostreed-sysroot.cxx (ActiveTransaction), rpmostreed-daemon.cxx
(idle exit), rust/src/isolation.rs (rpm-ostree-unlock.service); org.freedesktop.systemd1(5)."""

from __future__ import annotations

from typing import Any

from ostreewatchd.lean import asyncio
from ostreewatchd.model import RpmOstreeView
from ostreewatchd.peers.bus import DRIVER, DRIVER_PATH, PROPERTIES, SYSTEM_BUS, Bus, BusError, Message, NoOwner

NAME, PATH = "org.projectatomic.rpmostree1", "/org/projectatomic/rpmostree1"
SYSTEMD, _SYSTEMD_PATH = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
_MANAGER = f"{SYSTEMD}.Manager"
UNLOCK = "rpm-ostree-unlock.service"
"""The transient unit in which the first live-apply of a boot has the overlay mounted."""
_SYSROOT = f"{NAME}.Sysroot"
_ASK_WITHIN = 4.0
_MAX_TITLE = 100

_OWNER_CHANGED = f"type='signal',sender='{DRIVER}',path='{DRIVER_PATH}',interface='{DRIVER}',member='NameOwnerChanged'"
_OF_MANAGER = f"type='signal',sender='{SYSTEMD}',path='{_SYSTEMD_PATH}',interface='{_MANAGER}'"
RULES = (
    f"{_OWNER_CHANGED},arg0='{NAME}'",
    f"{_OWNER_CHANGED},arg0='{SYSTEMD}'",
    f"type='signal',sender='{NAME}',path_namespace='{PATH}'",
    f"{_OF_MANAGER},arg0='{UNLOCK}'",
    f"{_OF_MANAGER},arg2='{UNLOCK}'",
)
"""PropertiesChanged below rpm-ostree's path, and what comes and goes there; UnitNew and UnitRemoved (the unit is the
first argument), JobNew and JobRemoved (it is the third)."""


class Senders:
    """Whose signals count: of the others, anybody may have sent one."""

    def __init__(self) -> None:
        self.rpm_ostree = ""
        self.systemd = ""

    def is_hint(self, message: Message) -> bool:
        """Whether the signal is a reason to look. The bus itself fills in the sender; a new owner is learned from
        it."""
        if message.sender == DRIVER:
            return self._is_new_owner(message)
        if message.sender == self.rpm_ostree != "":
            path = str(message.path)
            return path == PATH or path.startswith(f"{PATH}/")
        if message.sender == self.systemd != "" and message.interface == _MANAGER:
            return UNLOCK in message.body
        return False

    def _is_new_owner(self, message: Message) -> bool:
        if message.member != "NameOwnerChanged" or message.signature != "sss" or len(message.body) != 3:
            return False
        name, _, owner = message.body
        if name == NAME:
            self.rpm_ostree = owner
        elif name == SYSTEMD:
            self.systemd = owner
        return name in (NAME, SYSTEMD)


async def follow(bus: Bus, senders: Senders) -> None:
    """Have the signals sent, and learn who sends them. Raises BusError."""
    for rule in RULES:
        await bus.match(rule)
    senders.rpm_ostree = await bus.owner(NAME)
    senders.systemd = await bus.owner(SYSTEMD)


async def subscribe(bus: Bus, systemd: str) -> None:
    """systemd tells of jobs only while somebody has asked for it: logind does, where it runs. Raises BusError."""
    await bus.ask(systemd, _SYSTEMD_PATH, _MANAGER, "Subscribe")


async def see(bus: Bus) -> RpmOstreeView:
    """What is so now. Raises BusError where the bus itself does not answer."""
    owner = await bus.owner(NAME)
    if not owner:
        names = await bus.ask(DRIVER, DRIVER_PATH, DRIVER, "ListActivatableNames")
        installed = bool(names) and isinstance(names[0], list) and NAME in names[0]
        # It does not exit while a transaction is under way.
        return RpmOstreeView(installed=installed, owned=False, transaction=False)
    try:
        # By its unique name: if it exits meanwhile, nothing is started.
        answer = await bus.ask(owner, f"{PATH}/Sysroot", PROPERTIES, "Get", "ss", _SYSROOT, "ActiveTransaction")
    except NoOwner:  # It has just gone.
        return RpmOstreeView(installed=True, owned=False, transaction=False)
    except BusError as error:
        return RpmOstreeView(installed=True, owned=True, problem=str(error))
    title = _title(answer)
    if title is None:
        return RpmOstreeView(installed=True, owned=True, problem=f"{NAME}: an ActiveTransaction that is none")
    return RpmOstreeView(installed=True, owned=True, transaction=bool(title), title=title)


def ask(path: str = SYSTEM_BUS) -> RpmOstreeView:
    """What is so now, for who has no loop. Where there is no bus nothing is known, with the reason."""
    try:
        return asyncio.run(asyncio.wait_for(_ask(path), _ASK_WITHIN))
    except asyncio.TimeoutError:
        return RpmOstreeView(problem=f"{path}: no answer within {_ASK_WITHIN:g} s")
    except BusError as error:
        return RpmOstreeView(problem=str(error))


async def _ask(path: str) -> RpmOstreeView:
    bus = await Bus.open(path)
    try:
        return await see(bus)
    finally:
        bus.close()


def _title(answer: list[Any]) -> str | None:
    """Of (method, caller, object path): the method and the stateroot. Empty: none is under way; None: it is no such
    thing."""
    value = getattr(answer[0], "value", None) if len(answer) == 1 else None
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(part, str) for part in value):
        return None
    method, _, path = value
    stateroot = path.rpartition("/")[2]
    if not method:
        return ""
    return (f"{method} of {stateroot}" if stateroot else method)[:_MAX_TITLE]
