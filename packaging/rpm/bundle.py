# SPDX-License-Identifier: Apache-2.0
"""Makes the folder of third-party libraries that a package of ostreewatchd carries, and keeps it.

The result depends on the locked set, the interpreter's ABI and this file alone, so it is kept under a
hash of these: a change of the product's own code never compiles a library again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"

# Served as source only; everything else must come as a wheel.
COMPILED_HERE = "pystemd"

# Whole libraries that a requirement pulls in and nothing here ever imports.
UNUSED_LIBRARIES = {
    "psutil": "only pystemd.futures, which is left out too, imports it",
}

# Of these only what is named is kept. pystemd reads introspection data with lxml.etree, nothing else.
KEPT_OF = {
    "lxml": ("__init__.py", "etree.*", "_elementpath.*"),
}

# gRPC's own list of certificate authorities: CRI is a Unix socket, and a list in here would only age.
UNUSED_FILES = ("pystemd/futures.py", "grpc/_cython/_credentials/roots.pem")
UNUSED_SUFFIXES = frozenset((".pyx", ".pxd", ".pxi", ".pyi", ".c", ".h", ".cc", ".typed", ".pth"))
UNUSED_FOLDERS = frozenset(("tests", "test", "__pycache__", "bin", "include", "includes"))
KEPT_METADATA = frozenset(("METADATA",))
LICENCE_PREFIXES = ("licen", "copying", "notice", "authors")

# What the product asks of its libraries. Runs with warnings as errors, in the bundle alone.
PROOF = """
import sys
sys.path.append(sys.argv[1])
import dbus_next.aio.message_bus, grpc, inotify_simple, msgspec, msgspec.json, msgspec.yaml, yaml
if sys.version_info < (3, 11):
    import tomli
import google.protobuf.descriptor_pb2, google.protobuf.json_format
from google.protobuf.internal import api_implementation
from pystemd.dbuslib import DBus, DBusAddress
from pystemd.systemd1 import Manager, Unit
assert api_implementation.Type() == "upb", "protobuf's compiled part is missing"
assert yaml.CSafeLoader, "PyYAML's compiled part is missing"
assert msgspec.yaml.decode(b"{a: 1}") == {"a": 1}
foreign = sorted(
    name for name, module in sys.modules.items()
    if "site-packages" in str(getattr(module, "__file__", ""))
    or "dist-packages" in str(getattr(module, "__file__", ""))
)
assert not foreign, f"not from the bundle: {foreign}"
"""


class BuildError(Exception):
    """A step of the build failed; `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Interpreter:
    """The Python that a package is built for."""

    executable: str
    version: str  # 3.11
    soabi: str  # cpython-311-x86_64-linux-gnu

    @classmethod
    def ask(cls, executable: str) -> Interpreter:
        found = shutil.which(executable)
        if found is None:
            raise BuildError(f"no interpreter {executable}", "name one with --python, by name or path")
        question = (
            "import json, sys, sysconfig; print(json.dumps(['%d.%d' % sys.version_info[:2],"
            " sysconfig.get_config_var('SOABI'), sys.implementation.name]))"
        )
        version, soabi, implementation = json.loads(run([found, "-I", "-c", question], seconds=30))
        if implementation != "cpython":
            raise BuildError(f"{executable} is {implementation}", "the libraries are built for CPython")
        if tuple(map(int, version.split("."))) < (3, 9):
            raise BuildError(f"{executable} is Python {version}", "3.9 is the oldest that works")
        return cls(found, version, soabi)

    @property
    def installed(self) -> str:
        """Where a package puts the bundle and the product beside it."""
        return f"/usr/lib/ostreewatchd/python{self.version}"

    @property
    def lock(self) -> Path:
        return REQUIREMENTS / ("py39.txt" if self.version in ("3.9", "3.10") else "py3.txt")


@dataclass(frozen=True)
class Library:
    name: str
    version: str


@dataclass(frozen=True)
class Bundle:
    """`python/` goes on sys.path, `licenses/` beside it has a folder a library."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "python"

    @property
    def licenses(self) -> Path:
        return self.path / "licenses"

    def libraries(self) -> list[Library]:
        found = []
        for info in sorted(self.python.glob("*.dist-info")):
            name, _, version = info.name[: -len(".dist-info")].rpartition("-")
            found.append(Library(name.lower().replace("_", "-"), version))
        return found


def run(command: Sequence[str], *, seconds: float, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """The command's standard output; its whole output is in the error when it fails."""
    try:
        done = subprocess.run(
            list(command), env=env, cwd=cwd, timeout=seconds, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not installed", "packaging/README.md names what a build needs") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{command[0]} took more than {seconds:.0f} s: {' '.join(command)}") from None
    if done.returncode:
        raise BuildError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "ostreewatchd" / "bundles"


def bundle_for(interpreter: Interpreter) -> Bundle:
    """The kept bundle for this interpreter, made first if there is none."""
    digest = hashlib.sha256()
    for part in (interpreter.lock, REQUIREMENTS / "build.txt", Path(__file__)):
        digest.update(hashlib.sha256(part.read_bytes()).digest())
    digest.update(interpreter.soabi.encode())
    kept = cache_folder() / f"{interpreter.soabi}-{digest.hexdigest()[:16]}"
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        forget_unused(kept.parent)
        # One makes it, the others wait; whoever holds the lock is bounded by its commands' time limits.
        with open(kept.parent / f".{kept.name}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.is_dir():
                with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".new-") as scratch:
                    make(interpreter, Path(scratch)).rename(kept)
    os.utime(kept)
    return Bundle(kept)


def forget_unused(cache: Path) -> None:
    """What no build used for a month, the remains of a killed one included."""
    for path in cache.iterdir():
        if time.time() - path.stat().st_mtime > 30 * 86400:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def make(interpreter: Interpreter, scratch: Path) -> Path:
    if not interpreter.lock.is_file():
        raise BuildError(f"no locked set {interpreter.lock}", "packaging/requirements/README.md tells how to make it")
    tools, wheels, made = scratch / "tools", scratch / "wheels", scratch / "bundle"
    python = made / "python"
    python.mkdir(parents=True)
    try:
        run([interpreter.executable, "-I", "-m", "venv", str(scratch / "venv")], seconds=120)
    except BuildError as error:
        raise BuildError(
            f"{interpreter.executable} makes no environment: {error}", "on Debian: python3-venv"
        ) from error
    pip = [str(scratch / "venv/bin/python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    # PYTHONPATH carries the compiler's own locked tools; the build itself sees nothing else of this machine.
    env = {**os.environ, "PYTHONPATH": str(tools), "PYTHONNOUSERSITE": "1", "PIP_NO_WARN_SCRIPT_LOCATION": "1"}
    # Not the flags that this interpreter was built with: they carry its own library path into the result.
    env.update(CC="gcc", LDSHARED="gcc -shared", CFLAGS=f"-O2 -g0 -fPIC -DNDEBUG -ffile-prefix-map={scratch}=.")
    env["PIP_ROOT_USER_ACTION"] = "ignore"
    locked = [*pip, "install", "--require-hashes", "--no-compile"]
    run([*locked, "--target", str(tools), "--only-binary=:all:", "-r", str(REQUIREMENTS / "build.txt")],
        seconds=300, env=env)  # fmt: skip
    run([*pip, "download", "--require-hashes", "--no-deps", "--no-build-isolation", "--only-binary=:all:",
         f"--no-binary={COMPILED_HERE}", "--dest", str(wheels), "-r", str(interpreter.lock)],
        seconds=600, env=env)  # fmt: skip
    for archive in wheels.glob("*.tar.gz"):
        # No cache: pip would give back what it once compiled with other flags.
        run([*pip, "wheel", "--no-cache-dir", "--no-index", "--no-deps", "--no-build-isolation",
             "--wheel-dir", str(wheels), str(archive)], seconds=600, env=env)  # fmt: skip
    run([*pip, "install", "--no-index", "--no-deps", "--no-compile", "--target", str(python),
         *map(str, sorted(wheels.glob("*.whl")))], seconds=300, env=env)  # fmt: skip
    keep_licenses(python, made / "licenses")
    prune(python)
    finish_libraries(python)
    run([interpreter.executable, "-ISB", "-W", "error", "-c", PROOF, str(python)], seconds=60)
    byte_compile(interpreter, python, interpreter.installed)
    return made


def byte_compile(interpreter: Interpreter, folder: Path, installed: str) -> None:
    """Compiled files that hold whatever the source's time stamp says: OSTree sets it to zero."""
    run([interpreter.executable, "-IS", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash",
         "-s", str(folder), "-p", installed, str(folder)], seconds=300)  # fmt: skip


def keep_licenses(python: Path, licenses: Path) -> None:
    for info in sorted(python.glob("*.dist-info")):
        name = info.name.split("-")[0].lower()
        if name in UNUSED_LIBRARIES:
            continue
        texts = [path for path in sorted(info.rglob("*")) if path.is_file() and is_licence(path)]
        if not texts:
            raise BuildError(f"{info.name} has no licence text", "a package must carry it: look at its source")
        for path in texts:
            target = licenses / name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists() and target.read_bytes() != path.read_bytes():
                raise BuildError(f"{info.name} has two licence texts named {path.name}")
            shutil.copyfile(path, target)


def is_licence(path: Path) -> bool:
    return path.name.lower().startswith(LICENCE_PREFIXES)


def prune(python: Path) -> None:
    for path in list(unneeded(python)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder, _, _ in os.walk(python, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)


def unneeded(python: Path) -> Iterator[Path]:
    for name in UNUSED_FILES:
        path = python / name
        if not path.exists():
            raise BuildError(f"there is no {name} to leave out any more", f"bring {Path(__file__).name} up to date")
        yield path
    for path in python.iterdir():
        if path.name in UNUSED_LIBRARIES or path.name.split("-")[0] in UNUSED_LIBRARIES:
            yield path
    for library, patterns in KEPT_OF.items():
        kept = [path for pattern in patterns for path in (python / library).glob(pattern)]
        yield from (path for path in (python / library).iterdir() if path not in kept)
    for path in python.rglob("*"):
        if path.is_dir():
            if path.name in UNUSED_FOLDERS:
                yield path
        elif path.suffix in UNUSED_SUFFIXES or (
            path.relative_to(python).parts[0].endswith(".dist-info") and path.name not in KEPT_METADATA
        ):
            yield path


def finish_libraries(python: Path) -> None:
    libraries = sorted(map(str, python.rglob("*.so")))
    run(["strip", "--strip-unneeded", *libraries], seconds=120)
    for line in run(["readelf", "--dynamic", *libraries], seconds=60).splitlines():
        if "RPATH" in line or "RUNPATH" in line:
            raise BuildError(f"a library would search a path of this machine: {line.strip()}")


if __name__ == "__main__":
    try:
        print(bundle_for(Interpreter.ask(sys.argv[1] if len(sys.argv) > 1 else sys.executable)).path)
    except BuildError as problem:
        sys.exit(f"{problem}\n{problem.hint}".strip())
