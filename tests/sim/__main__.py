# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.sim histories FIRST COUNT`: random histories; a failing one is shrunk and printed, and written with
`--save DIRECTORY`. `planted NAME…`: a history in which each planted bug is found (with `--save` the first). `cuts
LIFE…`: a life cut at every moment. `replay FILE`: one history, told."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import msgspec

from tests.sim.cuts import CUTS, LIVES, cut_everywhere
from tests.sim.events import History, load, save
from tests.sim.generate import history
from tests.sim.mutants import NAMES, planted
from tests.sim.node import Node
from tests.sim.replay import folder, replay
from tests.sim.shrink import broken, shrink
from tests.sim.truth import Broken

KEPT = Path(__file__).parent / "histories"


class Found(msgspec.Struct):
    """A history in which something broke. One line of output each."""

    seed: int
    what: str
    shrunk: History
    planted: str = ""


def histories(first: int, count: int, place: Path) -> list[Found]:
    """Those that break."""
    found = []
    for seed in range(first, first + count):
        error = broken(history(seed), place)
        if error is not None:
            found.append(Found(seed, str(error), shrink(history(seed), place)))
        if seed % 500 == 0:
            gc.collect()
    return found


def first_that_finds(name: str, most: int, place: Path, *, small: bool) -> Optional[Found]:
    """One of the first `most` histories in which the planted bug breaks something: that which is known to, if it still
    does, else the first."""
    known = KEPT / f"{name.replace(' ', '-')}.json"
    seeds = [load(known).seed] if known.exists() and not small else []
    with planted(name) as tune:
        for seed in (*(seed for seed in seeds if 0 <= seed < most), *range(most)):
            error = broken(history(seed), place, tune)
            if error is not None:
                least = shrink(history(seed), place, tune) if small else history(seed)
                return Found(seed, str(error), least, name)
    return None


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    many = verbs.add_parser("histories")
    many.add_argument("first", type=int)
    many.add_argument("count", type=int)
    many.add_argument("--save", type=Path)
    bugs = verbs.add_parser("planted")
    bugs.add_argument("names", nargs="*", default=NAMES)
    bugs.add_argument("--most", type=int, default=1000)
    bugs.add_argument("--save", type=Path)
    verbs.add_parser("cuts").add_argument("names", nargs="*", default=LIVES)
    one = verbs.add_parser("replay")
    one.add_argument("file")
    one.add_argument("--planted", default="")
    options = parser.parse_args(argv)
    gc.disable()
    gc.freeze()
    with folder() as place:
        if options.verb == "replay":
            return _tell(options.file, options.planted, place)
        if options.verb == "cuts":
            for name in options.names:
                for cut in CUTS:
                    print(msgspec.json.encode({f"{name}: {cut}": cut_everywhere(name, cut, place)}).decode())
            return 0
        began, found = time.process_time(), []
        if options.verb == "histories":
            found = histories(options.first, options.count, place)
        else:
            for name in options.names:
                first = first_that_finds(name, options.most, place, small=options.save is not None)
                if first is not None:
                    found.append(first)
                gc.collect()
        for each in found:
            sys.stdout.write(msgspec.json.encode(each).decode() + "\n")
            if options.save is not None:
                name = each.planted.replace(" ", "-") or f"seed-{each.seed}"
                why = f"finds the planted bug: {each.planted}" if each.planted else each.what
                save(options.save / f"{name}.json", msgspec.structs.replace(each.shrunk, why=why, seed=each.seed))
        print(f"{time.process_time() - began:.1f} s of CPU", file=sys.stderr)
        return 1 if found and options.verb == "histories" else 0


def _tell(file: str, name: str, place: Path) -> int:
    one = history(int(file)) if file.isdecimal() else load(Path(file))
    nodes: list[Node] = []
    error: Optional[Broken] = None
    try:
        if name:
            with planted(name) as tune:
                replay(one, place, tune, keep=nodes)
        else:
            replay(one, place, keep=nodes)
    except Broken as found:
        error = found
    print("\n".join(nodes[0].lines))
    print(error or "all holds")
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
