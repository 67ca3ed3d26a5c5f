# SPDX-License-Identifier: Apache-2.0
"""A clock that was set while a look was under way is told of, though the kernel takes that back when it arms anew."""

from __future__ import annotations

import asyncio
import ctypes
import errno

import pytest

from ostreewatchd.watch import dates


class _ClockWasSet:
    """What timerfd_settime(2) answers then; fs/timerfd.c forgets the expiry that read(2) would have told."""

    def timerfd_settime(self, *_: object) -> int:
        ctypes.set_errno(errno.ECANCELED)
        return -1


def test_a_clock_set_during_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str]:
        hints: list[str] = []
        watch = dates.DateWatch(asyncio.get_running_loop(), lambda: hints.append("hint"))
        with monkeypatch.context() as patch:
            patch.setattr(dates, "_libc", _ClockWasSet())
            watch.arm(None)
        assert hints == []
        await asyncio.sleep(0)
        watch.close()
        return hints

    assert asyncio.run(run()) == ["hint"]
