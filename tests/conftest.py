# SPDX-License-Identifier: Apache-2.0
"""The same examples in each run: what is red here is red for everybody. Other ones each time: `make soak`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None)
settings.register_profile("soak", derandomize=False, print_blob=True)
settings.load_profile("same")
