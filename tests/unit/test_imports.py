# SPDX-License-Identifier: Apache-2.0
"""Two tables as tests: what each place of the package may import, and which heavy modules each of the three
programs may have loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.unit.sources import ROOT, Module, imports, modules

MAY_IMPORT: Mapping[str, frozenset[str]] = {
    "model": frozenset(),
    "parse": frozenset({"model"}),
    "platforms": frozenset({"model"}),
    "peers": frozenset({"parse", "model"}),
    "watch": frozenset({"peers", "model"}),
    "observe": frozenset({"peers", "parse", "platforms", "ledger", "model"}),
    "judge": frozenset({"model", "platforms"}),
    "plan": frozenset({"model", "platforms"}),
    "settle": frozenset({"model", "platforms"}),
    "act": frozenset({"peers", "ledger", "model"}),
    "report": frozenset({"model"}),
}
"""DESIGN §3's table, row by row. Each place may import itself, and each the version in `ostreewatchd`."""

ADDITIONS: Mapping[tuple[str, str], str] = {
    ("watch", "lean"): "asyncio without TLS",
    ("asking", "lean"): "asyncio without TLS",
    ("peers", "lean"): "asyncio without TLS",
    ("ledger", "model"): "it stores the model's types",
    ("settings", "parse"): "finds the files, and parse/settings.py reads their text",
    ("settings", "model"): "Settings is a type on the arrows: an input of the pure plan",
    ("replay", "model"): "a snapshot's file is its type, written down",
    ("replay", "judge"): "what is stale is cut last, and a diff tells which findings came and went",
    ("replay", "platforms"): "names that the tables know are nobody's and are kept where others are replaced",
    ("replay", "report"): "a diff is in the words that all else is told in",
    ("plan", "settle"): "a switch under way is a refusal; both are pure and in one row of the table",
}
"""What the package needs beyond DESIGN's table, and why."""

PROGRAMS: Mapping[str, str] = {
    "watcher": "watcher",
    "asking": "watcher",
    "telling": "watcher",
    "listening": "watcher",
    "dates": "watcher",
    "remediation": "remediation",
    "cli": "cli",
}
"""The places of the three programs, which may import what they need: see NEVER and LOADED for what they must not."""

NEVER: Mapping[str, frozenset[str]] = {
    "watcher": frozenset(
        {"act", "remediation", "observe.deep", "cli", "peers.cri", "peers.systemd", "peers.http", "plan"}
    ),
    "remediation": frozenset({"watcher", "asking", "telling", "listening", "cli", "watch"}),
    "cli": frozenset({"act", "watcher", "asking", "telling", "listening", "remediation", "watch", "peers.cri.acts"}),
}
"""Two privileges (DESIGN §4): the watcher cannot act, the person's command asks and does not act itself."""

HEAVY = (
    "grpc", "google.protobuf", "pystemd", "yaml", "kubernetes", "rich", "sqlite3", "asyncio", "ssl", "dbus_next",
    "prometheus_client", "http.client",
)  # fmt: skip

LOADED: Mapping[str, Mapping[str, str]] = {
    "watcher": {
        "sqlite3": "reads the ledger",
        "asyncio": "its event loop",
        "dbus_next": "listens on the system bus",
        "ssl": "asyncio imports it by itself; peers.http, which would use it, must not be loaded",
    },
    "remediation": {
        "grpc": "asks and stops over CRI",
        "google.protobuf": "CRI's messages",
        "yaml": "static pods' manifests, kubelet's kubeconfig",
        "sqlite3": "writes the ledger",
        "asyncio": "grpc imports it by itself (grpc.aio)",
        "dbus_next": "asks rpm-ostree",
        "ssl": "an API server's readyz",
        "http.client": "kubelet's healthz",
    },
    "cli": {"sqlite3": "reads the ledger"},
}
"""Heavy modules that may be there after a program's main module was imported, and what for. pystemd comes
when systemd is asked: it freezes its process while it does."""


def place(name: str) -> str:
    """`peers` for `ostreewatchd.peers.cri.client`; empty for the package itself."""
    return name.split(".")[1] if "." in name else ""


def may_import(module: Module, target: str) -> bool:
    source, goal = place(module.name), place(target)
    if not goal or source == goal or goal in MAY_IMPORT.get(source, ()):
        return True
    inside = target.removeprefix("ostreewatchd.")
    return any(
        place_name == source and (inside == allowed or inside.startswith(allowed + "."))
        for place_name, allowed in ADDITIONS
    )


def test_each_place_imports_what_the_design_allows() -> None:
    wrong = [
        f"{module.where}:{line} imports {target}"
        for module in modules()
        if place(module.name) not in PROGRAMS
        for line, target in imports(module)
        if target.split(".")[0] == "ostreewatchd" and not may_import(module, target)
    ]
    assert not wrong, "\n".join(wrong)


def test_each_place_is_in_a_table() -> None:
    known = set(MAY_IMPORT) | {source for source, _ in ADDITIONS} | set(PROGRAMS) | {"", "wanted", "lean"}
    assert {place(module.name) for module in modules()} <= known


def test_no_addition_is_unused() -> None:
    used = {
        (place(module.name), target.removeprefix("ostreewatchd."))
        for module in modules()
        for _, target in imports(module)
    }
    for source, allowed in ADDITIONS:
        assert any(one == source and (target + ".").startswith(allowed + ".") for one, target in used), (
            f"{source} no longer imports {allowed}: take it out of the table"
        )


def test_nothing_else_imports_a_program() -> None:
    wrong = [
        f"{module.where}:{line} imports {target}"
        for module in modules()
        for line, target in imports(module)
        if target.startswith("ostreewatchd.") and place(target) in PROGRAMS
        if PROGRAMS.get(place(module.name)) != PROGRAMS[place(target)]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("where", ["judge", "plan", "settle", "model", "parse", "replay"])
def test_pure_places_have_no_way_to_the_world(where: str) -> None:
    """No I/O, no clock, no environment: not even the modules for it."""
    world = {"os", "time", "socket", "subprocess", "pathlib", "ctypes", "datetime", "random", "uuid", "shutil"}
    wrong = [
        f"{module.where}:{line} imports {target}"
        for module in modules()
        if place(module.name) == where
        for line, target in imports(module)
        if target.split(".")[0] in world
    ]
    assert not wrong, "\n".join(wrong)


def loaded(program: str) -> set[str]:
    """Names in sys.modules of a fresh interpreter that has imported the program's main module."""
    code = f"import sys, ostreewatchd.{program}; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTHON"))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("program", sorted(set(PROGRAMS.values())))
def test_heavy_modules_of_a_program(program: str) -> None:
    names = loaded(program)
    assert {one for one in HEAVY if one in names} <= set(LOADED[program])
    inside = {name.removeprefix("ostreewatchd.") for name in names if name.startswith("ostreewatchd.")}
    assert not {one for one in inside for never in NEVER[program] if (one + ".").startswith(never + ".")}
