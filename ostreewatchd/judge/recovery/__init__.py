# SPDX-License-Identifier: Apache-2.0
"""Whether a node has recovered from a restart of its container runtime: rows, each of evidence that is newer than the
restart, and all of them good together for a while.

Never by the node turning NotReady and Ready again: in a restart it does not. One module a row or a small group; pure.

Source of the window: kata-deploy (Ready at 6 samples, each 2 s after the one before, because the first Ready is a
stale one)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ostreewatchd.judge.recovery import cluster, cri, kept, kubelet, pods, units
from ostreewatchd.judge.recovery.row import Judge, Moment, named
from ostreewatchd.model import Recovered, Recovery, Row

WINDOW = 10.0
"""Seconds for which all rows must be good."""
SAMPLES = 6
"""How many samples that are at the least."""
_LONGEST_GAP = 6.0
"""Seconds between two samples; more than that, and what was in between is not known."""
_JUDGES: tuple[Judge, ...] = (
    kept.boot, units.runtime, cri.ready, cri.handlers, units.kubelet, kubelet.health, kubelet.syncs, cluster.node,
    cluster.lease, kept.known, kept.managed, kept.run, kept.monitors, pods.ready, pods.well, pods.critical,
)  # fmt: skip
_HINDERS_NOT = ("good", "unseen")


def rows(moment: Moment) -> tuple[Row, ...]:
    """Of one sample."""
    return tuple(row for judge in _JUDGES for row in judge(moment))


def judge(recovery: Recovery, *, window: float = WINDOW, samples: int = SAMPLES) -> Recovered:
    """What the series tells. `window`, `samples`: less for a look at what should have recovered long ago."""
    moments = _moments(recovery)
    if not moments:
        return Recovered(verdict="cannot-know", rows=(), steady=0.0, cause="nothing was seen")
    newest = moments[-1]
    found = rows(newest)
    count = _steady(moments)
    steady = newest.sample.at - moments[-count].sample.at if count else 0.0
    wrong = [row for row in found if row.verdict not in _HINDERS_NOT]
    base = Recovered(verdict="not-yet", rows=found, steady=steady, alarm=kept.alarm(newest), notes=_notes(newest))
    if wrong:
        only_absent = all(row.verdict == "absent" for row in wrong)
        return replace(base, verdict="cannot-know" if only_absent else "not-yet", cause=_cause(wrong))
    if steady < window or count < samples:
        return replace(base, cause=f"all good, for {steady:.0f} of {window:.0f} s")
    return replace(base, verdict="recovered")


def _moments(recovery: Recovery) -> list[Moment]:
    found: list[Moment] = []
    for sample in recovery.samples:
        last = found[-1].sample if found else None
        if last is not None and (last.boot_id != sample.boot_id or not 0 <= sample.at - last.at <= _LONGEST_GAP):
            last = None
        found.append(Moment(recovery, sample, last))
    return found


def _steady(moments: Sequence[Moment]) -> int:
    """How many of the newest samples are good, without a break."""
    count = 0
    for moment in reversed(moments):
        if any(row.verdict not in _HINDERS_NOT for row in rows(moment)):
            break
        count += 1
        if moment.last is None:
            break
    return count


def _cause(wrong: Sequence[Row]) -> str:
    first = next((row for row in wrong if row.verdict != "absent"), wrong[0])
    more = f" (and {len(wrong) - 1} rows more)" if len(wrong) > 1 else ""
    return f"{first.name}: {first.because}{more}"


def _notes(moment: Moment) -> tuple[str, ...]:
    found = []
    anew = kept.made_anew(moment)
    if anew:
        found.append(f"the restart made {len(anew)} pods anew: {named({str(one) for one in anew})}")
    waiting = pods.not_waited_for(moment)
    if waiting:
        found.append(f"not Ready since before the restart, and not waited for: {named(waiting)}")
    return tuple(found)
