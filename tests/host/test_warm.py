# SPDX-License-Identifier: Apache-2.0
"""A look that remembers tells what a look without memory tells, after whatever was done: random mount worlds, looked
at after each step by both."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.host.namespace import needs_root
from tests.host.test_random_worlds import EXAMPLES, IS_SOAK, layout, one_bind, slot, step, unhurried
from tests.host.worldprocesses import INSIDE
from tests.host.worldserver import Script, worlds

pytestmark = needs_root

# A start with the pid of the one that was stopped last, a pidfd of which is held by who remembers it.
again = st.tuples(
    st.just("start"), slot, st.lists(one_bind, min_size=1, max_size=3), st.sampled_from((0, 0, 1)), st.just(True)
)
stop = st.tuples(st.just("stop"), slot)
one = step.map(lambda step: [step])
replaced = st.tuples(stop, again).map(list)
inside = st.tuples(st.just("inside"), slot, st.integers(0, 2), st.sampled_from(INSIDE)).map(lambda step: [step])
parts = st.lists(st.one_of(one, one, one, replaced, inside), min_size=5, max_size=10)
steps = st.tuples(again, parts).map(lambda given: [given[0], *(step for part in given[1] for step in part)])


def test_what_is_remembered_is_what_is_there() -> None:
    """Containers, binds, references, problems and findings, each time."""
    counts: Counter[str] = Counter()
    with worlds() as made:

        @unhurried(EXAMPLES // 5 if IS_SOAK else 40)
        @given(layout, steps)
        def in_each_world(layout: int, steps: list[tuple[Any, ...]]) -> None:
            answer = made.run(Script(layout, steps, "warm"))
            counts.update(answer.counts)
            assert not answer.wrong, "\n".join(answer.wrong)

        in_each_world()
    print(dict(counts))
    assert all(counts[f"{name} done"] for name in ("start", "stop", "switch", "inside")), counts
    assert counts["pid used again"] > 1, counts


def test_a_pid_is_used_again_between_two_looks() -> None:
    """The world's own premise: the second container has the number of the first."""
    script = Script(0, [("start", 0, [(0, 0, 0)], 0), ("stop", 0), ("start", 1, [(1, 0, 0)], 0, True)], "warm")
    with worlds() as made:
        answer = made.run(script)
    assert not answer.wrong and answer.counts["pid used again"] == 1, answer


def test_the_last_mount_of_what_is_held_goes_from_the_host() -> None:
    """An overlay, which no deployment's path tells of."""
    given = [(1, 2, 1), (3, 2, 3)]
    script = Script(4, [("overlay", 1), ("start", 3, given, 2), ("umount", 1)], "warm")
    with worlds() as made:
        answer = made.run(script)
    assert not answer.wrong and answer.counts["umount done"] == 1, answer


def test_a_name_that_came_behind_an_overlay() -> None:
    """Its directory's times do not tell of that."""
    script = Script(6, [("bind", 0, 1, True), ("overlay", 1), ("start", 1, [(0, 3, 1)], 0), ("write", 0)], "warm")
    with worlds() as made:
        answer = made.run(script)
    assert not answer.wrong and answer.counts["write done"] == 1, answer
