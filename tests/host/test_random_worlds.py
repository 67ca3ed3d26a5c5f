# SPDX-License-Identifier: Apache-2.0
"""Random mount worlds: whatever is done to a host and its containers, the judge says of each bind what the kernel says
when it is asked from inside the container. More of them by `make soak`."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host.mountworld import PLACES, SLOTS, SOURCES
from tests.host.namespace import needs_root
from tests.host.worldprocesses import INSIDE
from tests.host.worldserver import Script, worlds

pytestmark = needs_root

EXAMPLES = int(os.environ.get("OSTREEWATCHD_WORLDS", "0")) or 200
IS_SOAK = "OSTREEWATCHD_WORLDS" in os.environ
"""Others each time. Without, always the same: who changes something else is not to find what was there before."""

# The first ones are the ones that matter most.
place = st.one_of(st.integers(0, 1), st.integers(0, len(PLACES) - 1))
source = st.one_of(st.integers(0, 4), st.integers(0, len(SOURCES) - 1))
slot = st.integers(0, SLOTS - 1)
one_bind = st.tuples(source, st.integers(0, 3), st.integers(0, 3))
start = st.tuples(
    st.just("start"), slot, st.lists(one_bind, min_size=1, max_size=4), st.sampled_from((0, 0, 0, 0, 1, 2))
)
switch = st.tuples(st.just("switch"), st.integers(0, 2), st.integers(1, 3))
step = st.one_of(
    start,
    switch,
    switch,
    st.tuples(st.just("umount"), place),
    st.tuples(st.just("bind"), st.integers(0, len(PLACES) + 2), place, st.booleans()),
    st.tuples(st.just("tmpfs"), place, st.booleans()),
    st.tuples(st.just("overlay"), place),
    st.tuples(st.just("umount"), place),
    st.tuples(st.just("propagation"), st.integers(0, len(PLACES)), st.sampled_from(("private", "slave", "shared")),
              st.booleans()),
    st.tuples(st.just("rename"), place, st.booleans()),
    st.tuples(st.just("delete"), place, st.booleans()),
    st.tuples(st.just("write"), place),
    st.tuples(st.just("stop"), slot),
    st.tuples(st.just("inside"), slot, st.integers(0, 3), st.sampled_from(INSIDE)),
)  # fmt: skip
steps = st.tuples(st.lists(step, max_size=4), start, st.lists(step, min_size=3, max_size=12)).map(
    lambda parts: [*parts[0], parts[1], *parts[2]]
)
layout = st.integers(0, 7)


def unhurried(examples: int) -> settings:
    """Many, each of which may take its time."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=not IS_SOAK,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


def test_the_judge_says_what_the_kernel_says() -> None:
    counts: Counter[str] = Counter()
    with worlds() as made:

        @unhurried(EXAMPLES)
        @given(layout, steps)
        def in_each_world(layout: int, steps: list[tuple[Any, ...]]) -> None:
            answer = made.run(Script(layout, steps))
            counts.update(answer.counts)
            assert not answer.wrong, "\n".join(answer.wrong)

        in_each_world()
    print(dict(counts))
    assert counts["stale"] > EXAMPLES // 8 and counts["fresh"] > EXAMPLES // 2, counts
    assert all(counts[f"{name} done"] for name in ("switch", "bind", "umount", "rename", "delete", "inside")), counts
