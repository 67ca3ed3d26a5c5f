# SPDX-License-Identifier: Apache-2.0
"""Makes random worlds one after the other, each in namespaces of its own, for somebody outside who thinks them up and
keeps nothing of the kernel's himself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ostreewatchd.judge import judge
from ostreewatchd.model import History, Settings, Snapshot
from ostreewatchd.observe import processes
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.look import look
from tests.host import clone
from tests.host.fakehost import mount
from tests.host.mountworld import IDS, World, build_tree
from tests.host.namespace import ROOT, cgroup_roots, remove_cgroups, token
from tests.host.worldoracle import claims, disagreements

LIMIT = 20.0
"""Seconds for one world."""


class Script(NamedTuple):
    """What happens to a world: how it is laid out, the operations, and what is asked: "oracle" after the last,
    "warm" after each."""

    layout: int
    steps: list[tuple[Any, ...]]
    ask: str = "oracle"


class Answer(NamedTuple):
    wrong: list[str]
    counts: dict[str, int]


class Worlds:
    """The other end, held by who thinks them up."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, script: Script) -> Answer:
        """Have a world made and gone through."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("it has no pipes")
        self._process.stdin.write(json.dumps(script) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the maker of worlds has ended: {self._process.wait()}")
        return Answer(*json.loads(line))


@contextlib.contextmanager
def worlds() -> Iterator[Worlds]:
    """One maker of worlds; all that it made is gone afterwards."""
    name = f"ostreewatchd-test-{os.getpid()}-{time.monotonic_ns()}"
    folder = tempfile.mkdtemp(prefix="ostreewatchd-worlds-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
    inner = f"from tests.host.worldserver import serve; serve({folder!r})"
    try:
        with subprocess.Popen(
            [*command, sys.executable, "-W", "error", "-c", inner],
            cwd=ROOT,
            env={**os.environ, "OSTREEWATCHD_TEST": json.dumps({"token": name, "arguments": {}})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                yield Worlds(process)
            finally:
                process.kill()
    finally:
        remove_cgroups(name)
        shutil.rmtree(folder, ignore_errors=True)


def serve(folder: str) -> None:
    """The maker: PID 1 of namespaces of its own, so that its end is the end of all."""
    _mount_disk(folder)
    cgroups = _make_cgroups()
    for number, line in enumerate(sys.stdin):
        script = Script(*json.loads(line))
        place = f"{folder}/{number}"
        os.mkdir(place)
        build_tree(place)
        reading, writing = os.pipe()
        child = clone.clone(clone.NEWPID | clone.NEWNS)
        if child == 0:
            os.close(reading)
            _be_world(place, cgroups, script, writing)
        os.close(writing)
        with os.fdopen(reading) as file:
            said = file.read()
        os.waitpid(child, 0)
        shutil.rmtree(place)
        sys.stdout.write((said or json.dumps([["it ended without a word"], {}])) + "\n")
        sys.stdout.flush()


def _mount_disk(folder: str) -> None:
    """A filesystem as a host's, which waits for no disk."""
    image = f"{folder}.image"
    with open(image, "wb") as file:
        file.truncate(256 << 20)
    make = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-N", "32768", image]
    subprocess.run(make, check=True, timeout=60)
    subprocess.run(["mount", "-o", "loop,noatime", image, folder], check=True, timeout=60)
    os.unlink(image)


def _make_cgroups() -> list[int]:
    """A cgroup for each slot. Only the unified hierarchy can be started into."""
    top = next(root for root in (*cgroup_roots(), Path("/sys/fs/cgroup/unified")) if (root / "cgroup.procs").exists()
               and (root / "cgroup.subtree_control").exists())  # fmt: skip
    found = []
    for id in IDS:
        place = top / token() / id
        place.mkdir(parents=True)
        found.append(os.open(place, os.O_PATH | os.O_DIRECTORY))
    return found


def _be_world(place: str, cgroups: list[int], script: Script, writing: int) -> None:
    counts: Counter[str] = Counter()
    try:
        signal.signal(signal.SIGALRM, _too_late)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        mount("none", "/", flags=0x4000 | 1 << 18)
        mount("proc", "/proc", "proc")
        world = World(place, script.layout, cgroups)
        wrong = _go_through(world, script, counts)
    except BaseException:  # noqa: BLE001 (the other end shows it)
        wrong = [traceback.format_exc()]
    os.write(writing, json.dumps([wrong[:20], counts]).encode()[: 1 << 16])
    os._exit(0)


def _too_late(*_: object) -> None:
    raise TimeoutError(f"no end within {LIMIT:g} s")


def _go_through(world: World, script: Script, counts: Counter[str]) -> list[str]:
    if script.ask == "warm":
        # All that is judged is remembered: in the seconds after its start a process is judged at each look.
        setattr(processes, "_BECOMES_WITHIN", 0.0)  # noqa: B010
    warm = ContainerLooker(remember=True)
    for number, (name, *arguments) in enumerate(script.steps):
        done = world.do(name, *arguments)
        counts[f"{name} {'done' if done else 'refused'}"] += 1
        if script.ask == "warm":
            wrong = _warm_differs(warm)
            if wrong:
                return [f"after step {number}, {name}{arguments}: {one}" for one in wrong]
    if script.ask == "warm":
        counts["pid used again"] += world.reused
        return []
    snapshot = look(Settings(), ContainerLooker(remember=False), History())
    return disagreements(world, claims(world, snapshot), snapshot, counts)


def _warm_differs(warm: ContainerLooker) -> list[str]:
    once = ContainerLooker(remember=False)
    kept, anew = look(Settings(), warm, History()), look(Settings(), once, History())
    return [f"with memory {here}, without {there}" for here, there in zip(_of(kept), _of(anew)) if here != there]


def _of(snapshot: Snapshot) -> tuple[object, ...]:
    """What must be equal; the clock's noise is not in it."""
    same = [msgspec.structs.replace(one, started_at=0.0) for one in snapshot.containers]
    return snapshot.container_count, same, snapshot.references, sorted(map(str, snapshot.problems)), judge(snapshot)
