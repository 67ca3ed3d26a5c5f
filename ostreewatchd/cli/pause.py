# SPDX-License-Identifier: Apache-2.0
"""Restart nothing for a while: everything is still watched, judged and told."""

from __future__ import annotations

import argparse
import os
import pwd
import sys
import time

from ostreewatchd.cli.world import CouldNotKnow, only_root
from ostreewatchd.ledger import PATH, pausing
from ostreewatchd.model import Exit, Pause
from ostreewatchd.parse.times import duration
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind
from ostreewatchd.report.printable import printable

_SHORTEST, _LONGEST = 60.0, 7 * 86400.0
_DIRECTORY = os.path.dirname(PATH)
_NOBODY = 0xFFFFFFFF
"""The login uid of a process that no login began."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for", dest="seconds", required=True, type=_seconds, metavar="TIME", help="1min to 7d: 90min, 2h, 1d"
    )
    parser.add_argument("--why", required=True, type=_text, metavar="TEXT", help="shown wherever a restart is refused")


def _seconds(text: str) -> float:
    try:
        seconds = duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not _SHORTEST <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError("must be between 1min and 7d")
    return seconds


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must say something")
    return text.strip()


def run(options: argparse.Namespace) -> int:
    only_root("pause")
    order = Pause(
        since=time.time(),
        since_boottime=time.clock_gettime(time.CLOCK_BOOTTIME),
        boot_id=_boot(),
        seconds=options.seconds,
        who=who(),
        why=options.why,
    )
    try:
        os.makedirs(_DIRECTORY, mode=0o755, exist_ok=True)
        pausing.write(_DIRECTORY, order)
    except OSError as error:
        print(f"ostreewatchctl: {_DIRECTORY}: {error.strerror}: there is no pause", file=sys.stderr)
        return Exit.COULD_NOT_KNOW
    text = words.pause(order)
    journal = Journal("ostreewatchctl")
    try:
        journal.report(Kind.PAUSED, text, who=order.who, until=words.when(order.until))
    finally:
        journal.close()
    print(printable(text))
    return Exit.NOTHING_OWED


def _boot() -> str:
    from ostreewatchd.observe.host import HostGone, this_boot

    try:
        return this_boot()
    except HostGone as error:
        raise CouldNotKnow(str(error)) from error


def who() -> str:
    """Who logged in, whatever he became since; else whose process this is."""
    try:
        with open("/proc/self/loginuid", encoding="ascii") as file:
            uid = int(file.read(32))
    except (OSError, ValueError):
        uid = _NOBODY
    if uid == _NOBODY:
        return os.environ.get("SUDO_USER") or _name(os.getuid())
    return _name(uid)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
