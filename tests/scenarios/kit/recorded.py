# SPDX-License-Identifier: Apache-2.0
"""Saved Snapshots of scenarios: written so that a record of the same world made anew is the same text.

What is different in each run is numbered anew, in the order in which it stands in the Snapshot: pids, mount
namespaces, devices, inodes, mounts; the order of unique mount ids is kept, equal stays equal and different stays
different."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ostreewatchd.model import Snapshot
from ostreewatchd.replay import form

_TAKEN_AT, _TAKEN_BOOTTIME = 1_800_000_000.0, 100_000.0
_BOOT = "6f0e2a34-0000-4000-8000-000000000001"
_LINES = ("mount", "usr_mount", "etc_mount")
_MARK = re.compile(r"=(\d+):(\d+)@(\d+)")
_FOLDER = re.compile(r"/[^,:= ]*/scenarios-\w+/\d+(?=/sysroot)")
"""Where the world was built, which an overlay's options tell."""
_ROUND = 60.0
"""Seconds."""
_MOMENT = 5.0
"""Seconds. What a built world did within this time before the look, it did at once."""


def save(snapshot: Snapshot, path: Path) -> None:
    """A snapshot's file, without what is as it is by default: so a new field changes no file."""
    said = {"format": snapshot.format, **_said(snapshot, msgspec.json.decode(form.encode(snapshot)))}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(said), indent=1) + b"\n")


def _said(value: Any, written: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        fields = [(field, getattr(value, field.name)) for field in msgspec.structs.fields(value)]
        return {field.name: _said(one, written[field.name]) for field, one in fields if one != field.default}
    if isinstance(value, tuple):
        return [_said(one, as_written) for one, as_written in zip(value, written)]
    return written


def load(path: Path) -> Snapshot:
    return form.load(path.read_bytes())


def normal(snapshot: Snapshot) -> Snapshot:
    """The Snapshot with its numbers made anew."""
    return msgspec.convert(_Renumbering(snapshot).anew(), Snapshot)


class _Renumbering:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._raw = msgspec.to_builtins(snapshot)
        self._tables: dict[str, dict[int, int]] = {}
        serials = sorted(set(self._serials(self._raw)))
        self._tables["serial"] = {serial: 1001 + place for place, serial in enumerate(serials)}
        self._tables["pid"] = {1: 1}

    def _serials(self, value: Any) -> Iterator[int]:
        if isinstance(value, dict):
            if isinstance(value.get("serial"), int):
                yield value["serial"]
            for one in value.values():
                yield from self._serials(one)
        elif isinstance(value, (list, tuple)):
            for one in value:
                yield from self._serials(one)
        elif isinstance(value, str):
            yield from (int(match.group(3)) for match in _MARK.finditer(value))

    def anew(self) -> Any:
        self._raw["node"].update(name="node0", boot_id=_BOOT, kernel="6.18")
        self._raw["product"] = "0"
        return self._value("", self._raw)

    def _number(self, table: str, number: int, first: int) -> int:
        known = self._tables.setdefault(table, {})
        return known.setdefault(number, first + len(known))

    def _device(self, device: int) -> int:
        return os.makedev(0, self._number("device", device, 40))

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._value(name, one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._value(key, one) for one in value]
        anew = self._BY_KEY.get(key)
        if anew is None or value is None or value == "":
            return self._text(value) if isinstance(value, str) else value
        return anew(self, value)

    def _line(self, line: str) -> str:
        """A line of mountinfo: `id parent major:minor root point options [tags] - …`."""
        fields = line.split(" ")
        dash = fields.index("-", 6)
        for place in (0, 1):
            fields[place] = str(self._number("mount", int(fields[place]), 20))
        major, minor = map(int, fields[2].split(":"))
        device = self._device(os.makedev(major, minor))
        fields[2] = f"{os.major(device)}:{os.minor(device)}"
        for place in range(6, dash):
            name, colon, number = fields[place].partition(":")
            if colon:
                fields[place] = f"{name}:{self._number('peers', int(number), 1)}"
        return _FOLDER.sub("", " ".join(fields))

    def _fingerprint(self, text: str) -> str:
        def mark(match: re.Match[str]) -> str:
            dev, ino, serial = map(int, match.groups())
            return f"={self._device(dev)}:{self._ino(ino)}@{self._serial(serial)}"

        def unseen(match: re.Match[str]) -> str:
            return f"=none@{self._number('mount', int(match.group(1)), 20)}"

        return re.sub(r"=none@(\d+)", unseen, _MARK.sub(mark, text)).replace(self._snapshot.node.boot_id, _BOOT)

    def _text(self, text: str) -> str:
        return re.sub(r"(?<=process )\d+", lambda match: str(self._number("pid", int(match.group()), 1000)), text)

    def _ino(self, ino: int) -> int:
        # Not by device: an overlay's is the number of what is below it.
        return self._number("inode", ino, 100)

    def _serial(self, serial: int) -> int:
        return self._tables["serial"][serial]

    def _ago(self, ago: float) -> float:
        return 0.0 if ago < _MOMENT else float(round(ago))

    def _date(self, at: float) -> float:
        """Of a credential: the look came some moments after it was made."""
        return _TAKEN_AT - round((self._snapshot.taken_at - at) / _ROUND) * _ROUND

    def _at(self, at: float) -> float:
        return _TAKEN_AT - self._ago(self._snapshot.taken_at - at)

    def _boottime(self, at: float) -> float:
        return _TAKEN_BOOTTIME - self._ago(self._snapshot.taken_boottime - at)

    _BY_KEY: dict[str, Callable[[Any, Any], Any]] = {
        "pid": lambda self, pid: self._number("pid", pid, 1000),
        "mount_namespace": lambda self, number: self._number("namespace", number, 4026531841),
        "init_mount_namespace": lambda self, number: self._number("namespace", number, 4026531841),
        "made_in": lambda self, number: self._number("namespace", number, 4026531841),
        "dev": lambda self, dev: self._device(dev),
        "ino": lambda self, ino: self._ino(ino),
        "serial": lambda self, serial: self._serial(serial),
        "taken_at": lambda self, at: self._at(at),
        "taken_boottime": lambda self, at: self._boottime(at),
        "born_at": lambda self, at: self._at(at),
        "started_at": lambda self, at: self._at(at),
        **{key: lambda self, at: self._date(at) for key in ("issued_at", "expires_at", "warn_after", "modified_at")},
        "started_boottime": lambda self, at: self._boottime(at),
        "age": lambda self, age: self._ago(age),
        "fingerprint": lambda self, text: self._fingerprint(text),
        **{key: lambda self, line: self._line(line) for key in _LINES},
    }
