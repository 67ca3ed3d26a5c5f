# SPDX-License-Identifier: Apache-2.0
"""What a rule is: a name, what it proves, where that is published, its cure, and a pure function."""

from __future__ import annotations

import enum
import inspect
import shlex
from collections.abc import Iterator
from typing import Callable, Optional

from ostreewatchd.model import Bind, Container, Finding, Reference, Seen, Sight, Snapshot, Subject, Verdict


class Cure(enum.Enum):
    """The smallest thing that cures. The value is how a person reads it."""

    RESTART_CONTAINER = "stop the container; kubelet starts it again in place"
    RESTART_UNIT = "restart the unit, which is only recommended"
    NEW_POD = "delete the pod, so that its controller makes it anew"
    BY_HAND = "none unasked: it is said with what a person can do"


Judge = Callable[[Snapshot], Iterator[Finding]]


class Rule:
    """A rule. Used as a decorator on its function; proof and source are its module's docstring."""

    def __init__(self, name: str, *, cure: Cure) -> None:
        self.name = name
        self.cure = cure
        self._judge: Optional[Judge] = None
        self.proves = ""
        self.source = ""

    def __call__(self, function: Judge) -> Judge:
        self._judge = function
        text = inspect.getdoc(inspect.getmodule(function)) or ""
        proves, _, source = text.partition("Source:")
        self.proves, self.source = " ".join(proves.split()), " ".join(source.split())
        return function

    def judge(self, snapshot: Snapshot) -> Iterator[Finding]:
        if self._judge is None:
            raise TypeError(f"rule {self.name} has no function")
        return self._judge(snapshot)

    def stale(
        self, container: Container, bind: Bind, *, expected: Reference, owed: bool, because: str, remedy: str = ""
    ) -> Finding:
        """The bind is not what the container would get now. `remedy`: where the rule's cure is not the one."""
        remedy = remedy or (self.cure.value if owed else by_hand(container))
        return self._finding(container, bind, "stale", owed, because, remedy, expected.sight)

    def will_be_stale(
        self, container: Container, bind: Bind, *, expected: Reference, because: str, remedy: str
    ) -> Finding:
        """The bind is as it should be, and will not be after the next start."""
        return self._finding(container, bind, "wrong", False, because, remedy, expected.sight)

    def unknown(
        self,
        container: Container,
        bind: Bind,
        *,
        because: str,
        expected: Optional[Reference] = None,
        remedy: str = "none: look at the reason",
    ) -> Finding:
        """It cannot be told; so nothing is restarted for it."""
        return self._finding(
            container,
            bind,
            "unknown",
            False,
            because,
            remedy,
            expected.sight if expected else None,
        )

    def _finding(
        self,
        container: Container,
        bind: Bind,
        verdict: Verdict,
        owed: bool,
        because: str,
        remedy: str,
        expected: Optional[Sight],
    ) -> Finding:
        evidence = [f"container: {bind.sight.mount}"] if bind.sight.mount else []
        if expected is not None and expected.mount:
            evidence.append(f"host: {expected.mount}")
        return Finding(
            rule=self.name,
            verdict=verdict,
            owed=owed,
            subject=subject_of(container),
            path=bind.host_path,
            inside=bind.path,
            expected=seen(expected),
            actual=seen(bind.sight),
            reason=because,
            remedy=remedy,
            evidence=tuple(evidence),
        )


def by_hand(container: Container) -> str:
    """What a person would type to have it restarted: the product does it for nobody who asks."""
    return (
        f"on request, by root on the node: `crictl stop {shlex.quote(container.id[:12])}`; kubelet starts it again"
        " in place where its restart policy says so; ostreewatchd does not do it"
    )


def subject_of(container: Container) -> Subject:
    return Subject(
        namespace=container.pod.namespace,
        pod=container.pod.name,
        pod_uid=container.pod.uid,
        container=container.name,
        container_id=container.id,
    )


def seen(sight: Optional[Sight]) -> Optional[Seen]:
    if sight is None or sight.identity is None:
        return None
    return Seen(dev=sight.identity.dev, ino=sight.identity.ino, deployment=sight.deployment)
