# SPDX-License-Identifier: Apache-2.0
"""Makes a failing history small: fewer events, plainer ones, as long as the same invariant breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.sim.events import Event, History
from tests.sim.replay import Tune, replay
from tests.sim.truth import Broken

_MOST = 600
"""Replays that one shrinking may cost."""


def broken(history: History, place: Path, tune: Sequence[Tune] = ()) -> Broken | None:
    """What breaks in this history; None: it holds."""
    try:
        replay(history, place, tune)
    except Broken as error:
        return error
    return None


def shrink(history: History, place: Path, tune: Sequence[Tune] = ()) -> History:
    """The smallest history found that breaks the same invariant. Raises ValueError if this one breaks none."""
    first = broken(history, place, tune)
    if first is None:
        raise ValueError("nothing breaks in this history")
    left = _MOST
    again = True
    while again and left > 0:
        again = False
        for smaller in _smaller(history):
            left -= 1
            error = broken(smaller, place, tune)
            if error is not None and error.number == first.number:
                history, again = smaller, True
                break
            if left <= 0:
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    replace, events = msgspec.structs.replace, history.events
    half = len(events) // 2
    if half > 1:
        yield replace(history, events=events[:half])
        yield replace(history, events=events[half:])
    for index in range(len(events) - 1, -1, -1):
        yield replace(history, events=events[:index] + events[index + 1 :])
    if history.apps:
        yield replace(history, apps=())
    if not history.knew_before:
        yield replace(history, knew_before=True)
    if not history.serials:
        yield replace(history, serials=True)
    if history.proof != 20.0:
        yield replace(history, proof=20.0)
    for index, event in enumerate(events):
        for plainer in _plainer(event):
            yield replace(history, events=(*events[:index], plainer, *events[index + 1 :]))


def _plainer(event: Event) -> Iterator[Event]:
    replace = msgspec.structs.replace
    if event.on:
        yield replace(event, on="", nth=1)
        if event.nth > 1:
            yield replace(event, nth=1)
    for digits in (0, 1):
        if round(event.at, digits) != event.at:
            yield replace(event, at=round(event.at, digits))
    if event.do == "install" and event.how != "none":
        yield replace(event, how="none")
    if event.do == "install" and event.value != 0.1:
        yield replace(event, value=0.1)
    if event.who and event.do in ("ask", "second-copy", "kill", "power-cut"):
        yield replace(event, who="")
