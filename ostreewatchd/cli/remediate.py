# SPDX-License-Identifier: Apache-2.0
"""Ask the remediation to look and act now, wait for it, and show how it ended."""

from __future__ import annotations

import argparse
import sys
import time

from ostreewatchd import ledger, wanted
from ostreewatchd.cli.world import only_root, unit_states
from ostreewatchd.model import Exit
from ostreewatchd.report import words
from ostreewatchd.report.printable import printable

_POLL = 0.2
_LONGEST = 3600.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", type=_seconds, default=300.0, metavar="SECONDS", help="how long to wait (300)")


def _seconds(text: str) -> float:
    seconds = float(text)  # argparse tells of the ValueError.
    if not 0.0 <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"must be from 0 to {_LONGEST:.0f} seconds")
    return seconds


def run(options: argparse.Namespace) -> int:
    only_root("remediate")
    state = unit_states()["ostreewatchd-remediate.path"]
    if state not in ("active", "activating"):
        print(
            f"ostreewatchctl: ostreewatchd-remediate.path is {state}, so nobody would take the request up:"
            " `systemctl start ostreewatchd`, as root",
            file=sys.stderr,
        )
        return Exit.COULD_NOT_KNOW
    try:
        before = ledger.newest_run()
        wanted.ask()
    except OSError as error:
        print(f"ostreewatchctl: {error}: is ostreewatchd.service running?", file=sys.stderr)
        return Exit.COULD_NOT_KNOW
    end = time.monotonic() + options.wait
    while time.monotonic() < end:
        try:
            last = ledger.last_run()
        except ledger.LedgerError:
            last = None  # Being written; the next look is soon.
        if last is not None and last.ended_at and last.id > before:
            print(printable(last.summary))
            for refusal in last.refusals:
                print(f"  {words.refusal(refusal)}")
            return last.status if last.status is not None else Exit.COULD_NOT_KNOW
        time.sleep(_POLL)
    print(
        f"ostreewatchctl: asked; no remediation ended within {options.wait:g} s: see"
        " `systemctl status ostreewatchd-remediate.path ostreewatchd-remediate.service`",
        file=sys.stderr,
    )
    return Exit.COULD_NOT_KNOW
