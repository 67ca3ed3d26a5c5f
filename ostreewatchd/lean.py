# SPDX-License-Identifier: Apache-2.0
"""asyncio without TLS: `from ostreewatchd.lean import asyncio` in all that the watcher loads.

asyncio imports ssl if it can and works without it; the watcher has no network, and libcrypto is a sixth of its
memory. Whoever imports ssl later gets it."""

from __future__ import annotations

import sys


def _import() -> None:
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # What makes `import ssl` an ImportError.
    try:
        import asyncio  # noqa: F401
    finally:
        del sys.modules["ssl"]


_import()

import asyncio as asyncio  # noqa: E402
