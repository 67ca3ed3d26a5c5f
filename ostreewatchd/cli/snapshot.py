# SPDX-License-Identifier: Apache-2.0
"""Save what is now as a file that can be judged anywhere, or tell what changed between two such files."""

from __future__ import annotations

import argparse
import re
import sys
import time

import msgspec

from ostreewatchd.cli import newfile
from ostreewatchd.cli.world import CouldNotKnow, given_file, read_snapshot, see_host
from ostreewatchd.model import Exit, Snapshot
from ostreewatchd.replay import form
from ostreewatchd.replay.anonymize import anonymize
from ostreewatchd.replay.bounds import bounded
from ostreewatchd.replay.diff import diff
from ostreewatchd.replay.fields import change_texts
from ostreewatchd.replay.secrets import without_secrets
from ostreewatchd.report.printable import printable


def arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="save|diff")
    about = "look, and ask systemd, runtime and kubelet; write all that was seen to a file"
    one = verbs.add_parser("save", help=about, description=about)
    one.add_argument("--anonymize", action="store_true", help="replace names, paths, addresses and ids by others")
    one.add_argument(
        "--output", type=given_file, metavar="FILE", help="where to (- is standard output); else a new file here"
    )
    one.set_defaults(part=_save, parser=one)
    about = "tell in words what changed between two saved snapshots"
    two = verbs.add_parser("diff", help=about, description=about)
    two.add_argument("before", type=given_file, metavar="A")
    two.add_argument("after", type=given_file, metavar="B")
    two.set_defaults(part=_diff, parser=two)


def run(options: argparse.Namespace) -> int:
    """Raises CouldNotKnow if PID 1 cannot be looked at, or a file cannot be read or written."""
    return int(options.part(options))


def _save(options: argparse.Namespace) -> int:
    config, snapshot, _ = see_host(deep=True)
    snapshot = prepared(msgspec.structs.replace(snapshot, settings=config), anonymized=options.anonymize)
    data = form.dump(snapshot)
    if options.output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return Exit.NOTHING_OWED
    path = options.output or file_name(snapshot)
    try:
        newfile.write(path, data)
    except OSError as error:
        raise CouldNotKnow(f"{path}: not written: {error.strerror}") from error
    print(printable(path))
    for problem in snapshot.problems:
        print(f"ostreewatchctl: in it: {printable(f'{problem.where}: {problem.what}')}", file=sys.stderr)
    return Exit.NOTHING_OWED


def prepared(snapshot: Snapshot, *, anonymized: bool) -> Snapshot:
    """As it is written: without secrets, small enough, and with other names if asked for. Pure."""
    small = change_texts(bounded(snapshot), without_secrets)
    # Again: other names may be longer ones.
    return bounded(anonymize(small) if anonymized else small)


def file_name(snapshot: Snapshot) -> str:
    """Node and time, in letters that no shell and no file system minds."""
    node = re.sub(r"[^A-Za-z0-9.-]", "_", snapshot.node.name)[:64].lstrip(".-") or "node"
    return f"ostreewatchd-{node}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(snapshot.taken_at))}.json"


def _diff(options: argparse.Namespace) -> int:
    if options.before == options.after == "-":
        print("ostreewatchctl: only one of the two can be standard input", file=sys.stderr)
        return Exit.USAGE
    for line in diff(read_snapshot(options.before), read_snapshot(options.after)):
        print(printable(line))
    return Exit.NOTHING_OWED
