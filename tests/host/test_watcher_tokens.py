# SPDX-License-Identifier: Apache-2.0
"""The whole watcher: what is written into a CNI directory, and a date that comes, is told within moments, and no token
with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, cast

from ostreewatchd import watcher
from ostreewatchd.listening import Listening
from ostreewatchd.model import Settings
from ostreewatchd.report.journal import Journal, Kind
from ostreewatchd.report.notify import Notifier
from ostreewatchd.watch.dates import DateWatch
from tests.fakes.credentials import HOUR, SIGNATURE, token
from tests.host.fakehost import CNI, Bind, FakeHost
from tests.host.namespace import in_namespaces, needs_root
from tests.host.test_credentials import HOST_CNI, NEW_CNI, leave

pytestmark = needs_root


class Entries:
    """What the journal gets."""

    def __init__(self) -> None:
        self.all: list[tuple[Kind, str, dict[str, Any]]] = []

    def report(self, kind: Kind, message: str, **fields: Any) -> None:
        self.all.append((kind, message, fields))

    async def soon(self, text: str, within: float = 60.0) -> None:
        until = time.monotonic() + within
        while not any(text in message for _, message, _ in self.all):
            assert time.monotonic() < until, (text, self.all)
            await asyncio.sleep(0.02)


@in_namespaces
def test_a_token_is_told_when_it_is_written_and_when_it_ends(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    os.mkdir("/run/ostreewatchd")
    leave(CNI, "calico", token(time.time()))
    leave(NEW_CNI, "calico", token(time.time() - 25 * HOUR))
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    entries = Entries()
    watcher._CREDENTIALS_PACE = 0.0  # type: ignore[attr-defined]

    armed: list[Optional[float]] = []
    arm = DateWatch.arm
    DateWatch.arm = lambda self, date: (armed.append(date), arm(self, date))[1]  # type: ignore[method-assign, func-returns-value]
    ends: list[float] = []

    def about_to_end() -> None:
        """In seven seconds: a minute of leeway, and a second until it is over."""
        ends.append(float(int(time.time())) + 7)
        leave(CNI, "", token(ends[0] - HOUR - 61, HOUR))

    async def main() -> None:
        served = asyncio.ensure_future(watcher._serve(cast(Journal, entries), Notifier({})))
        await entries.soon("watches (mode heal)")
        await asyncio.sleep(0.5)
        assert not any(kind in (Kind.WRONG, Kind.NOT_WATCHED) and "CNI" in text for kind, text, _ in entries.all)
        steps: list[tuple[str, Callable[[], object]]] = [
            ("multus.d/multus.kubeconfig: it has expired", lambda: leave(CNI, "multus", token(1.0, pod="x"))),
            ("another.kubeconfig: it has expired", about_to_end),
            ("calico-kubeconfig: it has expired", host.patch),
            ("whereabouts.kubeconfig: when it ends is not known", lambda: leave(CNI, "whereabouts", "eyJhb")),
        ]
        for text, change in steps:
            change()
            await entries.soon(text)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await served == 0

    asyncio.run(main())
    assert ends[0] in armed
    said = repr(entries.all)
    assert SIGNATURE[:12] not in said and "eyJ" not in said


def test_what_cannot_be_watched_is_said_and_the_rest_goes_on() -> None:
    """However few descriptors are left: without the host's mounts it does not start, without another watch it does."""
    entries: list[Entries] = []

    async def listen(left: int) -> bool:
        said = Entries()
        journal = cast(Journal, said)
        loop = asyncio.get_running_loop()
        one = watcher.Watcher(loop, journal, Notifier({}), Settings())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        holds: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    holds.append(os.open("/", os.O_PATH))
            for _ in range(left):
                os.close(holds.pop())
            listening = Listening(loop, journal, one, 300.0)
        except OSError:
            return False
        finally:
            for fd in holds:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            one.close()
        entries.append(said)
        await listening.close()
        return True

    before = len(os.listdir("/proc/self/fd"))
    started = [asyncio.run(listen(left)) for left in range(9)]
    assert started == [False] * 2 + [True] * 7, "two are the mounts' own"
    told = [sum("Too many open files" in message for _, message, _ in said.all) for said in entries]
    assert told[0] >= 3 and told[-1] == 0 and sorted(told, reverse=True) == told
    assert all(kind is Kind.NOT_WATCHED for said in entries for kind, _, _ in said.all)
    assert len(os.listdir("/proc/self/fd")) == before
