# SPDX-License-Identifier: Apache-2.0
"""List what was done, when, why, and with what proof."""

from __future__ import annotations

import argparse
import os
import sys

from ostreewatchd import ledger
from ostreewatchd.cli.world import json_argument
from ostreewatchd.model import Exit
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.printable import printable


def arguments(parser: argparse.ArgumentParser) -> None:
    json_argument(parser, "one JSON list")


def run(options: argparse.Namespace) -> int:
    history = ledger.read()
    if history.problem:
        print(f"ostreewatchctl: {printable(history.problem)}", file=sys.stderr)
        return Exit.COULD_NOT_KNOW
    if options.json:
        print(json_text(history.acts))
        return Exit.NOTHING_OWED
    if history.set_aside:
        print(f"an earlier ledger was corrupt and was set aside: {printable(history.set_aside)}")
    for act in history.acts:
        print(words.act(act))
        print(f"    because {printable(act.because)}")
        for line in words.recovery(history, act):
            print(f"    {line}")
    if not history.acts:
        missing = "" if os.path.exists(ledger.PATH) else f": there is no ledger at {ledger.PATH}"
        print(f"nothing was ever done{missing}")
    return Exit.NOTHING_OWED
