# SPDX-License-Identifier: Apache-2.0
"""Tell whether the node has recovered from the restart of its container runtime.

Its exit status is 0 recovered, 1 not yet, 3 cannot know. Each row is a signal of its own, newer than the restart; all
must be good together for ten seconds. What needs a credential that is not there is named and hinders nothing."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Optional

import msgspec

from ostreewatchd import __version__, ledger, settings
from ostreewatchd.cli.world import CouldNotKnow, given_file, json_argument, only_root, read_file
from ostreewatchd.judge.recovery import judge
from ostreewatchd.judge.recovery.since import last_restart
from ostreewatchd.model import Exit, Recovered, Recovery, RecoveryVerdict, Row, Sample
from ostreewatchd.parse.times import duration
from ostreewatchd.replay import recovery as files
from ostreewatchd.replay.form import SnapshotError
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.printable import printable

_PAUSE = 2.0
"""Seconds between two samples."""
_KEPT = 60
_LONGEST = 3600.0
_EXITS: dict[RecoveryVerdict, Exit] = {
    "recovered": Exit.NOTHING_OWED,
    "not-yet": Exit.OWED,
    "cannot-know": Exit.COULD_NOT_KNOW,
}
_SAYS: dict[RecoveryVerdict, str] = {
    "recovered": "recovered",
    "not-yet": "not recovered",
    "cannot-know": "cannot know",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", type=_moment, metavar="TIME",
        help="count what is newer than that: 2026-12-01T03:00:00Z, @SECONDS since 1970, or 5min for that long ago;"
        " without it the last restart that the ledger has, or the runtime's own start",
    )  # fmt: skip
    parser.add_argument("--wait", action="store_true", help="go on until it has recovered")
    parser.add_argument("--timeout", type=_timeout, default=300.0, metavar="TIME", help="for how long (5min)")
    parser.add_argument(
        "--handler", action="append", default=[], metavar="NAME", help="a runtime handler that must be served"
    )
    parser.add_argument(
        "--before", type=given_file, metavar="FILE",
        help="what `gate --json` printed before the restart: each pod that was well then must be again",
    )  # fmt: skip
    json_argument(parser, "one JSON object, with all evidence")
    parser.add_argument(
        "--from", dest="source", type=given_file, metavar="FILE",
        help="judge what `gate --json` printed elsewhere, and not this host (-: standard input)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    if options.source:
        seen = _read(options.source)
        return _tell(options, seen, judge(seen), None)
    only_root("gate")
    before = _read(options.before).samples[-1:] if options.before else ()
    last: Optional[Recovery] = None
    table = _Table(live=sys.stdout.isatty() and not options.json)
    for last in _watch(options, before[0] if before else None):
        table.show(last, judge(last))
    if last is None:
        raise CouldNotKnow("nothing was seen")
    return _tell(options, last, judge(last), table)


def _watch(options: argparse.Namespace, before: Optional[Sample]) -> Iterator[Recovery]:
    """The series after each sample, until it is decided. Without `--wait` that is as soon as a row is not good. Raises
    CouldNotKnow."""
    from ostreewatchd.observe.host import HostGone, node_name
    from ostreewatchd.observe.recovery import Sampler

    config, complaints = settings.load()
    for complaint in complaints:
        print(f"ostreewatchctl: {complaint}", file=sys.stderr)
    sampler = Sampler(config)
    ends = time.monotonic() + options.timeout
    seen: Optional[Recovery] = None
    try:
        while True:
            sample = sampler.sample()
            if seen is None:
                seen = _begin(options, sample, before, node_name())
            seen = msgspec.structs.replace(seen, samples=(*seen.samples, sample)[-_KEPT:])
            yield seen
            found = judge(seen)
            steady = all(row.verdict in ("good", "unseen") for row in found.rows)
            if found.verdict == "recovered" or not (steady or options.wait) or time.monotonic() + _PAUSE > ends:
                return
            time.sleep(max(0.0, sample.at + _PAUSE - time.monotonic()))
    except HostGone as error:
        raise CouldNotKnow(str(error)) from error


def _begin(options: argparse.Namespace, sample: Sample, before: Optional[Sample], node: str) -> Recovery:
    """From when on evidence counts. Raises CouldNotKnow."""
    series = Recovery(
        product=__version__, node=node, boot_id=sample.boot_id, since=sample.runtime.began,
        handlers=tuple(options.handler), before=before,
    )  # fmt: skip
    if options.since is not None:
        return msgspec.structs.replace(series, since=sample.moment(options.since), since_from="asked")
    act = last_restart(ledger.read(), sample.boot_id, sample.runtime.unit)
    if act is not None:
        # Its clock counts suspended time, too.
        apart = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
        return msgspec.structs.replace(series, since=act.intent_boottime - apart, since_from="ledger")
    if sample.runtime.problem:
        raise CouldNotKnow(f"{sample.runtime.problem}: when the runtime was started is not known; see --since")
    return series


def _read(source: str) -> Recovery:
    try:
        return files.load(read_file(source, files.MAX_BYTES))
    except SnapshotError as error:
        raise CouldNotKnow(f"{source}: {error}") from error


def _tell(options: argparse.Namespace, seen: Recovery, found: Recovered, table: Optional[_Table]) -> int:
    if options.json:
        print(json_text(as_object(seen, found)))
    elif table is None or not table.live:
        for line in lines(seen, found):
            print(printable(line))
    return _EXITS[found.verdict]


def as_object(seen: Recovery, found: Recovered) -> dict[str, Any]:
    """What `--json` prints: the verdict, its rows, and the evidence, from which `--from` judges again."""
    return {
        "node": seen.node,
        "verdict": found.verdict,
        "cause": found.cause,
        "alarm": found.alarm,
        "notes": list(found.notes),
        "steady": found.steady,
        "rows": msgspec.to_builtins(found.rows),
        "evidence": msgspec.to_builtins(seen),
    }


def lines(seen: Recovery, found: Recovered) -> Iterator[str]:
    """For people. Pure."""
    after = f", {seen.samples[-1].at - seen.since:.0f} s after the restart" if seen.samples else ""
    yield f"{seen.node}: {_SAYS[found.verdict]}{after}" + (f": {found.cause}" if found.cause else "")
    for row in found.rows:
        yield f"  {_mark(row):<7} {row.name:<15} {row.because}"
    if found.alarm:
        yield f"  ALARM: {found.alarm}"
    for note in found.notes:
        yield f"  note: {note}"


def _mark(row: Row) -> str:
    return "ok" if row.verdict == "good" else row.verdict


class _Table:
    """The rows, written anew in their place after each sample where there is a terminal."""

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self._height = 0

    def show(self, seen: Recovery, found: Recovered) -> None:
        if not self.live:
            return
        texts = [printable(line) for line in lines(seen, found)]
        up = f"\x1b[{self._height}F\x1b[J" if self._height else ""
        print(up + "\n".join(texts), flush=True)
        # A row that the terminal breaks over two lines moves the rest: then older ones stay above, and are only older.
        self._height = len(texts)


def _timeout(text: str) -> float:
    seconds = _seconds(text)
    if not 0 <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError("must be from 0 to 3600 seconds")
    return seconds


def _seconds(text: str) -> float:
    try:
        return duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _moment(text: str) -> float:
    """Seconds since the epoch."""
    if text.startswith("@"):
        moment = _seconds(text[1:])
    elif "T" in text or text.count("-") == 2:
        try:
            # Python below 3.11 does not take the Z.
            moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text).timestamp()
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no time of the form 2026-12-01T03:00:00Z") from None
    else:
        moment = time.time() - _seconds(text)
    if not 0 <= moment <= time.time() + 1:
        raise argparse.ArgumentTypeError("must be a time that is past")
    return moment
