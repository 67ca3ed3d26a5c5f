# SPDX-License-Identifier: Apache-2.0
"""Stages: what is made once, kept by the hash of all that it depends on, and made side by side."""

import hashlib
import inspect
import json
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Callable, Optional

from tests.lab import cache
from tests.lab.errors import CommandFailed, LabError, StageFailed
from tests.lab.progress import Display
from tests.lab.run import run, stop_all, tail


@dataclass(frozen=True)
class Build:
    """What a recipe is given: where to write, what it builds upon, and how to run programs."""

    out: Path
    inputs: Mapping[str, Path]
    log: Path

    def run(
        self, *argv: str, timeout: float, cwd: Optional[Path] = None, env: Optional[Mapping[str, str]] = None
    ) -> None:
        """Run a program; its output goes to the stage's log."""
        run(argv, timeout=timeout, cwd=cwd, env=env, log=self.log)


@dataclass(frozen=True)
class Stage:
    """One result. `material` is what it depends on besides its recipe's module and its inputs."""

    name: str
    recipe: Callable[[Build], None]
    inputs: tuple["Stage", ...] = ()
    material: tuple[str, ...] = ()
    estimate: float = 10.0
    hint: str = ""

    @cached_property
    def key(self) -> str:
        source = Path(inspect.getfile(self.recipe)).read_bytes()
        total = hashlib.sha256(source)
        for part in (self.name, *self.material, *(stage.key for stage in self.inputs)):
            total.update(b"\0" + part.encode())
        return f"{self.name}-{total.hexdigest()[:16]}"

    @property
    def path(self) -> Path:
        """Where the result is, or will be."""
        return cache.folder("stages") / self.key


def closure(goals: Sequence[Stage]) -> list[Stage]:
    """The goals and all that they depend on, inputs first."""
    ordered: dict[str, Stage] = {}

    def add(stage: Stage) -> None:
        for needed in stage.inputs:
            add(needed)
        ordered.setdefault(stage.key, stage)

    for goal in goals:
        add(goal)
    return list(ordered.values())


def make(goals: Sequence[Stage]) -> None:
    """Make what is missing; independent stages run side by side."""
    missing = [stage for stage in closure(goals) if not stage.path.exists()]
    if not missing:
        return
    stopping = threading.Event()
    futures: dict[str, Future[None]] = {}
    lines = [(stage.key, stage.name, _estimate(stage)) for stage in missing]
    with Display(lines) as display, ThreadPoolExecutor(max_workers=len(missing)) as pool:

        def work(stage: Stage) -> None:
            for needed in stage.inputs:
                if needed.key in futures:
                    futures[needed.key].result()
            _make(stage, display, stopping)

        for stage in missing:  # inputs come first, so each finds its inputs' futures
            futures[stage.key] = pool.submit(work, stage)
        try:
            for done in as_completed(futures.values()):
                done.result()
        except BaseException:
            stopping.set()
            # A failure, or a person who has had enough: nobody waits for the other stages.
            stop_all()
            raise


def _make(stage: Stage, display: Display, stopping: threading.Event) -> None:
    log = cache.folder("logs") / f"{stage.key}.log"
    with cache.locked(stage.key, waiting=lambda: display.says(stage.key, "another process makes it")):
        if stage.path.exists():
            display.done(stage.key)
            return
        unfinished = stage.path.with_name(f"{stage.key}.tmp")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        log.write_text("")
        display.starts(stage.key, log)
        begun = time.monotonic()
        try:
            stage.recipe(Build(unfinished, {needed.name: needed.path for needed in stage.inputs}, log))
        except (LabError, OSError) as error:
            display.failed(stage.key, "stopped" if stopping.is_set() else "failed")
            shutil.rmtree(unfinished, ignore_errors=True)
            reason = error.message if isinstance(error, LabError) else str(error)
            hint = stage.hint if isinstance(error, CommandFailed) else getattr(error, "hint", "")
            said = "\n".join(line for line in tail(log).splitlines() if not line.startswith("$ "))
            raise StageFailed(f"stage {stage.name}: {reason}\n{said}".rstrip(), hint, log) from error
        unfinished.rename(stage.path)
        _remember(stage, time.monotonic() - begun)
        display.done(stage.key)


def _estimate(stage: Stage) -> float:
    """How long it took here the last time."""
    known = _durations().get(stage.name)
    return known if known is not None else stage.estimate


def _durations() -> dict[str, float]:
    try:
        known = json.loads((cache.root() / "durations.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(name): float(value) for name, value in known.items()}


def _remember(stage: Stage, seconds: float) -> None:
    with cache.locked("durations"):
        known = _durations()
        known[stage.name] = round(seconds, 1)
        new = cache.root() / "durations.json.new"
        new.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        new.rename(cache.root() / "durations.json")
