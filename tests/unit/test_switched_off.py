# SPDX-License-Identifier: Apache-2.0
"""No rule and no clause of a rule is there without a scenario that needs it: each is switched off in turn, and the
saved Snapshots must be judged or planned otherwise."""

from __future__ import annotations

import ast

from tests.scenarios.kit.catalogue import scenarios
from tests.scenarios.kit.recorded import load
from tests.scenarios.kit.switchoff import Bench, Case, clauses, judged_modules, rules_taken_out
from tests.unit.runtimetable import ROWS

JUDGE = "ostreewatchd.judge"

EQUIVALENT: dict[str, str] = {
    f"{JUDGE}.stale_certificates: holds_old: mine.identity != theirs.identity -> True":
        "certificates are read only where both sides are there and differ",
    f"{JUDGE}.stale_certificates: holds_old: theirs.identity is not None -> True":
        "certificates are read only where both sides are there and differ",
    f"{JUDGE}.tokens.writers: holds_another: reference is not None -> True":
        "for the type checker: of what is bound PID 1's view is always there",
    f"{JUDGE}.runtime_namespace: _of_daemon: one.sight.mount -> True":
        "what has an identity is on a mount",
    f"{JUDGE}.runtime_namespace: _differing: init is None -> False":
        "for the type checker: who asks has compared the two",
    f"{JUDGE}.replaced_file: replaced: mine.identity is None -> False":
        "what has no identity counts as a directory, of which this rule says nothing",
    f"{JUDGE}.rule: Rule.__call__: inspect.getdoc(inspect.getmodule(function)) -> False":
        "what a rule proves is for docs/rules.md alone, which has a test of its own",
    f"{JUDGE}.rule: Rule.judge: self._judge is None -> False":
        "a rule without a function is a mistake in its module, and in no Snapshot",
    f"{JUDGE}.due: _was_replaced_in_place: mine.identity is None -> False":
        "for the type checker: who asks has compared the two",
    f"{JUDGE}.due: _was_replaced_in_place: theirs.identity is None -> False":
        "for the type checker: who asks has compared the two",
}  # fmt: skip
"""What changes nothing, by place, and why that is right."""


def bench() -> Bench:
    cases = [Case(one.name, load(one.saved), one.settings) for one in scenarios()]
    return Bench([*cases, *(Case(row.tells, row.look(), row.settings) for row in ROWS)])


def test_each_rule_and_each_clause_is_needed_by_a_scenario() -> None:
    judging = bench()
    alive = set()
    for module in judged_modules():
        if not module.name.startswith(JUDGE):
            continue
        mutants = list(clauses(module))
        if module.name == JUDGE:
            mutants += rules_taken_out(module)
        alive |= {mutant.place for mutant in mutants if not judging.killer(mutant)}
    unproven = sorted(alive - set(EQUIVALENT))
    assert not unproven, "no scenario needs:\n" + "\n".join(unproven)
    needed = set(EQUIVALENT) - alive
    assert not needed, "not equivalent (any more):\n" + "\n".join(sorted(needed))


def test_each_refusal_is_shown_by_a_scenario() -> None:
    """Those that plan makes itself; what keeps kubelet from a restart is named by who looked at it."""
    made = set()
    for module in judged_modules():
        for node in ast.walk(module.tree) if not module.name.startswith(JUDGE) else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Refusal", "refuse"):
                names = [word.value for word in node.keywords if word.arg == "name"] + node.args[:1]
                made |= {name.value for name in names if isinstance(name, ast.Constant)}
    shown = {row[0] for one in scenarios() for row in one.expect.refusals}
    shown |= {name.partition(" ")[0] for row in ROWS for name in row.plan}
    assert len(made) >= 16 and not made - shown, sorted(made - shown)


def test_a_clause_is_found_and_forced() -> None:
    """What the switching off itself is worth."""
    (module,) = (one for one in judged_modules() if one.name == f"{JUDGE}.due")
    texts = {mutant.place.removeprefix(f"{module.name}: "): ast.unparse(mutant.tree) for mutant in clauses(module)}
    assert "if True:\n        return (False, 'noted only: it is mounted" in texts["due: not bind.writable -> True"]
    assert "if False:\n        return (False, 'noted only: it is mounted" in texts["due: not bind.writable -> False"]
    assert len(set(texts.values())) == len(texts)
