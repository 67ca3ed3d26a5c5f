# SPDX-License-Identifier: Apache-2.0
"""The program `crio`: the daemon, and those of its subcommands that scripts use.

Sources: crio(8), cri-o cmd/crio, internal/criocli. `crio config` is the dry run without side effects. `crio check`
unmounts the overlays of all running containers (measured, 11 to 0): here it leaves a mark that fails the test."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from . import settings
from .settings import BadConfig, Config, Files

VERSION = "1.37.0"
MARKS = "/run/crio-stand-in"


def main(arguments: Optional[Sequence[str]] = None, *, version: str = VERSION) -> int:
    """Environment: CRIO_BEHIND, the socket of the containerd that does the work; CRIO_MARKS, a directory."""
    asked = _parser(version).parse_args(arguments)
    files = Files(Path(asked.config), Path(asked.config_dir))
    flags: Config = {name: value for name, value in (("log_level", asked.log_level),) if value}
    flags.update({"default_runtime": asked.default_runtime} if asked.default_runtime else {})
    marks = Path(os.environ.get("CRIO_MARKS", MARKS))
    if asked.verb is None:
        from .daemon import Daemon  # The other subcommands do without grpc.

        return Daemon(files, flags, version, os.environ["CRIO_BEHIND"], marks).run()
    if asked.verb == "check":
        marks.mkdir(parents=True, exist_ok=True)
        (marks / "somebody-called-crio-check").touch()
        return 0
    try:
        # Measured: with a malformed file none of them works, `version` neither.
        config = settings.with_flags(files.read(), flags)
        if asked.verb == "config":
            settings.check_default(config)
    except BadConfig as error:
        print(f'time="-" level=fatal msg="{error}"', file=sys.stderr)
        return 1
    if asked.verb == "config":
        print(settings.to_toml(config))
    elif asked.verb == "version":
        print(f"Version:        {version}\nGitCommit:      stand-in\nGitTreeState:   clean")
    else:
        return _status(config["crio"]["api"]["listen"], asked.what)
    return 0


def _status(path: str, what: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(f"GET /{what} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while True:
            more = connection.recv(65536)
            if not more:
                break
            answer += more
    print(answer.partition(b"\r\n\r\n")[2].decode())
    return 0


def _parser(version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="crio", description=__doc__)
    parser.add_argument("--version", "-v", action="version", version=f"crio version {version}")
    parser.add_argument("--config", "-c", default=str(Files.main))
    parser.add_argument("--config-dir", "-d", default=str(Files.drop_ins))
    parser.add_argument("--log-level", "-l", default="")
    parser.add_argument("--default-runtime", default="")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for verb in ("config", "version", "check", "status"):
        one = verbs.add_parser(verb)
        if verb == "check":
            one.add_argument("--quick", "-q", action="store_true")
        if verb == "status":
            one.add_argument("what", choices=("info", "config"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
