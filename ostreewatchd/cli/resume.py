# SPDX-License-Identifier: Apache-2.0
"""End a pause now, and have what is owed looked at."""

from __future__ import annotations

import argparse
import os
import sys

from ostreewatchd import wanted
from ostreewatchd.cli.pause import who
from ostreewatchd.cli.world import only_root
from ostreewatchd.ledger import PATH, pausing
from ostreewatchd.model import Exit
from ostreewatchd.report.journal import Journal, Kind

_DIRECTORY = os.path.dirname(PATH)


def arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(options: argparse.Namespace) -> int:
    only_root("resume")
    try:
        ended = pausing.remove(_DIRECTORY)
    except OSError as error:
        print(f"ostreewatchctl: {_DIRECTORY}: {error.strerror}: the pause was not ended", file=sys.stderr)
        return Exit.COULD_NOT_KNOW
    if not ended:
        print("not paused")
        return Exit.NOTHING_OWED
    journal = Journal("ostreewatchctl")
    try:
        journal.report(Kind.RESUMED, f"{who()} has ended the pause", who=who())
    finally:
        journal.close()
    print("resumed")
    try:
        wanted.ask()
    except OSError as error:
        print(f"ostreewatchctl: {error}: is ostreewatchd.service running?", file=sys.stderr)
    return Exit.NOTHING_OWED
