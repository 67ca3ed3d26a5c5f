# SPDX-License-Identifier: Apache-2.0
"""Builds the RPM of ostreewatchd for one Python; prints the path of the package as its last line.

python3 packaging/rpm/build.py --python python3.11 --out DIR
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bundle import BuildError, Bundle, Interpreter, bundle_for, byte_compile, run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# When neither the caller nor git knows a date: the first commit's.
FALLBACK_EPOCH = 1764000000

PRODUCT = ("LICENSE", "ostreewatchd", "packaging", "systemd")
OPTIONAL = ("README.md", "docs")
NOT_PAYLOAD = shutil.ignore_patterns("__pycache__", ".*_cache", "*.pyi")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    started = time.monotonic()
    try:
        package = build(arguments)
    except BuildError as error:
        print(f"build.py: {error}", file=sys.stderr)
        if error.hint:
            print(f"build.py: hint: {error.hint}", file=sys.stderr)
        return 1
    print(f"{package.stat().st_size / 1e6:.1f} MB in {time.monotonic() - started:.1f} s")
    print(package)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default="python3", metavar="NAME", help="interpreter of the nodes (python3.9, …)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the package goes")
    parser.add_argument("--version", help="instead of pyproject.toml's")
    parser.add_argument("--release", default="1")
    parser.add_argument("--source", type=Path, default=ROOT, metavar="DIR", help="another tree of the product")
    return parser.parse_args(argv)


def build(arguments: argparse.Namespace) -> Path:
    source: Path = arguments.source.resolve()
    interpreter = Interpreter.ask(arguments.python)
    version = arguments.version or product_version(source)
    epoch = source_date_epoch(source)
    bundle = bundle_for(interpreter)
    with tempfile.TemporaryDirectory(prefix="ostreewatchd-rpm-") as scratch:
        top = Path(scratch)
        sources = top / "SOURCES"
        sources.mkdir()
        product = stage_product(source, interpreter, top / "stage")
        write_tar(sources / "product.tar", product, "product", epoch)
        write_tar(sources / "bundle.tar", bundle.path, "bundle", epoch)
        definitions = {
            "_topdir": str(top),
            "_tmppath": str(top / "tmp"),
            "product_version": version,
            "product_release": arguments.release,
            "py_version": interpreter.version,
            "bundled_libraries": provides(bundle),
            "_buildhost": "ostreewatchd",
            "use_source_date_epoch_as_buildtime": "1",
            "clamp_mtime_to_source_date_epoch": "1",
            "source_date_epoch_from_changelog": "0",
        }
        # --nodeps: what the build needs was not put on a Debian machine by rpm, so its database cannot know.
        command = ["rpmbuild", "-bb", "--quiet", "--nodeps", str(HERE / "ostreewatchd.spec")]
        for name, value in definitions.items():
            command += ["--define", f"{name} {value}"]
        run(command, seconds=600, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"}, cwd=top)
        built = sorted((top / "RPMS").rglob("*.rpm"))
        if len(built) != 1:
            raise BuildError(f"rpmbuild made {len(built)} packages, not one")
        arguments.out.mkdir(parents=True, exist_ok=True)
        target: Path = arguments.out.resolve() / built[0].name
        shutil.copyfile(built[0], target)
    return target


def product_version(source: Path) -> str:
    # tomllib is 3.11's; one line of one file of our own needs no parser.
    text = (source / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise BuildError('pyproject.toml has no line `version = "…"`', "or name one with --version")
    return found.group(1)


def source_date_epoch(source: Path) -> int:
    stated = os.environ.get("SOURCE_DATE_EPOCH")
    if stated is not None:
        if not stated.isdigit():
            raise BuildError(f"SOURCE_DATE_EPOCH is {stated!r}", "it counts seconds since 1970")
        return int(stated)
    try:
        return int(run(["git", "-C", str(source), "log", "-1", "--format=%ct"], seconds=30))
    except (BuildError, ValueError):
        return FALLBACK_EPOCH


def stage_product(source: Path, interpreter: Interpreter, stage: Path) -> Path:
    """The files that go into the package, the Python ones compiled as the bundle's are."""
    stage.mkdir()
    for name in (*PRODUCT, *OPTIONAL):
        origin = source / name
        if origin.is_dir():
            shutil.copytree(origin, stage / name, ignore=NOT_PAYLOAD)
        elif origin.is_file():
            shutil.copyfile(origin, stage / name)
        elif name not in OPTIONAL:
            raise BuildError(f"{source} has no {name}", "--source wants a whole tree of the product")
    # Compiled below the name that it has on a node, so that tracebacks show the true path.
    package = stage / "ostreewatchd"
    try:
        byte_compile(interpreter, package, f"{interpreter.installed}/ostreewatchd")
    except BuildError as error:
        raise BuildError(f"the product does not compile on Python {interpreter.version}:\n{error}") from error
    return stage


def write_tar(target: Path, folder: Path, name: str, epoch: int) -> None:
    """Same content, same bytes: sorted, owned by root, one time stamp, modes by kind."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = epoch
        member.mode = 0o755 if member.isdir() or member.name.endswith(".so") else 0o644
        return member

    with tarfile.open(target, "w") as archive:
        archive.add(folder, arcname=name, filter=plain)


def provides(bundle: Bundle) -> str:
    return ", ".join(f"bundled(python3dist({one.name})) = {one.version}" for one in bundle.libraries())


if __name__ == "__main__":
    sys.exit(main())
