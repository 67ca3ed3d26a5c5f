# SPDX-License-Identifier: Apache-2.0
"""Entries in the journal, by its native protocol: each kind of entry has a MESSAGE_ID and fields of its own.

The socket never blocks: an entry that does not fit now is counted and named in the next one that does.
Source: systemd.journal-fields(7), Native Journal Protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL)."""

from __future__ import annotations

import enum
import os
import socket
import struct
import sys
from typing import Optional

from ostreewatchd.model import Subject
from ostreewatchd.report.printable import printable

SOCKET = "/run/systemd/journal/socket"
_MAX_FIELD = 16 << 10


class Kind(enum.Enum):
    """What is reported. The value is `(MESSAGE_ID, syslog priority)`; packaging/journal has the catalog."""

    STARTED = ("de45b2d2db6a4bb9b5c2ea03b530e5e4", 6)
    """A program of the product has started."""
    SWITCH = ("2e615488e54d4e3c86c859c29f36163d", 5)
    """The live deployment, or a watched directory, is another one."""
    PENDING = ("e76599f8e8da4c5aad30ea05dec11666", 5)
    """A deployment waits for the next boot: nothing is due before it."""
    OWED = ("09d39bb1a91d48238a1bf43b04226252", 4)
    """A container is stale and a cure is due."""
    NOTED = ("57f937e6d1754ba3a4c1e426fb5057e1", 6)
    """A container is stale and nothing is due unasked."""
    WRONG = ("5d3c8a0e4f6b4c0f9b1d7e2a6c94f018", 4)
    """The host contradicts itself, or something is about to do harm; nothing is due of a container."""
    UNKNOWN = ("6a2fb67af9204b60bb93cdc4cabf36d3", 5)
    """Something could not be judged."""
    ASKED = ("f2d9d01db09a47479b0b611f742a0b40", 6)
    """The watcher has asked for a remediation."""
    REFUSED = ("e969c4490150470ead7f615beb69a858", 4)
    """A due cure is not done now, for a reason with a name."""
    INTENT = ("f71de85680084b128381f2230964294a", 5)
    """A container is about to be stopped."""
    CURED = ("850703424fb14a9c87e793e6cd55cd39", 5)
    """The finding is gone in a fresh look."""
    NOT_CURED = ("b41190f610704c769904093d313576d4", 2)
    """The proof did not come in time: a person has to look."""
    CONFIG = ("6aa55f2ac2304e24b1cd3d7066760b23", 4)
    """The configuration has a mistake; the rest of it holds."""
    LEDGER_ASIDE = ("14b119475d4b4252a9231553d8f741ac", 3)
    """The ledger was corrupt and has been set aside."""
    OVERDUE = ("e8f3f4f897f2444e9a4c6e054c535e8a", 4)
    """Waiting for the end of a switch lasts too long."""
    FAILED = ("9108021da8624892a3f64229d618d8a4", 3)
    """A program could not do its work."""
    DONE = ("c7f70d4d9bae4eb59310292896fd5a82", 6)
    """A remediation has ended."""
    ENDED = ("a9f6b6c16fda493b90b94f93181183a7", 5)
    """An act ended without cure or failure: not needed, its pod gone, or another switch came."""
    ALARM = ("c7fcaa1d61204f1d8de190770176d2bc", 2)
    """A person has to look: a refusal that does not end by itself, or a restart that did not cure."""
    NOT_WATCHED = ("9bd6af37c749449c9ea38a585478fbe8", 5)
    """Something that wakes the watcher cannot be watched here; it looks now and then instead."""
    PAUSED = ("cbaf2e72760b42bc83f9290f66369db8", 5)
    """A person has ordered that nothing is restarted for a while."""
    RESUMED = ("c0a1f91ea45f4b54be3daf5f6d9be8a5", 5)
    """A pause has ended."""
    WATCHER_RESTART = ("0643a5aeae6f4ba99ea28d7cb3467b8f", 6)
    """The watcher is restarted, because it runs from the old tree."""

    @property
    def message_id(self) -> str:
        return self.value[0]

    @property
    def priority(self) -> int:
        return self.value[1]


class Journal:
    """Where a program reports to. Without a journal the line goes to standard error."""

    def __init__(self, program: str, path: str = SOCKET) -> None:
        self._program = program
        self._path = path
        self._lost = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)

    def close(self) -> None:
        self._socket.close()

    def report(self, kind: Kind, message: str, *, subject: Optional[Subject] = None, **fields: object) -> None:
        """Send one entry. `fields` become OSTREEWATCHD_<NAME>; those of None are left out."""
        entry: dict[str, str] = {
            "MESSAGE": printable(message),
            "MESSAGE_ID": kind.message_id,
            "PRIORITY": str(kind.priority),
            "SYSLOG_IDENTIFIER": self._program,
            "OSTREEWATCHD_KIND": kind.name.lower().replace("_", "-"),
        }
        if subject is not None:
            for name in ("namespace", "pod", "pod_uid", "container", "container_id", "unit"):
                if getattr(subject, name):
                    entry[f"OSTREEWATCHD_{name.upper()}"] = printable(getattr(subject, name))
        for name, value in fields.items():
            if value is not None:
                entry[f"OSTREEWATCHD_{name.upper()}"] = printable(str(value))
        if self._lost:
            entry["OSTREEWATCHD_LOST_ENTRIES"] = str(self._lost)
        try:
            self._socket.sendto(encode(entry), self._path)
            self._lost = 0
        except BlockingIOError:
            self._lost += 1
        except OSError:
            print(f"<{kind.priority}>{entry['MESSAGE']}", file=sys.stderr, flush=True)


def last_words(error: BaseException) -> str:
    """A fault of the program itself in one line: what, where, and what to do with it."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    text = " ".join(str(error).split())[:300]
    return f"a fault of the program: {type(error).__name__}: {text} at {place}: please report it"


def encode(entry: dict[str, str]) -> bytes:
    """One datagram: `NAME=value` lines, or name, length and value where the value has a newline."""
    parts = []
    for name, value in entry.items():
        data = os.fsencode(value)[:_MAX_FIELD]
        if b"\n" in data:
            parts.append(name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n")
        else:
            parts.append(name.encode() + b"=" + data + b"\n")
    return b"".join(parts)
