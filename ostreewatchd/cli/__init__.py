# SPDX-License-Identifier: Apache-2.0
"""ostreewatchctl: the person's hand. A file a verb; here is only the choice of the verb."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Optional

from ostreewatchd import __version__
from ostreewatchd.cli import explain, gate, history, pause, plan, remediate, resume, scan, snapshot, status, tokens
from ostreewatchd.cli.world import CouldNotKnow
from ostreewatchd.model import Exit, all_exits
from ostreewatchd.report.journal import last_words
from ostreewatchd.report.printable import printable

_VERBS = (status, scan, explain, plan, tokens, gate, remediate, pause, resume, history, snapshot)
_DESCRIPTION = "Shows what a live switch left in the old deployment, and why it is or is not restarted."
_EPILOG = f"{all_exits()}. What looks at this host needs root; --from and history do not."


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Entry point; the exit status is in the epilog."""
    parser = argparse.ArgumentParser(prog="ostreewatchctl", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for module in _VERBS:
        name = module.__name__.rpartition(".")[2]
        text = (module.__doc__ or "").strip()
        one = verbs.add_parser(name, help=text.splitlines()[0], description=text, epilog=_EPILOG)
        module.arguments(one)
        one.set_defaults(run=module.run, parser=one)
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        # By itself argparse would print the usage without the verb's options, which are what is asked for.
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except CouldNotKnow as error:
        print(f"ostreewatchctl: {printable(str(error))}", file=sys.stderr)
        return Exit.COULD_NOT_KNOW
    except BrokenPipeError:
        _drop_output()  # Who read it has enough of it.
        return Exit.COULD_NOT_KNOW
    except KeyboardInterrupt:
        return Exit.COULD_NOT_KNOW
    except OSError as error:
        print(f"ostreewatchctl: {error}", file=sys.stderr)
        _drop_output()
        return Exit.COULD_NOT_KNOW
    except Exception as error:  # noqa: BLE001  An uncaught exception would exit with 1, which says "owed".
        print(f"ostreewatchctl: {last_words(error)}", file=sys.stderr)
        return Exit.COULD_NOT_KNOW


def _drop_output() -> None:
    """What is still to be written cannot be: the interpreter must not fail once more at its end."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
