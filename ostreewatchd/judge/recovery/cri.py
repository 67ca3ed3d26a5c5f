# SPDX-License-Identifier: Apache-2.0
"""The runtime answers, is ready, and serves the handlers that are wanted.

A socket that accepts proves nothing: CRI-O's does before it has restored, or removed, its pods. What CRI-O displays
proves no handler: after a SIGHUP it shows what it has read and serves what it had (cri-o#10202), so a handler counts
only if the process was started after its configuration was changed.

Sources: Kubernetes CRI API (Status); cri-o server.New (order of its start)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.recovery.row import Moment, absent, bad, good, old, unseen
from ostreewatchd.model import Row

READY = "runtime-ready"
HANDLERS = "handlers"


def ready(moment: Moment) -> Iterator[Row]:
    """RuntimeReady and NetworkReady."""
    cri = moment.sample.cri
    if cri.problem:
        yield bad(READY, cri.problem)
    elif cri.ready is None or cri.network_ready is None:
        missing = "RuntimeReady" if cri.ready is None else "NetworkReady"
        yield absent(READY, f"{cri.name} {cri.version} does not say {missing}")
    elif not (cri.ready and cri.network_ready):
        yield bad(READY, cri.why or "RuntimeReady or NetworkReady is false")
    elif cri.asked <= moment.restart:
        yield old(READY, "it was asked before the restart")
    else:
        yield good(READY, f"{cri.name} {cri.version} answers; runtime and network are ready")


def handlers(moment: Moment) -> Iterator[Row]:
    """Those that are wanted; no row where none are."""
    cri, sample = moment.sample.cri, moment.sample
    wanted = moment.recovery.handlers
    missing = [one for one in wanted if one not in cri.handlers]
    if not wanted:
        return
    if cri.problem:
        yield absent(HANDLERS, cri.problem)
    elif not cri.handlers:
        yield unseen(HANDLERS, f"{cri.name} {cri.version} does not say which it has")
    elif missing:
        yield bad(HANDLERS, f"{cri.name} has no {', '.join(missing)}")
    elif sample.config_wall is None:
        yield absent(HANDLERS, "shown, and whether the process was started after its configuration is not known")
    elif cri.asked <= moment.restart or sample.moment(sample.config_wall) > sample.runtime.began:
        yield old(HANDLERS, "shown, and the process was started before its configuration was changed: not served")
    else:
        yield good(HANDLERS, f"{', '.join(wanted)}: shown, by a process that was started with them")
