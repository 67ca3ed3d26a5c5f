# SPDX-License-Identifier: Apache-2.0
"""Runs a test as PID 1 of pid and mount namespaces of its own, so that `/proc/1` is the test's and what it mounts is
nobody else's. What it leaves in cgroups is removed also when it dies."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0

needs_root = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes namespaces, mounts and cgroups"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare(1)"),
]

Test = Callable[..., None]


def in_namespaces(test: Test) -> Test:
    """Decorator: the body runs in the namespaces, with the same arguments (paths, numbers and texts)."""

    # Not __module__: that has no package in it when pytest imports the file.
    module = ".".join(Path(inspect.getfile(test)).resolve().relative_to(ROOT).with_suffix("").parts)

    def outside(**arguments: Any) -> None:
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in arguments.items()}
        run(module, test.__name__, plain)

    functools.update_wrapper(outside, test)
    del outside.__wrapped__  # type: ignore[attr-defined]
    outside.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    outside.body = test  # type: ignore[attr-defined]
    return outside


def run(module: str, name: str, arguments: dict[str, Any]) -> None:
    """Run a body; a failure shows what it printed."""
    token = f"ostreewatchd-test-{os.getpid()}-{time.monotonic_ns()}"
    command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
    inner = f"from tests.host.namespace import inside; inside({module!r}, {name!r})"
    try:
        done = subprocess.run(
            [*command, sys.executable, "-W", "error", "-c", inner],
            cwd=ROOT,
            env={**os.environ, "OSTREEWATCHD_TEST": json.dumps({"token": token, "arguments": arguments})},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"no end within {LIMIT:g} s\n{error.stdout!r}\n{error.stderr!r}", pytrace=False)
    finally:
        remove_cgroups(token)
    if done.returncode != 0:
        pytest.fail(f"status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}", pytrace=False)


def inside(module: str, name: str) -> None:
    """The other end: called by the new PID 1."""
    given = json.loads(os.environ["OSTREEWATCHD_TEST"])
    test = getattr(importlib.import_module(module), name)
    body: Test = getattr(test, "body", test)
    arguments = {key: Path(value) if key.endswith("path") else value for key, value in given["arguments"].items()}
    body(**arguments)


def token() -> str:
    """The name of this run's cgroup folder."""
    return str(json.loads(os.environ["OSTREEWATCHD_TEST"])["token"])


def cgroup_roots() -> list[Path]:
    """Where a cgroup can be made: the unified hierarchy, or of the old ones the one that limits nothing by itself."""
    top = Path("/sys/fs/cgroup")
    if (top / "cgroup.controllers").exists():
        return [top]
    return [one for one in (top / "pids", top / "freezer") if one.is_dir()]


def remove_cgroups(name: str) -> None:
    """Kill what is left in the folder's cgroups and remove them."""
    for root in cgroup_roots():
        folder = root / name
        for _ in range(50):
            if not folder.exists():
                break
            for one in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
                _remove(one)
            _remove(folder)
            time.sleep(0.02)


def _remove(cgroup: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (cgroup / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        cgroup.rmdir()
