# SPDX-License-Identifier: Apache-2.0
"""Judges how the node comes back from a restart of its runtime that a remediation has made, and once more minutes
afterwards: what is well after five seconds need not be after three minutes (PLEG, kubernetes#77728).

What was before, and each verdict, is in the ledger: a run that is interrupted is taken up by the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Protocol

from msgspec.structs import replace

from ostreewatchd.judge.recovery import WINDOW, judge
from ostreewatchd.judge.recovery.since import RESTART
from ostreewatchd.ledger import Ledger
from ostreewatchd.model import STOPPED_NOTHING, PastAct, PastRecovery, Recovered, Recovery, Sample
from ostreewatchd.report.journal import Journal, Kind

LIMIT = 300.0
"""Seconds that a node may take; kata-deploy allows its runtime as much."""
LATE = 190.0
"""Seconds after the restart from which on the late look is due: PLEG is unhealthy after 180 s."""
TOO_LATE = 3600.0
"""Seconds after which what is found is no longer the restart's."""
_PAUSE = 2.0
_KEPT = 10


class Seeing(Protocol):
    """What this needs of the world."""

    def sample(self) -> Sample:
        """Raises HostGone."""
        ...

    def monotonic(self) -> float: ...

    def boottime(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def come_back(self) -> None:
        """See to it that another remediation is started when the late look is due. Raises PeerError."""
        ...


class Recoverer:
    """For one run."""

    def __init__(self, world: Seeing, ledger: Ledger, journal: Journal) -> None:
        self._world = world
        self._ledger = ledger
        self._journal = journal

    def judge_restarts(self, boot_id: str) -> bool:
        """Judge each restart of the runtime in this boot that has not been, at first or late; whether all of them have
        recovered. Raises LedgerError and HostGone."""
        well = True
        for act, known in self._restarts(boot_id):
            age = self._world.boottime() - act.intent_boottime
            if not known.verdict:
                found = self._at_first(act)
                self._tell(act, found, late=False)
                well = well and found.verdict == "recovered"
            elif not known.late_verdict and LATE <= age < TOO_LATE:
                found = self._late(act)
                self._tell(act, found, late=True)
                well = well and found.verdict == "recovered"
        return well

    def is_due(self, boot_id: str) -> bool:
        """Whether a late look is still to come: somebody must start the next remediation for it. One that was missed
        (the host was suspended, the ledger could not be written) never comes, and nobody is started for it again."""
        now = self._world.boottime()
        return any(
            known.verdict and not known.late_verdict and now - act.intent_boottime < TOO_LATE
            for act, known in self._restarts(boot_id)
        )

    def _restarts(self, boot_id: str) -> Iterator[tuple[PastAct, PastRecovery]]:
        """The newest of each unit: an older one is over with it."""
        history = self._ledger.history()
        known = {one.act: one for one in history.recoveries}
        newest = {
            act.subject.unit: act
            for act in history.acts
            if act.step == RESTART and act.boot_id == boot_id and act.outcome and act.outcome not in STOPPED_NOTHING
        }
        for act in newest.values():
            yield act, known.get(act.id, PastRecovery(act=act.id))

    def _at_first(self, act: PastAct) -> Recovered:
        ends = self._world.monotonic() + LIMIT
        series: Optional[Recovery] = None
        while True:
            series = self._and_a_sample(act, series)
            found = judge(series)
            if found.verdict == "recovered" or self._world.monotonic() + _PAUSE > ends:
                return found
            self._world.sleep(_PAUSE)

    def _late(self, act: PastAct) -> Recovered:
        """One look is enough where all is good; a moment's trouble is no alarm."""
        ends = self._world.monotonic() + WINDOW
        while True:
            found = judge(self._and_a_sample(act, None), window=0, samples=1)
            if found.verdict == "recovered" or self._world.monotonic() + _PAUSE > ends:
                return found
            self._world.sleep(_PAUSE)

    def _and_a_sample(self, act: PastAct, series: Optional[Recovery]) -> Recovery:
        sample = self._world.sample()
        if series is None:
            apart = self._world.boottime() - self._world.monotonic()
            # Where kubelet alone was restarted, its own start is what its rows are newer than.
            mine = act.subject.unit == sample.runtime.unit
            series = Recovery(
                boot_id=act.boot_id, since=act.intent_boottime - apart if mine else sample.runtime.began,
                since_from="ledger", before=self._ledger.before(act.id) if mine else None,
            )  # fmt: skip
        return replace(series, samples=(*series.samples, sample)[-_KEPT:])

    def _tell(self, act: PastAct, found: Recovered, *, late: bool) -> None:
        why = found.cause or "; ".join(found.notes)
        self._ledger.recovered(act.id, found.verdict, f"{found.alarm}: {why}" if found.alarm else why, late=late)
        when = " minutes afterwards" if late else ""
        if found.verdict == "recovered":
            unseen = ", ".join(row.name for row in found.rows if row.verdict == "unseen")
            text = f"the node has recovered from the restart of {act.subject}{' and is well' if late else ''}{when}"
            self._journal.report(Kind.CURED, text + (f" (not seen: {unseen})" if unseen else ""), act=act.id)
        else:
            text = f"the node has NOT recovered from the restart of {act.subject}{when}: {found.alarm or found.cause}"
            self._journal.report(Kind.ALARM, text, act=act.id, cause=found.cause)
