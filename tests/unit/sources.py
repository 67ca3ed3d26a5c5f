# SPDX-License-Identifier: Apache-2.0
"""The product's own source files, as tests of its structure read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ostreewatchd"


class Module(NamedTuple):
    """One module of the package."""

    name: str
    """Dotted, a package without its `__init__`."""
    path: Path
    text: str
    tree: ast.Module

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def is_generated(self) -> bool:
        return self.path.stem.endswith("_pb2")


@cache
def modules() -> tuple[Module, ...]:
    """All modules of the package."""
    return tuple(_module(path) for path in sorted(PACKAGE.rglob("*.py")))


def _module(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(ROOT).with_suffix("").parts
    return Module(".".join(parts).removesuffix(".__init__"), path, text, ast.parse(text, str(path)))


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """`(line, dotted name)` of everything that the module imports anywhere in its text. For `from a import b`
    both count: b may be a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in _names() else base


def _base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    if module.path.name != "__init__.py":
        parts = parts[:-1]
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, node.module] if node.module else parts)


@cache
def _names() -> frozenset[str]:
    return frozenset(module.name for module in modules())


@cache
def committed() -> tuple[Path, ...]:
    """All files that git tracks; nothing outside a clone."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    paths = [ROOT / name for name in listed.stdout.decode("utf-8", "surrogateescape").split("\0") if name]
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())
