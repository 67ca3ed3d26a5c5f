# SPDX-License-Identifier: Apache-2.0
"""Whether all that is owed is cured, or refused with a name that is true."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.ledger import Run
from ostreewatchd.model import STOPPED_NOTHING, History, Refusal
from tests.sim.node import Node
from tests.sim.pods import Subject


def unsettled(node: Node, history: History, run: Optional[Run]) -> str:
    """What is still to come; empty if nothing is."""
    if node.unit_active or node.wanted:
        return "a remediation is under way or asked for"
    if history.problem:
        return f"the ledger cannot be read: {history.problem}"
    waiting = [one.name for one in node.subjects if not one.runs]
    if waiting:
        return f"{waiting} do not run"
    fingerprint = node.host.fingerprint
    if history.switch is None or history.switch.fingerprint != fingerprint:
        return "the ledger does not know the live state"
    open_acts = [act.id for act in history.acts if not act.outcome]
    if open_acts:
        return f"acts {open_acts} have no outcome"
    facts = node.truth.facts()
    for subject in facts.stale.values():
        refusals = (
            [] if run is None else [one for one in run.refusals if one.subject in (None, _subject(one, subject))]
        )
        if not refusals:
            return f"{subject.name} is stale, neither cured nor refused"
        false = [one.name for one in refusals if not _is_true(one, subject, node, history)]
        if false:
            return f"{subject.name} is refused for no reason: {', '.join(false)}"
    return ""


def _subject(refusal: Refusal, subject: Subject) -> object:
    """The refusal's own subject if it is this one."""
    mine = refusal.subject
    return mine if mine is not None and mine.container_id == subject.id else object()


def _is_true(refusal: Refusal, subject: Subject, node: Node, history: History) -> bool:
    name, facts = refusal.name, node.truth.facts()
    switch = history.switch
    acts = [act for act in history.acts if switch is not None and act.switch_id == switch.id]
    if name == "already-restarted":
        return any(act.subject.key == subject.key and act.outcome not in STOPPED_NOTHING for act in acts)
    if name == "container-will-not-stop":
        return any(act.subject.container_id == subject.id and act.outcome == "not-cured" for act in acts)
    if name == "breaker":
        return any(
            act.outcome == "not-cured" and act.subject.key not in facts.fresh and act.subject.pod_uid in facts.ready
            for act in acts
        )
    if name == "started-after-switch":
        return not _was_surely_before(subject, node, history)
    if name == "runtime-is-stale":
        return not facts.helps[subject.id]
    if name == "budget":
        # All of them are of the last hour, which no step of the wall clock changes.
        spent = [act for act in history.acts if act.outcome not in STOPPED_NOTHING]
        of_switch = [act for act in spent if act in acts]
        return len(of_switch) >= node.shape.per_switch or len(spent) >= node.shape.per_hour
    if name == "cni-configuration-missing":
        return subject.id in facts.lost
    if name in ("restart-policy-unknown", "restart-policy-not-always"):
        return subject.labels != "daemon-set"
    return False


def _was_surely_before(subject: Subject, node: Node, history: History) -> bool:
    """Whether anybody could know that it was started before the switch: from the kernel's mount ids, from a ledger
    that knew the state before in this boot, or from the directory's birth as long as nobody stepped the clock."""
    host, switch, before = node.host, history.switch, history.before
    if node.shape.serials and subject.serial < host.etc[-1].serial:
        return True
    remembers = switch is not None and before is not None and history.set_aside_boot != host.boot_id
    if remembers and switch.boot_id == before.boot_id == host.boot_id and switch.seen_boottime:
        return subject.started - node.timeline.booted < switch.seen_boottime
    if node.shape.serials and subject.tree != host.cni.name:
        return False  # The kernel says that its mount is the younger one.
    return node.truth.stepped_at < 0 and subject.started + 1.5 < host.cni.made
