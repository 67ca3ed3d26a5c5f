# SPDX-License-Identifier: Apache-2.0
"""docs/rules.md: what each rule proves, where that is published, and the scenarios that show it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ostreewatchd.judge import RULES
from ostreewatchd.judge.rule import Rule
from tests.scenarios.kit.catalogue import Scenario, scenarios
from tests.unit.sources import ROOT

PAGE = ROOT / "docs" / "rules.md"
_HEAD = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Made by `python -m tests.scenarios rules`: edit the rules' docstrings and the scenarios, not this. -->
# Rules

Each rule proves one thing of one look at the world. *Owed* is what is cured unasked, *noted* what is worth knowing,
*unknown* what cannot be told, *wrong* a state of the host that contradicts itself. A scenario is a reported fault,
built as a world and looked at; nothing is found there but what is listed here.
"""


def page() -> str:
    known = scenarios()
    parts = [_HEAD]
    for rule in RULES:
        parts.append("\n".join(_rule(rule, known)))
    quiet = [one for one in known if not one.expect.findings]
    parts.append("## Where nothing is found\n\n" + "\n".join(_line(one) for one in quiet))
    parts.append("## What is refused\n\n" + "\n".join(_refusals(known)))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _rule(rule: Rule, known: Iterable[Scenario]) -> Iterator[str]:
    yield f"## {rule.name}\n"
    yield f"{rule.proves}\n"
    yield f"- Cure: {rule.cure.value}."
    yield f"- Source: {rule.source.rstrip('.')}."
    yield "- Scenarios:"
    for one in known:
        states = [row[1] for row in one.expect.findings if row[0] == rule.name]
        if states:
            yield "  " + _line(one, ", ".join(dict.fromkeys(states)))


def _refusals(known: Iterable[Scenario]) -> Iterator[str]:
    shown: dict[str, list[Scenario]] = {}
    for one in known:
        for name in dict.fromkeys(row[0] for row in one.expect.refusals):
            shown.setdefault(name, []).append(one)
    means = refusals_of_the_readme()
    for name in sorted({*shown, *means}):
        if name in shown:
            yield f"- `{name}`: " + ", ".join(_link(one) for one in shown[name])
        else:
            yield f"- `{name}` (without a scenario): {means[name]}"


def refusals_of_the_readme() -> dict[str, str]:
    """Each name of its table, and what it means."""
    _, _, text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## When it refuses\n")
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE)
    return {name: means for names, means in rows for name in re.findall(r"`([a-z-]+)`", names)}


def _line(one: Scenario, states: str = "") -> str:
    said = f" ({states})" if states else ""
    return f"- {_link(one)}{said}: {', '.join(one.reported)}"


def _link(one: Scenario) -> str:
    return f"[{one.name.replace('_', ' ')}](../tests/scenarios/{one.name}.py)"
