# SPDX-License-Identifier: Apache-2.0
"""Which switch is the live one, and whether a container was started before it."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import Bind, Container, Finding, Reference, Snapshot, Switch
from ostreewatchd.plan.births import was_born_after


def current(snapshot: Snapshot) -> Optional[Switch]:
    """The ledger's switch, if it is the live one."""
    switch = snapshot.history.switch
    return switch if switch is not None and switch.fingerprint == snapshot.live.fingerprint else None


def bind_of(container: Container, finding: Finding) -> Optional[Bind]:
    return next((one for one in container.binds if one.path == finding.inside), None)


def started_after(snapshot: Snapshot, container: Container, finding: Finding) -> str:
    """Why the container is no leftover of the switch: it was started after it. Also where the order cannot be
    told.

    What the kernel says first: unique mount ids order the container's bind and the host's mount. Then what the
    ledger remembers: if it knew the state before this switch, in this boot, then what was started before the
    switch was first seen is taken for a leftover; a second restart is the ledger's to prevent. With no memory the
    birth of the directory is left, which is of the wall clock."""
    bind = bind_of(container, finding)
    # PID 1's: it is the host's, also where the process that made the bind has not seen the switch.
    reference = snapshot.reference(finding.path, snapshot.init_mount_namespace)
    if reference is None:
        reference = snapshot.reference(finding.path, container.binder.mount_namespace)
    if bind is None or reference is None:
        return "its bind is gone"
    mine, theirs = bind.sight.serial, reference.sight.serial
    if mine is not None and theirs is not None and mine < theirs:
        return ""
    seen = _remembered(snapshot)
    if seen is not None:
        if container.started_boottime < seen:
            return ""
        return f"it was started {container.started_boottime - seen:.0f} s after the switch was first seen"
    if _may_be_born_after(bind, reference) and was_born_after(snapshot, container, reference, current(snapshot)):
        return ""
    if mine is not None and theirs is not None:
        return f"its mount (id {mine}) is younger than the host's (id {theirs}): it was started after the switch"
    return "whether it was started before the switch cannot be told: the ledger knows no earlier state of this boot"


def _may_be_born_after(bind: Bind, reference: Reference) -> bool:
    """Not where the kernel has said already that the container's mount is the younger one: then the directory can
    only be the younger of the two if it was made anew in the same tree."""
    ordered = bind.sight.serial is not None and reference.sight.serial is not None
    return not ordered or bind.sight.deployment == reference.sight.deployment


def _remembered(snapshot: Snapshot) -> Optional[float]:
    """When (CLOCK_BOOTTIME) a remediation first saw the live switch, if the ledger knew the state before it, and says
    when: one that an older version has written does not."""
    switch, before = current(snapshot), snapshot.history.before
    boot = snapshot.node.boot_id
    if switch is None or before is None or not switch.seen_boottime or snapshot.history.set_aside_boot == boot:
        return None
    return switch.seen_boottime if switch.boot_id == before.boot_id == boot else None
