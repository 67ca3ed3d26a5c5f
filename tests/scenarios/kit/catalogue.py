# SPDX-License-Identifier: Apache-2.0
"""All scenarios: the modules of tests/scenarios, read by their names."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ostreewatchd.model import Settings, Snapshot
from tests.scenarios.kit.expect import Expected
from tests.scenarios.kit.host import Layout, ScenarioHost
from tests.scenarios.kit.standins import answered

FOLDER = Path(__file__).resolve().parents[1]


class Scenario(NamedTuple):
    """One module. What it need not say has a default here."""

    name: str
    tells: str
    """Its docstring."""
    reported: tuple[str, ...]
    expect: Expected
    build: Callable[[ScenarioHost], None] | None
    """None: its Snapshot is written by hand."""
    layout: Layout
    settings: Settings
    stand_ins: Callable[[Snapshot], Snapshot]
    """What is added to the look: see standins.py."""
    by_hand: str
    """Why the Snapshot is written by hand."""

    @property
    def saved(self) -> Path:
        return FOLDER / f"{self.name}.json"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


@functools.cache
def scenario(name: str) -> Scenario:
    """The scenario of this name."""
    module = importlib.import_module(f"tests.scenarios.{name}")
    return Scenario(
        name=name,
        tells=module.__doc__ or "",
        reported=module.REPORTED,
        expect=module.EXPECT,
        build=getattr(module, "build", None),
        layout=getattr(module, "LAYOUT", Layout.CLASSIC),
        settings=getattr(module, "SETTINGS", Settings()),
        stand_ins=getattr(module, "stand_ins", answered),
        by_hand=getattr(module, "BY_HAND", ""),
    )


def scenarios() -> list[Scenario]:
    return [scenario(name) for name in names()]
