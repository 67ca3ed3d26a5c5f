# SPDX-License-Identifier: Apache-2.0
"""What the package's builder promises before rpmbuild runs: locked sets, pruning, licences, clear errors."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RPM = ROOT / "packaging/rpm"
SETS = ROOT / "packaging/requirements"
LOCKS = sorted(path.name for path in SETS.glob("*.txt"))


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(RPM))
    return importlib.import_module("bundle")


@pytest.fixture
def build(bundle: Any) -> Any:
    return importlib.import_module("build")


def pins(name: str) -> dict[str, str]:
    text = (SETS / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", LOCKS)
def test_each_locked_line_has_hashes_and_no_address(name: str) -> None:
    text = (SETS / name).read_text(encoding="utf-8")
    entries = re.split(r"^(?=[a-z])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    assert entries
    for entry in entries:
        assert re.match(r"\S+==\S+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n)+\Z", entry), entry[:80]
    assert "//" not in text


@pytest.mark.parametrize("name", ["py39.txt", "py3.txt"])
def test_the_locked_sets_hold_what_the_project_depends_on(name: str) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert block is not None
    lines = [line for line in block.group(1).splitlines() if name == "py39.txt" or "python_version <" not in line]
    wanted = {found.lower() for found in re.findall(r'"([A-Za-z0-9-]+)', "\n".join(lines))}
    assert wanted and wanted <= pins(name).keys()


@pytest.mark.parametrize(("dev", "runtime"), [("dev.txt", "py3.txt"), ("dev39.txt", "py39.txt")])
def test_a_set_for_development_fits_beside_its_runtime(dev: str, runtime: str) -> None:
    ours, theirs = pins(dev), pins(runtime)
    assert {name: (ours[name], theirs[name]) for name in ours.keys() & theirs if ours[name] != theirs[name]} == {}


@pytest.mark.parametrize(("version", "name"), [("3.9", "py39.txt"), ("3.11", "py3.txt"), ("3.13", "py3.txt")])
def test_a_python_gets_its_set(bundle: Any, version: str, name: str) -> None:
    interpreter = bundle.Interpreter("python", version, "abi")
    assert interpreter.lock == SETS / name
    assert interpreter.installed == f"/usr/lib/ostreewatchd/python{version}"


def test_the_interpreter_is_asked(bundle: Any) -> None:
    found = bundle.Interpreter.ask(sys.executable)
    assert found.version == "{}.{}".format(*sys.version_info)
    assert found.soabi.startswith("cpython-")


def test_no_such_interpreter(bundle: Any) -> None:
    with pytest.raises(bundle.BuildError, match="no interpreter python0.1") as error:
        bundle.Interpreter.ask("python0.1")
    assert error.value.hint


def installed(folder: Path, *files: str) -> Path:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_prune_keeps_what_runs(bundle: Any, tmp_path: Path) -> None:
    kept = {
        "msgspec/__init__.py", "msgspec/_core.so", "msgspec-1.dist-info/METADATA", "lxml/__init__.py",
        "lxml/etree.abi.so", "lxml/_elementpath.so", "grpc/__init__.py", "pystemd/base.py",
    }  # fmt: skip
    dropped = {
        *bundle.UNUSED_FILES, "psutil/__init__.py", "psutil-1.dist-info/METADATA", "lxml/objectify.so",
        "lxml/html/__init__.py", "lxml/etree/etree.h", "pystemd/base.pyi", "pystemd/base.c", "grpc/tests/x.py",
        "bin/tool", "msgspec-1.dist-info/RECORD", "msgspec-1.dist-info/licenses/LICENSE", "protobuf-nspkg.pth",
    }  # fmt: skip
    installed(tmp_path, *kept, *dropped)
    bundle.prune(tmp_path)
    assert names(tmp_path) == kept
    assert all(any(folder.iterdir()) for folder in tmp_path.rglob("*") if folder.is_dir())


def test_prune_says_when_its_list_is_out_of_date(bundle: Any, tmp_path: Path) -> None:
    with pytest.raises(bundle.BuildError, match=re.escape(bundle.UNUSED_FILES[0])):
        bundle.prune(tmp_path)


def test_licences_are_kept_of_each_library_that_stays(bundle: Any, tmp_path: Path) -> None:
    installed(
        tmp_path, "PyYAML-6.dist-info/licenses/LICENSE", "lxml-6.dist-info/LICENSES.txt", "psutil-7.dist-info/LICENSE"
    )
    bundle.keep_licenses(tmp_path, tmp_path / "kept")
    assert names(tmp_path / "kept") == {"pyyaml/LICENSE", "lxml/LICENSES.txt"}


def test_a_library_without_a_licence_text_is_refused(bundle: Any, tmp_path: Path) -> None:
    installed(tmp_path, "other-1.dist-info/METADATA")
    with pytest.raises(bundle.BuildError, match="other-1.dist-info has no licence text"):
        bundle.keep_licenses(tmp_path, tmp_path / "kept")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_library_path_of_the_build_machine_is_refused(bundle: Any, tmp_path: Path) -> None:
    # Flags of an interpreter in a home folder once came through, and root would have loaded from there.
    def compiled(name: str, *flags: str) -> None:
        command = ["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(tmp_path / name), *flags]
        subprocess.run(command, timeout=60, check=True)

    compiled("clean.so")
    bundle.finish_libraries(tmp_path)
    compiled("dirty.so", "-Wl,-rpath,/somewhere/else")
    with pytest.raises(bundle.BuildError, match="/somewhere/else"):
        bundle.finish_libraries(tmp_path)


def test_the_bundle_names_its_libraries(bundle: Any, build: Any, tmp_path: Path) -> None:
    installed(tmp_path, "python/inotify_simple-2.0.1.dist-info/METADATA", "python/PyYAML-6.0.dist-info/METADATA")
    assert build.provides(bundle.Bundle(tmp_path)) == (
        "bundled(python3dist(pyyaml)) = 6.0, bundled(python3dist(inotify-simple)) = 2.0.1"
    )


def test_what_no_build_used_for_a_month_goes(bundle: Any, tmp_path: Path) -> None:
    installed(tmp_path, "old/x", "new/x", ".old.lock", ".new-killed/x")
    for name in ("old", ".old.lock", ".new-killed"):
        os.utime(tmp_path / name, (0, time.time() - 31 * 86400))
    bundle.forget_unused(tmp_path)
    assert names(tmp_path) == {"new/x"}


def test_a_tar_is_the_same_whenever_and_whoever_made_it(build: Any, tmp_path: Path) -> None:
    folder = installed(tmp_path / "tree", "a.py", "b/c.so")
    build.write_tar(tmp_path / "one.tar", folder, "product", 1_000_000_000)
    (folder / "a.py").chmod(0o777)
    (folder / "a.py").touch()
    build.write_tar(tmp_path / "two.tar", folder, "product", 1_000_000_000)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as archive:
        modes = {member.name: oct(member.mode) for member in archive if member.isfile()}
    assert modes == {"product/a.py": "0o644", "product/b/c.so": "0o755"}


def test_the_date_is_the_callers_or_gits_or_fixed(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    assert build.source_date_epoch(ROOT) == 1234567890
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(build.BuildError, match="SOURCE_DATE_EPOCH is 'yesterday'"):
        build.source_date_epoch(ROOT)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert build.source_date_epoch(tmp_path) == build.FALLBACK_EPOCH


def test_the_version_is_the_projects(build: Any, tmp_path: Path) -> None:
    assert re.fullmatch(r"\d+\.\d+\S*", build.product_version(ROOT))
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(build.BuildError, match="pyproject.toml has no line"):
        build.product_version(tmp_path)


def test_an_error_is_told_with_its_hint(build: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--python", "python0.1", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "no interpreter python0.1" in said and "hint: " in said


def test_a_tree_that_is_not_the_product_is_refused(build: Any, bundle: Any, tmp_path: Path) -> None:
    interpreter = bundle.Interpreter.ask(sys.executable)
    with pytest.raises(build.BuildError, match="has no LICENSE"):
        build.stage_product(installed(tmp_path / "tree", "x"), interpreter, tmp_path / "stage")


def test_source_that_does_not_compile_is_refused(build: Any, bundle: Any, tmp_path: Path) -> None:
    tree = installed(tmp_path / "tree", "LICENSE", "packaging/x", "systemd/x", "ostreewatchd/ok.py")
    (tree / "ostreewatchd/ok.py").write_text("def broken(:\n")
    with pytest.raises(build.BuildError, match="the product does not compile") as error:
        build.stage_product(tree, bundle.Interpreter.ask(sys.executable), tmp_path / "stage")
    assert "ok.py" in str(error.value)
