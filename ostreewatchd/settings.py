# SPDX-License-Identifier: Apache-2.0
"""Finds the configuration files and merges them.

Source: UAPI.6 Configuration Files Specification: the first of /etc and /usr/lib that has the main file wins;
drop-ins of both are merged by name, and a link to /dev/null masks one."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from ostreewatchd.model import Settings
from ostreewatchd.parse.settings import MAX_BYTES, Complaint, parse

_NAME = "ostreewatchd.conf"
_PLACES = ("/etc/ostreewatchd", "/usr/lib/ostreewatchd")
# Not /run/ostreewatchd: that belongs to the watcher's user, whom the remediation must not obey.
_MAX_FILES = 100


def load(places: Sequence[str] = _PLACES) -> tuple[Settings, list[Complaint]]:
    """The settings in effect and what is wrong in the files. Nothing there: the defaults."""
    complaints: list[Complaint] = []
    merged: dict[str, object] = {}
    for path in _files(places, complaints):
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            complaints.append(Complaint(path, 0, f"cannot be read: {error.strerror}"))
            continue
        values, found = parse(path, data)
        merged.update(values)
        complaints += found
    return msgspec.structs.replace(Settings(), **merged), complaints


def _files(places: Sequence[str], complaints: list[Complaint]) -> list[str]:
    files = [path for place in places for path in (f"{place}/{_NAME}",) if os.path.lexists(path)][:1]
    drop_ins: dict[str, str] = {}
    for place in places:
        directory = f"{place}/{_NAME}.d"
        try:
            names = sorted(os.listdir(directory))[:_MAX_FILES]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            complaints.append(Complaint(directory, 0, f"cannot be listed: {error.strerror}"))
            continue
        for name in names:
            if name.endswith(".conf"):
                drop_ins.setdefault(name, f"{directory}/{name}")
            else:
                complaints.append(Complaint(f"{directory}/{name}", 0, "not read: its name does not end in .conf"))
    files += [drop_ins[name] for name in sorted(drop_ins)]
    return [path for path in files if os.path.realpath(path) != "/dev/null"]
