# SPDX-License-Identifier: Apache-2.0
"""Bugs planted into the product, each with a name: the simulation must find every one of them.

Most replace one function; a few change one statement of the product's own source, so that all else stays real."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Callable

import msgspec

from ostreewatchd import asking, settle
from ostreewatchd.ledger import Ledger, LedgerError
from ostreewatchd.model import History, Pause, Plan, Settings, Snapshot, SystemView
from ostreewatchd.remediation import cure, loop, program
from ostreewatchd.remediation.cure import Curer, Outcome
from ostreewatchd.remediation.proof import Proof
from tests.sim.node import Node

Patch = Callable[[contextlib.ExitStack], None]
_replace = msgspec.structs.replace


def _set(stack: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    before = getattr(owner, name)
    stack.callback(setattr, owner, name, before)
    setattr(owner, name, value)


def _instead(owner: Any, name: str, value: Any) -> Patch:
    """`owner.name` is `value`."""
    return lambda stack: _set(stack, owner, name, value)


def _in_plan(name: str, value: Any) -> Patch:
    """A function of the plan, in whichever of its modules it is used."""

    def patch(stack: contextlib.ExitStack) -> None:
        found = [
            module
            for where, module in sys.modules.items()
            if f"{where}.".startswith("ostreewatchd.plan.") and hasattr(module, name)
        ]
        if not found:
            raise LookupError(f"the plan has no {name} any more")
        for module in found:
            _set(stack, module, name, value)

    return patch


def _planned(change: Callable[[Snapshot, Settings], tuple[Snapshot, Settings]]) -> Patch:
    """The plan is made of another Snapshot than the true one."""

    def patch(stack: contextlib.ExitStack) -> None:
        real = loop.make_plan

        def make_plan(snapshot: Snapshot, findings: Any, settings: Settings) -> Plan:
            snapshot, settings = change(snapshot, settings)
            return real(snapshot, findings, settings)

        _set(stack, loop, "make_plan", make_plan)

    return patch


def _statement(module: ModuleType, owner: Any, name: str, change: type[ast.NodeTransformer]) -> Patch:
    """A function with one statement changed."""

    def patch(stack: contextlib.ExitStack) -> None:
        function = getattr(owner, name)
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        transformer = change()
        new = ast.fix_missing_locations(transformer.visit(tree))
        if not getattr(transformer, "done", False):
            raise LookupError(f"{name} no longer has the statement that this bug changes")
        space: dict[str, Any] = {}
        exec(compile(new, inspect.getsourcefile(module) or "", "exec"), vars(module), space)
        _set(stack, owner, name, space[name])

    return patch


class _NoSecondLook(ast.NodeTransformer):
    """`again = self._world.look(...)` becomes the look of the plan."""

    done = False

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == "again":
            self.done = True
            node.value = ast.Name("snapshot", ast.Load())
        return node


class _NoSettling(ast.NodeTransformer):
    """A remediation goes on at once where it sees another switch than the one before."""

    done = False

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test).startswith("fingerprint not in"):
            self.done = True
            node.test = ast.Constant(False)
        return self.generic_visit(node)


def _acts(snapshot: Snapshot, change: Callable[[Any], Any]) -> Snapshot:
    acts = tuple(act for act in map(change, snapshot.history.acts) if act is not None)
    return _replace(snapshot, history=_replace(snapshot.history, acts=acts))


def _any_switch(snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, Settings]:
    switch = snapshot.history.switch
    if switch is None:
        return snapshot, settings
    return _acts(snapshot, lambda act: _replace(act, switch_id=switch.id)), settings


def _id_is_the_key(snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, Settings]:
    running = {one.id for one in snapshot.containers}
    return _acts(snapshot, lambda act: act if act.subject.container_id in running else None), settings


def _wall_clock(snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, Settings]:
    history = snapshot.history
    switch = history.switch
    containers = tuple(_replace(one, started_boottime=one.started_at) for one in snapshot.containers)
    if switch is not None:
        history = _replace(history, switch=_replace(switch, seen_boottime=switch.seen_at))
    return _replace(snapshot, containers=containers, history=history), settings


def _soft_reboot_is_a_boot(snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, Settings]:
    """As if what was done before it was of another boot."""
    if snapshot.system is not None and snapshot.system.soft_reboots:
        node = snapshot.node
        snapshot = _replace(snapshot, node=_replace(node, boot_id=f"{node.boot_id}+{snapshot.system.soft_reboots}"))
    return snapshot, settings


def _forgets_at_reboot(self: Pause, *, now: float, boottime: float, boot_id: str) -> bool:
    return boot_id == self.boot_id and boottime - self.since_boottime < self.seconds


def _kubelet_is_fine(snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, Settings]:
    kubelet = snapshot.kubelet
    if kubelet is not None:
        snapshot = _replace(snapshot, kubelet=_replace(kubelet, refusal="", problem=""))
    return snapshot, settings


def _sandbox_first(stack: contextlib.ExitStack) -> None:
    real = loop.make_plan

    def make_plan(snapshot: Snapshot, findings: Any, settings: Settings) -> Plan:
        made = real(snapshot, findings, settings)
        return _replace(made, steps=tuple(_replace(step, kind="stop-sandbox") for step in made.steps))

    _set(stack, loop, "make_plan", make_plan)


def _blind_is_stale(stack: contextlib.ExitStack) -> None:
    real = loop.make_plan

    def make_plan(snapshot: Snapshot, findings: Any, settings: Settings) -> Plan:
        guessed = tuple(
            _replace(one, verdict="stale", owed=True) if one.verdict == "unknown" else one for one in findings
        )
        return real(snapshot, guessed, settings)

    _set(stack, loop, "make_plan", make_plan)
    _set(stack, Curer, "_still_owed", lambda *_: True)


def _no_intent(self: Ledger, switch: Any, step: Any) -> int:
    return 0


def _swallows(stack: contextlib.ExitStack) -> None:
    real = Ledger.intend

    def intend(self: Ledger, switch: Any, step: Any) -> int:
        try:
            return real(self, switch, step)
        except LedgerError:
            return 0

    _set(stack, Ledger, "intend", intend)
    # The disk is full: nothing can be written, and nobody minds.
    for name in ("conclude", "record_switch"):
        _set(stack, Ledger, name, _forgiving(getattr(Ledger, name)))


def _forgiving(real: Callable[..., Any]) -> Callable[..., Any]:
    def write(self: Ledger, *arguments: Any, **more: Any) -> Any:
        try:
            return real(self, *arguments, **more)
        except LedgerError:
            return self.history().switch

    return write


def _outcome_first(stack: contextlib.ExitStack) -> None:
    real = Curer.cure

    def cure_(self: Curer, step: Any, snapshot: Snapshot, switch: Any) -> Outcome:
        act = self._ledger.intend(switch, step)
        self._ledger.conclude(act, "cured", "it will be")
        return real(self, step, snapshot, switch)

    _set(stack, Curer, "cure", cure_)


def _reversed_order(stack: contextlib.ExitStack) -> None:
    real = loop.make_plan

    def make_plan(snapshot: Snapshot, findings: Any, settings: Settings) -> Plan:
        made = real(snapshot, findings, settings)
        return _replace(made, steps=tuple(reversed(made.steps)))

    _set(stack, loop, "make_plan", make_plan)


def _stale_switch(stack: contextlib.ExitStack) -> None:
    real = Ledger.record_switch

    def record_switch(self: Ledger, *arguments: Any, **more: Any) -> Any:
        return self.history().switch or real(self, *arguments, **more)

    _set(stack, Ledger, "record_switch", record_switch)


def _not_durable(stack: contextlib.ExitStack) -> None:
    real = Ledger.begin_run

    def begin_run(self: Ledger) -> int:
        self._db.execute("PRAGMA synchronous = OFF")
        return real(self)

    _set(stack, Ledger, "begin_run", begin_run)


@contextlib.contextmanager
def _no_lock(path: str) -> Iterator[None]:
    yield


MUTANTS: Mapping[str, Patch] = {
    "no second look": _statement(cure, Curer, "cure", _NoSecondLook),
    "no intent": _instead(Ledger, "intend", _no_intent),
    "key without switch id": _planned(_any_switch),
    "wall clock for guards": _planned(_wall_clock),
    "container id as the only key": _planned(_id_is_the_key),
    "flag ignored": _instead(settle, "in_progress", lambda *_, **__: None),
    "order reversed": _reversed_order,
    "proof by return code": _instead(cure, "prove", lambda *_: Proof("cured", "it said so", 1)),
    "breaker ignored": _in_plan("hold", lambda _, __, steps: (list(steps), ())),
    "started-after check dropped": _in_plan("started_after", lambda *_: ""),
    "outcome before the act": _outcome_first,
    "ledger error swallowed": _swallows,
    "lost-configuration check dropped": _in_plan("lost", lambda *_: ""),
    "observe mode ignored": _planned(lambda snapshot, settings: (snapshot, _replace(settings, mode="heal"))),
    "restart policy guessed": _in_plan("restart_policy", lambda *_: ("Always", "guessed")),
    "kubelet not asked": _planned(_kubelet_is_fine),
    "systemd not asked": _planned(
        lambda snapshot, settings: (_replace(snapshot, system=SystemView(state="running")), settings)
    ),
    "pause ignored": _instead(Snapshot, "pause", None),
    "pause ignored after a reboot": _instead(Pause, "holds", _forgets_at_reboot),
    "window ignored": _planned(lambda snapshot, settings: (snapshot, _replace(settings, windows=()))),
    "soft reboot taken for a boot": _planned(_soft_reboot_is_a_boot),
    "budget ignored": _in_plan("limit", lambda _, steps, __: (list(steps), [])),
    "back-off ignored": _in_plan("wait", lambda *_: 0.0),
    "largest cure first": _sandbox_first,
    "unknown taken for stale": _blind_is_stale,
    "no lock": _instead(program, "_only_one", _no_lock),
    "refused taken for not done": _instead(Curer, "_runs_on", lambda *_: True),
    "interrupted acts stay open": _instead(cure, "_may_still_come", lambda *_: True),
    "restart of an earlier switch not waited for": _in_plan("not_back", lambda *_: ()),
    "not resumed": _instead(Curer, "resume", lambda *_: Outcome("", "later")),
    "switch not told from the one before": _stale_switch,
    # Two guards against the same: a torn look is known for one, and a new switch is looked at twice.
    "torn look trusted": _statement(loop, program, "remediate", _NoSettling),
    "asks only once": _instead(asking.Asker, "_again", lambda self: None),
    "writes not synced": _not_durable,
}
"""Name: how it is planted."""


def _trust(node: Node) -> None:
    node.eyes.trust_torn = True


TUNED: Mapping[str, Callable[[Node], None]] = {"torn look trusted": _trust}
"""Those that are planted into the node's eyes: what they stand for is observe's."""

NAMES = tuple(dict.fromkeys((*MUTANTS, *TUNED)))


@contextlib.contextmanager
def planted(name: str) -> Iterator[tuple[Callable[[Node], None], ...]]:
    """The product has this bug; what else to do to each node."""
    with contextlib.ExitStack() as stack:
        if name in MUTANTS:
            MUTANTS[name](stack)
        yield (TUNED[name],) if name in TUNED else ()


__all__ = ["MUTANTS", "NAMES", "TUNED", "History", "planted"]
