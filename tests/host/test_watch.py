# SPDX-License-Identifier: Apache-2.0
"""What wakes the watcher, on a real kernel: each change is noticed, a storm costs little, nothing spins."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ostreewatchd.watch.deployments import DeploymentWatch
from ostreewatchd.watch.mounts import FIRST_PAUSE, LONGEST_PAUSE, MountWatch
from ostreewatchd.watch.traces import TraceWatch
from tests.host.fakehost import bind, mount, umount
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root


class Hints:
    """Counts what a watch says, with the times."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self) -> None:
        self.at.append(time.monotonic())

    async def soon(self, count: int, within: float = 2.0) -> None:
        until = time.monotonic() + within
        while len(self.at) < count:
            assert time.monotonic() < until, f"{len(self.at)} hints, not {count}"
            await asyncio.sleep(0.005)


def watching(body: Callable[[Hints], object]) -> Hints:
    """Run the coroutine function `body` with a MountWatch."""

    async def main() -> Hints:
        hints = Hints()
        watch = MountWatch(asyncio.get_running_loop(), hints)
        try:
            await asyncio.sleep(0.2)
            hints.at.clear()
            await body(hints)  # type: ignore[misc]
        finally:
            watch.close()
        return hints

    return asyncio.run(main())


@in_namespaces
def test_each_kind_of_change_wakes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    target = str(tmp_path / "b")
    changes: list[Callable[[], None]] = [
        lambda: bind(str(tmp_path / "a"), target),
        lambda: mount("none", target, flags=0x1000 | 0x20 | 0x1),
        lambda: mount("tmpfs", target, "tmpfs"),
        lambda: umount(target),
        lambda: umount(target),
    ]

    async def body(hints: Hints) -> None:
        for number, change in enumerate(changes, start=1):
            before = time.monotonic()
            change()
            await hints.soon(number)
            assert hints.at[-1] - before < 0.1, "at once"
            await asyncio.sleep(0.2)
            assert len(hints.at) == number, "once"

    watching(body)


@in_namespaces
def test_the_four_binds_of_a_patch_are_few_hints_and_the_last_one_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    async def body(hints: Hints) -> None:
        last = 0.0
        for _ in range(4):
            last = time.monotonic()
            bind(str(tmp_path), str(tmp_path / "a"))
            await asyncio.sleep(0.04)
        await asyncio.sleep(LONGEST_PAUSE * 2)
        assert 2 <= len(hints.at) <= 4
        assert hints.at[-1] >= last, "what came while it did not listen is told afterwards"

    watching(body)


@in_namespaces
def test_no_moment_of_the_pause_swallows_a_mount(tmp_path: Path) -> None:
    """To put a descriptor into epoll polls it, and that consumes the event (seen with one descriptor alone)."""
    (tmp_path / "a").mkdir()

    async def body(hints: Hints) -> None:
        for milliseconds in range(0, 50, 5):
            bind(str(tmp_path), str(tmp_path / "a"))
            await asyncio.sleep(milliseconds / 1000)
            last = time.monotonic()
            umount(str(tmp_path / "a"))
            await asyncio.sleep(LONGEST_PAUSE + 0.2)
            assert hints.at[-1] >= last, f"lost: {milliseconds} ms after the first"

    watching(body)


@in_namespaces
def test_a_storm_is_coalesced_and_survived(tmp_path: Path) -> None:
    """DESIGN §9: 1,000 mounts/s; the longer it lasts the fewer wake-ups, and the descriptor works afterwards."""
    (tmp_path / "a").mkdir()
    target = str(tmp_path / "a")

    async def body(hints: Hints) -> None:
        started = time.monotonic()
        spent = 0.0
        while time.monotonic() - started < 2.5:
            for _ in range(10):
                bind(str(tmp_path), target)
                umount(target)
            before = time.process_time()
            await asyncio.sleep(0.02)
            spent += time.process_time() - before
        await asyncio.sleep(LONGEST_PAUSE * 2)
        lasted = time.monotonic() - started
        assert 2 <= len(hints.at) <= 14, ("a pause that grows", len(hints.at), lasted)
        gaps = [after - before for before, after in zip(hints.at, hints.at[1:])]
        assert min(gaps) > FIRST_PAUSE * 0.8
        assert spent < 0.1, spent
        hints.at.clear()
        before = time.monotonic()
        bind(str(tmp_path), target)
        await hints.soon(1)
        assert hints.at[0] - before < 0.1, "at once again"

    watching(body)


@in_namespaces
def test_it_does_not_spin(tmp_path: Path) -> None:
    """The kernel's trap: a level-triggered reader of mountinfo is always ready."""
    (tmp_path / "a").mkdir()

    async def body(hints: Hints) -> None:
        bind(str(tmp_path), str(tmp_path / "a"))
        await hints.soon(1)
        await asyncio.sleep(0.2)
        before = time.process_time()
        await asyncio.sleep(1.5)
        assert time.process_time() - before < 0.03
        assert len(hints.at) == 1

    watching(body)


@in_namespaces
def test_writing_below_a_mount_wakes_nobody(tmp_path: Path) -> None:
    async def body(hints: Hints) -> None:
        for number in range(20):
            (tmp_path / str(number)).write_text("x")
        await asyncio.sleep(0.2)
        assert not hints.at

    watching(body)


@in_namespaces
def test_closed_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    async def main() -> None:
        before = len(os.listdir("/proc/self/fd"))
        hints = Hints()
        for _ in range(50):
            watch = MountWatch(asyncio.get_running_loop(), hints)
            watch.close()
        watch = MountWatch(asyncio.get_running_loop(), hints)
        bind(str(tmp_path), str(tmp_path / "a"))
        await hints.soon(1)
        watch.close()  # Between a wake-up and listening again.
        hints.at.clear()
        umount(str(tmp_path / "a"))
        await asyncio.sleep(0.2)
        assert not hints.at and len(os.listdir("/proc/self/fd")) == before

    asyncio.run(main())


# --- deployments --------------------------------------------------------------------------------------------------


def deployments(path: Path, body: Callable[[Hints], object]) -> None:
    async def main() -> None:
        hints = Hints()
        watch = DeploymentWatch(asyncio.get_running_loop(), hints, str(path))
        try:
            await body(hints)  # type: ignore[misc]
        finally:
            watch.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.utime(path),  # what libostree does after each deployment
        lambda path: (path / "debian").mkdir(),
        lambda path: (path / "there").rmdir(),
        lambda path: path.chmod(0o700),
    ],
)
def test_libostree_touches_the_directory(tmp_path: Path, change: Callable[[Path], object]) -> None:
    (tmp_path / "deploy/there").mkdir(parents=True)

    async def body(hints: Hints) -> None:
        await asyncio.sleep(0.05)
        assert not hints.at
        change(tmp_path / "deploy")
        await hints.soon(1)

    deployments(tmp_path / "deploy", body)


def test_a_thousand_touches_do_not_block(tmp_path: Path) -> None:
    async def body(hints: Hints) -> None:
        for _ in range(1000):
            os.utime(tmp_path)
        await hints.soon(1)
        await asyncio.sleep(0.1)
        count, before = len(hints.at), time.process_time()
        await asyncio.sleep(0.5)
        assert len(hints.at) == count and time.process_time() - before < 0.03, "it does not spin"
        os.utime(tmp_path)
        await hints.soon(count + 1)

    deployments(tmp_path, body)


def test_what_happens_below_is_not_watched(tmp_path: Path) -> None:
    """Invariant 3: nothing is held below a deployment."""
    deep = tmp_path / "debian/deploy"
    deep.mkdir(parents=True)

    async def body(hints: Hints) -> None:
        (deep / "x").mkdir()
        os.utime(deep)
        await asyncio.sleep(0.1)
        assert not hints.at

    deployments(tmp_path, body)


def test_no_ostree_here(tmp_path: Path) -> None:
    async def main() -> None:
        before = len(os.listdir("/proc/self/fd"))
        for path in (tmp_path / "none", tmp_path / "file"):
            (tmp_path / "file").touch()
            with pytest.raises(OSError):
                DeploymentWatch(asyncio.get_running_loop(), lambda: None, str(path))
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(main())


def traces(folder: Path, body: Callable[[Hints], object]) -> None:
    async def main() -> None:
        hints = Hints()
        watch = TraceWatch(asyncio.get_running_loop(), hints, str(folder))
        try:
            await body(hints)  # type: ignore[misc]
        finally:
            watch.close()

    asyncio.run(main())


def rename_into(folder: Path, name: str, text: str = "") -> None:
    """As libostree and rpm-ostree write a file."""
    (folder / ".new").write_text(text)
    (folder / ".new").rename(folder / name)


def test_a_live_apply_leaves_traces_in_the_order_of_its_steps(tmp_path: Path) -> None:
    """On a host where there was none before: each directory is made just then. rpm-ostree live.rs."""
    heads, run = tmp_path / "ostree/repo/refs/heads", tmp_path / "run/ostree"
    heads.mkdir(parents=True)
    run.mkdir(parents=True)
    state, refs = run / "deployment-state/aa.0", heads / "rpmostree"
    steps: list[Callable[[], object]] = [
        lambda: state.mkdir(parents=True),
        lambda: (state / "unlocked-transient").touch(),
        lambda: refs.mkdir(),
        lambda: rename_into(refs, "live-apply-inprogress", "b" * 64),
        lambda: rename_into(state, "rpmostree-is-live.stamp"),
        lambda: rename_into(refs, "live-apply", "b" * 64),
        lambda: (refs / "live-apply-inprogress").unlink(),
        lambda: rename_into(run, "staged-deployment"),
    ]

    async def body(hints: Hints) -> None:
        for step in steps:
            count = len(hints.at)
            step()
            await hints.soon(count + 1)
            await asyncio.sleep(0.05)

    traces(tmp_path, body)


def test_directories_that_come_and_go_are_watched_again(tmp_path: Path) -> None:
    refs = tmp_path / "ostree/repo/refs/heads/rpmostree"

    async def body(hints: Hints) -> None:
        assert not hints.at, "nothing is there yet, which is no fault"

    traces(tmp_path, body)
    refs.mkdir(parents=True)

    async def again(hints: Hints) -> None:
        for _ in range(3):
            refs.rmdir()
            await hints.soon(1)
            refs.mkdir()
            await asyncio.sleep(0.1)
            hints.at.clear()
            rename_into(refs, "live-apply", "b" * 64)
            await hints.soon(1)
            (refs / "live-apply").unlink()
            await asyncio.sleep(0.1)
        count = len(hints.at)
        before = time.process_time()
        await asyncio.sleep(0.3)
        assert len(hints.at) == count and time.process_time() - before < 0.05, "it does not spin"

    traces(tmp_path, again)


def test_at_most_so_many_directories_are_watched(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"run/ostree/deployment-state/{number:03}.0").mkdir(parents=True)

    async def body(hints: Hints) -> None:
        (tmp_path / "run/ostree/deployment-state/099.0/x").touch()
        await asyncio.sleep(0.1)
        assert not hints.at
        (tmp_path / "run/ostree/deployment-state/000.0/x").touch()
        await hints.soon(1)

    traces(tmp_path, body)
