# SPDX-License-Identifier: Apache-2.0
"""Show what a remediation would do now, and what it would refuse; do nothing."""

from __future__ import annotations

import argparse

from ostreewatchd.cli.world import exit_status, from_argument, json_argument, see
from ostreewatchd.plan import plan
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text


def arguments(parser: argparse.ArgumentParser) -> None:
    json_argument(parser)
    from_argument(parser)


def run(options: argparse.Namespace) -> int:
    config, snapshot, findings = see(options, deep=True)
    made = plan(snapshot, findings, config)
    if options.json:
        print(json_text(made))
        return exit_status(snapshot, findings, made)
    for number, step in enumerate(made.steps, start=1):
        print(f"{number}. {words.step(step)}")
    for step in made.would:
        print(f"-  held back: {words.step(step)}")
    for refusal in made.refusals:
        print(f"-  {words.refusal(refusal)}")
    if not made.steps and not made.refusals:
        print("nothing is owed")
    return exit_status(snapshot, findings, made)
