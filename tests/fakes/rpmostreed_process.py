# SPDX-License-Identifier: Apache-2.0
"""The stand-in for rpm-ostreed as a process of its own on a system's bus: told by lines on standard input what to do,
it answers each with a line. Its end says which calls came, and fails if somebody touched the transaction's socket."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ostreewatchd.peers.bus import SYSTEM_BUS
from tests.fakes.rpmostreed import FakeRpmOstreed


class _Bus:
    """As much of a MessageBus as the fake asks for."""

    socket = Path(SYSTEM_BUS)


async def _main(stateroot: str) -> None:
    loop, daemon = asyncio.get_running_loop(), FakeRpmOstreed(_Bus(), Path(tempfile.mkdtemp()))  # type: ignore[arg-type]
    path = f"/org/projectatomic/rpmostree1/{stateroot}"
    try:
        while True:
            # In a thread: signals and calls go on meanwhile.
            words = (await loop.run_in_executor(None, sys.stdin.readline)).split()
            answer: Any = "done"
            if words[:1] == ["start"]:
                await daemon.start()
            elif words[:1] == ["transaction"]:
                daemon.transaction(words[1], path)
            elif words[:1] == ["finish"]:
                daemon.finish()
            elif words[:1] == ["exit"]:
                await daemon.idle_exit()
            elif words[:1] == ["calls"]:
                answer = daemon.calls
            else:
                return
            print(json.dumps(answer), flush=True)
    finally:
        await daemon.stop()
        daemon.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
