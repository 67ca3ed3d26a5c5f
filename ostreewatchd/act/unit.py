# SPDX-License-Identifier: Apache-2.0
"""Restarts a unit through systemd: the watcher's without waiting for it, the runtime's as a job whose end is told."""

from __future__ import annotations

from typing import NamedTuple

from ostreewatchd.model import Step
from ostreewatchd.peers.systemd import SystemdActs
from ostreewatchd.peers.units import UnitActs, unit

_JOB_WITHIN = 300.0
"""Seconds: CRI-O's unit has no limit of its own for a start, and a stop waits for calls that are under way."""
_START_WITHIN = 90.0
_RELOAD_WITHIN = "60"
_UP = ("active", "activating", "reloading")


class Ran(NamedTuple):
    """What came of it. `asked` False: nothing was done, and `said` why."""

    asked: bool
    said: str
    successor: str = ""
    """The start that runs now."""


def run(step: Step) -> Ran:
    """Restart, or reload, the step's unit, unless it is no longer the start that the step is for. It is one job, so
    that nothing stays stopped if this ends here. Raises SystemdError."""
    name, restart = step.subject.unit, step.kind == "restart-unit"
    with UnitActs(_RELOAD_WITHIN) as systemd:
        before = unit(systemd, name)
        if before.invocation != step.invocation:
            return Ran(False, "somebody else has restarted it meanwhile", before.invocation)
        if before.job:
            return Ran(False, "systemd has a job for it that is somebody else's", before.invocation)
        kubelet_ran = bool(step.kubelet) and systemd.unit_state(step.kubelet) in _UP
        if step.daemon_reload:
            systemd.daemon_reload()
        mine, *others = systemd.run("RestartUnit" if restart else "ReloadUnit", name, _JOB_WITHIN)
        said = f"job {mine.result}"
        said += "".join(f", {one.unit}: {one.result}" for one in others if one.unit == step.kubelet)
        # Restart=always does not try again what was not started because something that it requires was not.
        # (openshift/machine-config-operator#6545)
        if kubelet_ran and systemd.unit_state(step.kubelet) not in _UP:
            started, *_ = systemd.run("StartUnit", step.kubelet, _START_WITHIN)
            said += f"; {step.kubelet} was down and was started: {started.result}"
        return Ran(True, said, unit(systemd, name).invocation)


def restart_if_running(unit: str) -> None:
    """Queue a restart of `unit` if it is active. Raises SystemdError."""
    with SystemdActs() as systemd:
        systemd.restart_if_running(unit)


def restart_if_failed(unit: str) -> bool:
    """Queue a start of `unit` if it has failed; whether it had. One that was stopped stays so. Raises
    SystemdError."""
    with SystemdActs() as systemd:
        if systemd.unit_state(unit) != "failed":
            return False
        systemd.restart(unit)
        return True


def arm(timer: str) -> None:
    """Queue a start of the timer, from its beginning if it runs already. Raises SystemdError."""
    with SystemdActs() as systemd:
        systemd.restart(timer)
