# SPDX-License-Identifier: Apache-2.0
"""What a row of recovery is judged by, and how its verdicts are made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, Optional

from ostreewatchd.model import Recovery, Row, Sample

_NAMED = 5


class Moment(NamedTuple):
    """One sample, with what went before it."""

    recovery: Recovery
    sample: Sample
    last: Optional[Sample] = None
    """The sample before it, of the same boot."""

    @property
    def restart(self) -> float:
        """From when on evidence about the runtime counts: the restart that was asked for, or a later one."""
        return max(self.recovery.since, self.sample.runtime.began)

    @property
    def of_kubelet(self) -> float:
        """From when on evidence of kubelet's counts."""
        return max(self.restart, self.sample.kubelet.began)

    @property
    def before(self) -> Optional[Sample]:
        return self.recovery.before


Judge = Callable[[Moment], Iterator[Row]]


def good(name: str, because: str) -> Row:
    return Row(name=name, verdict="good", because=because)


def bad(name: str, because: str) -> Row:
    return Row(name=name, verdict="bad", because=because)


def absent(name: str, because: str) -> Row:
    return Row(name=name, verdict="absent", because=because)


def old(name: str, because: str) -> Row:
    return Row(name=name, verdict="old", because=because)


def unseen(name: str, because: str) -> Row:
    return Row(name=name, verdict="unseen", because=because)


def named(things: Collection[object]) -> str:
    """Some of them by name, all by number."""
    texts = sorted(map(str, things))
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
