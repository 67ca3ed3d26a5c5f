# SPDX-License-Identifier: Apache-2.0
"""Switches off each rule and each clause of a rule in turn, in memory: what is judged with one of them forced to
True or to False, or with a rule taken out, is compared with what is judged with all of them."""

from __future__ import annotations

import ast
import contextlib
import copy
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ostreewatchd.model import Settings, Snapshot
from tests.unit.sources import Module, modules

_JUDGE = "ostreewatchd.judge"
_PLAN = "ostreewatchd.plan"
_OF_RECOVERY = f"{_JUDGE}.recovery."
"""What judges a node's recovery has a series of its own, and its tests are test_recovery.py."""


class Case(NamedTuple):
    """A saved look and the settings of its scenario."""

    name: str
    snapshot: Snapshot
    settings: Settings


class Mutant(NamedTuple):
    """One change. `place` tells it by module, function and text, so that an edit elsewhere does not move it."""

    place: str
    module: str
    tree: ast.Module


def judged_modules() -> tuple[Module, ...]:
    """The rules, and the plan: in an order in which each finds those loaded that it imports."""
    found = {
        one.name: one
        for one in modules()
        if one.name.startswith((_JUDGE, _PLAN)) and not f"{one.name}.".startswith(_OF_RECOVERY)
    }
    needs = {name: set(_imported(one, frozenset(found))) - {name} for name, one in found.items()}
    ordered: list[Module] = []
    while found:
        free = [one for name, one in found.items() if not needs[name] & found.keys()]
        assert free, f"they import each other in a circle: {sorted(found)}"
        for one in free:
            ordered.append(found.pop(one.name))
    return tuple(ordered)


def _imported(module: Module, among: Iterable[str]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                # What a package has in its __init__ is loaded after what that imports.
                yield full if full in among else node.module


class _Finder(ast.NodeVisitor):
    """The expressions that decide something, each with the function that it is in."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[str, ast.expr]] = {}
        self._inside: list[str] = []

    def _function(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    visit_FunctionDef = visit_ClassDef = _function

    def _add(self, node: ast.expr) -> None:
        if self._inside and not isinstance(node, ast.Constant):
            self.found.setdefault(id(node), (".".join(self._inside), node))

    def visit_If(self, node: ast.If) -> None:
        self._add(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add(node.test)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values:
            self._add(value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._add(node)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._add(test)
        self.generic_visit(node)


class _Forced(ast.NodeTransformer):
    def __init__(self, wanted: ast.expr, value: bool) -> None:
        self._wanted, self._value = wanted, value
        self._key = (wanted.lineno, wanted.col_offset, wanted.end_lineno, wanted.end_col_offset, type(wanted))

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr):
            key = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, type(node))
            if key == self._key:
                return ast.copy_location(ast.Constant(self._value), node)
        return self.generic_visit(node)


def clauses(module: Module) -> Iterator[Mutant]:
    """Each condition of the module, forced to True and to False."""
    finder = _Finder()
    finder.visit(module.tree)
    for function, node in finder.found.values():
        for value in (True, False):
            tree = copy.deepcopy(module.tree)
            _Forced(node, value).visit(tree)
            yield Mutant(f"{module.name}: {function}: {ast.unparse(node)} -> {value}", module.name, tree)


def rules_taken_out(package: Module) -> Iterator[Mutant]:
    """The judge without one of its rules each."""
    for number, statement in enumerate(package.tree.body):
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "RULES":
            assert isinstance(statement.value, ast.Tuple)
            for place, rule in enumerate(statement.value.elts):
                tree = copy.deepcopy(package.tree)
                changed = tree.body[number]
                assert isinstance(changed, ast.AnnAssign) and isinstance(changed.value, ast.Tuple)
                del changed.value.elts[place]
                yield Mutant(f"{package.name}: RULES without {ast.unparse(rule)}", package.name, tree)


class Bench:
    """Judges the cases with a module exchanged."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._modules = judged_modules()
        self._code = {one.name: compile(one.tree, one.where, "exec") for one in self._modules}
        self._cases = list(cases)
        with self._loaded({}) as loaded:
            self._before = {case.name: _judged(loaded, case) for case in self._cases}

    def killer(self, mutant: Mutant) -> str:
        """The first scenario that is judged or planned otherwise; empty if all are as before. A rule that falls over
        is otherwise, too."""
        case = self._judged_otherwise(mutant)
        if case is None:
            return ""
        # The next one is in the same function, most likely.
        self._cases.remove(case)
        self._cases.insert(0, case)
        return case.name

    def _judged_otherwise(self, mutant: Mutant) -> Case | None:
        code = compile(mutant.tree, mutant.module, "exec")
        case = self._cases[0]
        try:
            with self._loaded({mutant.module: code}) as loaded:
                for case in self._cases:
                    if _judged(loaded, case) != self._before[case.name]:
                        return case
        except Exception:  # noqa: BLE001 (whatever a broken rule raises)
            return case
        return None

    @contextlib.contextmanager
    def _loaded(self, changed: dict[str, types.CodeType]) -> Iterator[dict[str, types.ModuleType]]:
        names = [one.name for one in self._modules]
        kept = {name: sys.modules.get(name) for name in names}
        fresh = {one.name: types.ModuleType(one.name) for one in self._modules}
        for one in self._modules:
            if one.path.name == "__init__.py":
                fresh[one.name].__path__ = []
        try:
            sys.modules.update(fresh)
            for one in self._modules:
                # As an import does: a module is its package's attribute, too.
                package, _, name = one.name.rpartition(".")
                if package in fresh:
                    setattr(fresh[package], name, fresh[one.name])
                exec(changed.get(one.name, self._code[one.name]), fresh[one.name].__dict__)
            yield fresh
        finally:
            for name, module in kept.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module


def _judged(loaded: dict[str, types.ModuleType], case: Case) -> tuple[object, object]:
    findings = loaded[_JUDGE].judge(case.snapshot)
    return findings, loaded[_PLAN].plan(case.snapshot, findings, case.settings)
