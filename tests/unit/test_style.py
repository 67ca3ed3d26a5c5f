# SPDX-License-Identifier: Apache-2.0
"""How the sources look: the linters, and what no linter checks."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ostreewatchd.report.journal import Kind
from tests.unit.sources import ROOT, committed, modules

_MAX_LINES = 450

_MACHINE_PATHS = re.compile(
    rb"(?<![\w.~/])(?:/work/(?:main|shared)|/home/[a-z]|/root/\.(?:pyenv|cache|local|ssh)|/Users/|/var/tmp/scratch)"
)
_REGISTRIES = re.compile(
    rb"https?://[^\s\"'>]*(?:pypi|simple/|/apt/|debian\.org|ubuntu\.com|goproxy|proxy\.golang|artifactory|nexus)"
)
# Where a path is an example or a pattern, and nobody's machine.
_MACHINE_PATHS_ARE_MEANT = {"tests/unit/test_style.py"}


def tool(arguments: Sequence[str]) -> None:
    """Run a tool of this interpreter's environment on the working tree; its output is the failure."""
    if importlib.util.find_spec(arguments[0]) is None:
        pytest.skip(f"{arguments[0]} is not installed here: `make check` brings it")
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "MYPYPATH")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_ruff_check() -> None:
    tool(["ruff", "check", "--no-cache", "--output-format=concise", "."])


def test_ruff_format() -> None:
    tool(["ruff", "format", "--no-cache", "--check", "."])


def test_mypy() -> None:
    tool(["mypy", "--strict", "--no-error-summary", f"--python-version={_checked_version()}"])


def _checked_version() -> str:
    """The oldest version that the product runs on, or the oldest that this mypy still checks for."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    major = re.search(r"mypy (\d+)", done.stdout)
    return "3.9" if major and int(major.group(1)) < 2 else "3.10"


def _text_files() -> Iterator[tuple[str, bytes]]:
    if not committed():
        pytest.skip("no clone: nothing says which files are committed")
    for path in committed():
        data = path.read_bytes()
        if b"\0" not in data:
            yield str(path.relative_to(ROOT)), data


def test_each_file_has_its_licence() -> None:
    # The licence itself, formats without comments, and files of the lab's image that programs read as they are.
    without = re.compile(r"LICENSE|\.gitignore|.*\.(sum|json|conflist)|tests/lab/files/.*(?<!\.py)|(.*/)?\.keep")
    missing = [
        name
        for name, data in _text_files()
        if not without.fullmatch(name)
        and b"SPDX-License-Identifier: Apache-2.0" not in b"".join(data.split(b"\n")[:6])
    ]
    assert not missing, missing


def test_each_module_starts_with_a_docstring() -> None:
    missing = [one.where for one in modules() if not one.is_generated and not ast.get_docstring(one.tree)]
    for path in committed():
        if path.suffix == ".py" and "tests" in path.parts and not ast.get_docstring(ast.parse(path.read_text())):
            missing.append(str(path))
    assert not missing, missing


def test_no_module_is_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in committed()
        if path.suffix == ".py" and not path.stem.endswith("_pb2")
        for lines in (len(path.read_bytes().splitlines()),)
        if lines > _MAX_LINES
    }
    assert not long, long


def test_no_name_of_a_machine_is_committed() -> None:
    wrong = []
    for name, data in _text_files():
        if name in _MACHINE_PATHS_ARE_MEANT:
            continue
        for pattern in (_MACHINE_PATHS, _REGISTRIES, *_registries_of_this_machine()):
            wrong += [f"{name}: {match.group().decode('utf-8', 'replace')}" for match in pattern.finditer(data)]
    assert not wrong, "\n".join(wrong)


def _registries_of_this_machine() -> list[re.Pattern[bytes]]:
    """The hosts that this machine's package tools are set to ask: they must not get into a committed file."""
    known = {"localhost", "127.0.0.1", "pypi.org", "files.pythonhosted.org", "deb.debian.org", "proxy.golang.org"}
    found = set()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "GOPROXY"):
        for url in re.split(r"[\s,|]+", os.environ.get(name, "")):
            found.add(urlsplit(url).hostname or "")
    for path in (Path("/etc/pip.conf"), Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found |= {urlsplit(url).hostname or "" for url in re.findall(r"https?://\S+", text)}
    return [re.compile(re.escape(host.encode())) for host in sorted(found - known) if "." in host]


def test_no_error_is_swallowed_whole() -> None:
    """`except Exception: pass` and its kin."""
    wrong = []
    for one in modules():
        for node in ast.walk(one.tree):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not (_raises(node) or _tells(node)):
                wrong.append(f"{one.where}:{node.lineno}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "suppress":
                wrong += [f"{one.where}:{node.lineno}" for name in node.args if _is_broad(name)]
    assert not wrong, wrong


def _is_broad(kind: object) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_is_broad(one) for one in kind.elts)
    return kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))


def _raises(node: ast.ExceptHandler) -> bool:
    return any(isinstance(one, ast.Raise) for one in ast.walk(node))


def _tells(node: ast.ExceptHandler) -> bool:
    """A program's last resort: the fault is put into words (report.journal.last_words)."""
    return any(isinstance(one, ast.Name) and one.id == "last_words" for one in ast.walk(node))


_FORKS = "ostreewatchd/peers/aside.py"
"""Its child must not return into its parent's program."""


def test_nothing_but_a_launcher_ends_the_interpreter() -> None:
    wrong = [
        f"{one.where}:{node.lineno}"
        for one in modules()
        if not one.where.endswith("/__main__.py") and one.where != _FORKS
        for node in ast.walk(one.tree)
        if (isinstance(node, ast.Attribute) and node.attr in ("exit", "_exit") and _name(node.value) in ("sys", "os"))
        or (isinstance(node, ast.Name) and node.id in ("exit", "quit", "SystemExit"))
    ]
    assert not wrong, wrong


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def test_messages_and_catalog_are_one() -> None:
    """Each MESSAGE_ID is there once, is a 128-bit id, and has an entry in the catalog; no entry is left over."""
    ids = [kind.message_id for kind in Kind]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
    text = (ROOT / "packaging/journal/ostreewatchd.catalog").read_text(encoding="utf-8")
    entries = re.findall(r"^-- ([0-9a-f]{32})$", text, re.MULTILINE)
    assert sorted(entries) == sorted(ids)
    for entry in re.split(r"^-- [0-9a-f]{32}$", text, flags=re.MULTILINE)[1:]:
        head, _, body = entry.strip().partition("\n\n")
        assert re.match(r"Subject: .+\nDefined-By: ostreewatchd$", head) and body.strip()


def test_priorities_are_syslog_levels() -> None:
    assert all(2 <= kind.priority <= 6 for kind in Kind)
    assert Kind.NOT_CURED.priority == min(kind.priority for kind in Kind)


def test_what_is_named_by_number_is_in_the_design() -> None:
    """`DESIGN §7`, `invariant 4`: a reader finds them in docs/design.md."""
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## (\d+)\. ", design, re.MULTILINE))
    invariants = set(re.findall(r"^(\d+)\. \*\*", design, re.MULTILINE))
    assert len(sections) >= 8 and len(invariants) == 12
    for path in (path for path in committed() if path.suffix == ".py"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"DESIGN §(\d+)", text)) <= sections, path
        assert set(re.findall(r"[Ii]nvariants? (\d+)", text)) <= invariants, path
