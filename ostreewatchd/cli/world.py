# SPDX-License-Identifier: Apache-2.0
"""A look for a verb: settings, ledger, snapshot, findings."""

from __future__ import annotations

import sys

from ostreewatchd import ledger, settings
from ostreewatchd.judge import judge
from ostreewatchd.model import Finding, Settings, Snapshot
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.look import look


def see(*, deep: bool = False) -> tuple[Settings, Snapshot, tuple[Finding, ...]]:
    """What is now. `deep` asks runtime, kubelet and systemd too. Raises HostGone."""
    config, complaints = settings.load()
    for complaint in complaints:
        print(f"ostreewatchctl: {complaint}", file=sys.stderr)
    asker = None
    if deep:
        from ostreewatchd.observe.deep import DeepLook

        asker = DeepLook()
    snapshot = look(config, ContainerLooker(remember=False), ledger.read(), deep=asker)
    return config, snapshot, judge(snapshot)


def exit_status(snapshot: Snapshot, findings: tuple[Finding, ...]) -> int:
    """0 nothing owed, 1 owed or a cure without its proof yet, 3 where nothing owed was seen and something owed may be
    behind what was not read."""
    if any(finding.owed for finding in findings) or any(not act.outcome for act in snapshot.history.acts):
        return 1
    return 3 if any(problem.hides for problem in snapshot.problems) else 0


def unit_states() -> dict[str, str]:
    """The state of what must run for anything to be healed; a reason where systemd does not tell."""
    from ostreewatchd.peers.systemd import Systemd, SystemdError

    units = ("ostreewatchd.service", "ostreewatchd-remediate.path")
    try:
        with Systemd() as systemd:
            return {unit: systemd.unit_state(unit) for unit in units}
    except SystemdError as error:
        return dict.fromkeys(units, f"not known: {error.what}")
