# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.scenarios record [NAME…]` builds worlds (as root) and saves the look at each; `show NAME…` says
what is found and done there."""

from __future__ import annotations

import sys

from ostreewatchd.judge import judge
from ostreewatchd.plan import plan
from tests.scenarios.kit.builder import Builder, Failed
from tests.scenarios.kit.catalogue import names, scenario
from tests.scenarios.kit.expect import short, state
from tests.scenarios.kit.page import PAGE, page
from tests.scenarios.kit.recorded import load, normal, save


def record(chosen: list[str]) -> None:
    with Builder() as builder:
        for name in chosen:
            one = scenario(name)
            if one.build is None:
                continue
            try:
                save(one.stand_ins(normal(builder.looks(name).root)), one.saved)
                print(name)
            except Failed as error:
                print(error)


def show(chosen: list[str]) -> None:
    for name in chosen:
        one = scenario(name)
        snapshot = load(one.saved)
        findings = judge(snapshot)
        print(f"{name}: {snapshot.live.usr_class} {snapshot.live.partial}")
        for finding in findings:
            key = (finding.rule, state(finding), short(finding.subject), finding.path)
            print(f"    {key}: {finding.reason}")
        made = plan(snapshot, findings, one.settings)
        for step in made.steps:
            print(f"    {step.kind} {short(step.subject)}")
        for refusal in made.refusals:
            print(f"    refused: {refusal.name}, {short(refusal.subject)}: {refusal.because}")
        for problem in snapshot.problems:
            print(f"    problem: {problem.where}: {problem.what}")


def rules(_: list[str]) -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


def main(arguments: list[str]) -> None:
    verbs = {"record": record, "show": show, "rules": rules}
    if not arguments or arguments[0] not in verbs:
        sys.exit(__doc__)
    verbs[arguments[0]](arguments[1:] or names())


if __name__ == "__main__":
    main(sys.argv[1:])
