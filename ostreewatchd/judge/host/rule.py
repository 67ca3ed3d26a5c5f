# SPDX-License-Identifier: Apache-2.0
"""A rule about the host: nothing is due unasked, for what it finds no restart of a container cures."""

from __future__ import annotations

from collections.abc import Sequence

from ostreewatchd.judge.rule import Cure, Rule
from ostreewatchd.model import Finding, Snapshot, Subject, Verdict

IN_PROGRESS_FOR = 600.0
"""Seconds for which a flag file says "under way" and after which "was interrupted": as long as settle waits unless
it is told otherwise."""
_HOST = Subject(kind="host")


class HostRule(Rule):
    """A rule whose findings are about the host."""

    def __init__(self, name: str) -> None:
        super().__init__(name, cure=Cure.BY_HAND)

    def wrong(self, path: str, *, because: str, remedy: str, evidence: Sequence[str] = ()) -> Finding:
        """The state contradicts itself, or is about to do harm."""
        return self._on_host(path, "wrong", because, remedy, evidence)

    def noted(self, path: str, *, because: str, remedy: str) -> Finding:
        """Worth knowing: something is behind its time, and nothing has come of it yet."""
        return self._on_host(path, "stale", f"noted only: {because}", remedy, ())

    def not_known(self, path: str, *, because: str, remedy: str, evidence: Sequence[str] = ()) -> Finding:
        """It cannot be told what the state means."""
        return self._on_host(path, "unknown", because, remedy, evidence)

    def _on_host(self, path: str, verdict: Verdict, because: str, remedy: str, evidence: Sequence[str]) -> Finding:
        return Finding(
            rule=self.name,
            verdict=verdict,
            owed=False,
            subject=_HOST,
            path=path,
            reason=because,
            remedy=remedy,
            evidence=tuple(f"host: {line}" for line in evidence),
        )


def is_under_way(snapshot: Snapshot) -> bool:
    """Whether a flag says so that is not older than a switch takes."""
    return any(flag.age < IN_PROGRESS_FOR for flag in snapshot.flags)
