# SPDX-License-Identifier: Apache-2.0
"""What has to be there before anything is measured: the C programs, crictl, and an environment a Python. Kept in the
user's cache directory, by the content of what they are made of."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
SUPPORTED = ("3.9", "3.11", "3.13")
_NEEDED = ("msgspec", "inotify-simple", "dbus-next")
"""What the watcher imports of the locked sets: one more, and it would not start here."""
_NEEDED_BY_3_9 = (*_NEEDED, "tomli")


class BenchError(Exception):
    """The bench cannot go on; says why."""


class Interpreter(NamedTuple):
    version: str
    python: Path
    packages: Path
    """The watcher's dependencies and the product itself, compiled as a package has them."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = Path(base) / "ostreewatchd" / "bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def program(name: str, *sources: str) -> Path:
    """A compiled C program. Static: it must run in a root that has no library."""
    texts = [(HERE / source).read_bytes() for source in sources]
    target = cache() / f"{name}-{hashlib.sha256(b''.join(texts)).hexdigest()[:12]}"
    if not target.exists():
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise BenchError("no C compiler: install gcc and libc6-dev")
        made = target.with_suffix(f".{os.getpid()}")
        paths = [str(HERE / source) for source in sources if source.endswith(".c")]
        run([compiler, "-O2", "-Wall", "-Wextra", "-static", "-o", str(made), *paths])
        made.rename(target)
    return target


def crictl() -> Path:
    """crictl, built from pinned Go modules: no registry serves the binary. Raises BenchError."""
    module = HERE / "go"
    material = b"".join((module / name).read_bytes() for name in ("go.mod", "go.sum", "tools.go"))
    target = cache() / f"crictl-{hashlib.sha256(material).hexdigest()[:12]}"
    if not target.exists():
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
        if go is None:
            raise BenchError("no Go compiler: install golang-go")
        made = target.with_suffix(f".{os.getpid()}")
        run(["env", "CGO_ENABLED=0", go, "-C", str(module), "build", "-trimpath", "-mod=readonly", "-buildvcs=false",
             "-ldflags", "-s -w", "-o", str(made), "sigs.k8s.io/cri-tools/cmd/crictl"], timeout=600)  # fmt: skip
        made.rename(target)
    return target


def interpreters() -> list[Interpreter]:
    """Each supported Python that is found, with the watcher's dependencies beside it."""
    return [_environment(version, python) for version in SUPPORTED for python in (_find(version),) if python]


def _find(version: str) -> Path | None:
    on_path = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")) / "versions"
    candidates = [Path(on_path)] if on_path else []
    candidates += sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)
    for candidate in candidates:
        # A shim of pyenv is on PATH and need not run.
        said = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        if said.returncode == 0 and said.stdout.strip() == version:
            return candidate
    return None


def _environment(version: str, python: Path) -> Interpreter:
    name, needed = ("py39.txt", _NEEDED_BY_3_9) if version == "3.9" else ("py3.txt", _NEEDED)
    wanted = _locked((REPOSITORY / "packaging" / "requirements" / name).read_text(), needed)
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    place = cache() / f"python{version}-{digest}"
    if not place.exists():
        made = place.with_suffix(f".{os.getpid()}")
        listed = made.with_suffix(".txt")
        listed.write_text(wanted)
        try:
            run([str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps",
                 "--target", str(made), "-r", str(listed)], timeout=180)  # fmt: skip
            made.rename(place)
        finally:
            listed.unlink()
    # The product of this moment: to compile it at each start would be counted as the watcher's memory.
    product = place / "ostreewatchd"
    shutil.rmtree(product, ignore_errors=True)
    shutil.copytree(REPOSITORY / "ostreewatchd", product, ignore=shutil.ignore_patterns("__pycache__"))
    run([str(python), "-m", "compileall", "-q", str(place)])
    return Interpreter(version, python, place)


def _locked(text: str, needed: Sequence[str]) -> str:
    """The lines of the packages that are needed, with their hashes."""
    blocks = re.split(r"\n(?=\S)", text)
    found = [block for block in blocks if re.match(rf"(?:{'|'.join(needed)})==", block)]
    if len(found) != len(needed):
        raise BenchError(f"the locked set has not exactly one of each of {', '.join(needed)}")
    return "\n".join(found) + "\n"


def run(command: list[str], *, timeout: float = 120) -> str:
    """A command's output. Raises BenchError with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def check_machine() -> None:
    """Raises BenchError where the bench cannot run at all."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise BenchError("needs Linux and root: it makes namespaces, mounts and cgroups of its own")
    for tool in ("nsenter", "findmnt"):
        if shutil.which(tool) is None:
            raise BenchError(f"no {tool}: install util-linux")
