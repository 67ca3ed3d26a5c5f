# SPDX-License-Identifier: Apache-2.0
"""Resolving inside a root: nothing leads out of it, whatever links, dots and renames there are; and what is found is
the mount that is really there."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostreewatchd.peers.paths import Root, What
from tests.host.fakehost import bind, mount, umount
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root

_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


def exchange(one: str, other: str) -> None:
    """Swap two names at once (renameat2)."""
    if _libc.renameat2(-100, one.encode(), -100, other.encode(), _RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    """`inside` is the root; `outside` is beside it and must never be seen."""
    for where in ("inside", "outside"):
        (tmp_path / where / "a/b/c").mkdir(parents=True)
        (tmp_path / where / "file").write_text(where)
        (tmp_path / where / "a/b/file").write_text(where)
    with Root(str(tmp_path / "inside")) as one:
        yield one


def is_inside(tmp_path: Path, what: What, path: str) -> bool:
    seen = os.stat(tmp_path / "inside" / path, follow_symlinks=False)
    return (what.identity.dev, what.identity.ino) == (seen.st_dev, seen.st_ino)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", ""), ("/a/b", "a/b"), ("//a///b/./c/", "a/b/c"), ("/..", ""), ("/../../../../a", "a"),
        ("/a/../a/b/../../file", "file"), ("/a/b/c/../../../../../../file", "file"), ("a", "a"),
    ],
)  # fmt: skip
def test_dots_end_at_the_root(root: Root, tmp_path: Path, path: str, expected: str) -> None:
    assert is_inside(tmp_path, root.what(path), expected)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/file", "file"), ("/a/b/file", "a/b/file"), ("../outside/file", None), ("../../file", "file"),
        ("/../../../file", "file"), ("a/b", "a/b"), ("a/../file", "file"), ("/", ""), (".", ""), ("/nowhere", None),
        ("../" * 60 + "a/b", "a/b"),
    ],
)  # fmt: skip
def test_links_are_walked_inside_the_root(root: Root, tmp_path: Path, target: str, expected: str | None) -> None:
    os.symlink(target, tmp_path / "inside/link")
    if expected is None:
        with pytest.raises(FileNotFoundError):
            root.what("/link")
        assert not root.exists("/link")
    else:
        assert is_inside(tmp_path, root.what("/link"), expected)
    with pytest.raises(OSError) as error:
        root.what("/link", links=False)
    assert error.value.errno == errno.ELOOP
    assert root.readlink("/link") == target


def test_a_link_in_the_middle(root: Root, tmp_path: Path) -> None:
    os.symlink("/a", tmp_path / "inside/a/b/up")
    os.symlink("up", tmp_path / "inside/a/b/twice")
    assert is_inside(tmp_path, root.what("/a/b/twice/b/up/b/file"), "a/b/file")
    assert root.read("/a/b/up/b/file", 100) == b"inside"
    assert root.names("/a/b/up/b") == ["c", "file", "twice", "up"]
    with pytest.raises(OSError, match="symbolic links"):
        root.what("/a/b/up/b/file", links=False)


def test_links_without_end(root: Root, tmp_path: Path) -> None:
    """Invariant 8."""
    os.symlink("loop", tmp_path / "inside/loop")
    os.symlink("ping/x", tmp_path / "inside/pong")
    os.symlink("pong/x", tmp_path / "inside/ping")
    for number in range(60):
        os.symlink(f"chain{number + 1}", tmp_path / f"inside/chain{number}")
    for path in ("/loop", "/ping", "/chain0", "/loop/x"):
        with pytest.raises(OSError) as error:
            root.what(path)
        assert error.value.errno == errno.ELOOP
    with pytest.raises(OSError) as error:
        root.what("/a/.." * 3000)
    assert error.value.errno == errno.ENAMETOOLONG
    with pytest.raises(OSError):
        root.what("/" + "x" * 300)


def test_magic_links_lead_nowhere(root: Root, tmp_path: Path) -> None:
    """A link of /proc reads as text that is then looked up inside, and is never jumped through."""
    with Root("/") as host:
        assert host.what("/proc/self/root/etc").is_directory
    os.symlink(f"/proc/{os.getpid()}/root/etc/passwd", tmp_path / "inside/magic")
    with pytest.raises(FileNotFoundError):
        root.what("/magic")


RACES: list[tuple[str, Callable[[Path], None]]] = [
    ("a directory and a link out of it", lambda base: os.symlink("../../outside/a", base / "inside/swap")),
    ("a directory and an absolute link", lambda base: os.symlink(str(base / "outside/a"), base / "inside/swap")),
    ("a directory that is moved out", lambda base: os.rename(base / "outside/a", base / "moved")),
]


@pytest.mark.parametrize(("name", "prepare"), RACES, ids=[name for name, _ in RACES])
def test_renames_on_the_way(root: Root, tmp_path: Path, name: str, prepare: Callable[[Path], None]) -> None:
    """Two seconds of swapping while it walks: what it finds is inside, or nothing."""
    prepare(tmp_path)
    swap = tmp_path / "inside/swap" if (tmp_path / "inside/swap").is_symlink() else tmp_path / "moved"
    secret = {os.stat(path).st_ino for path in (tmp_path / "outside").rglob("*")} | {
        os.stat(tmp_path / "outside/file").st_ino
    }
    deep = "/a/b/c/../../../a/b/../../file"
    stop = threading.Event()

    def swapping() -> None:
        while not stop.is_set():
            exchange(str(tmp_path / "inside/a"), str(swap))

    swapper = threading.Thread(target=swapping)
    swapper.start()
    found = missed = 0
    try:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            for path in ("/a/b/../../file", deep, "/a/../../outside/file", "/a/b/../../../outside/file"):
                try:
                    what = root.what(path)
                except OSError:
                    missed += 1
                    continue
                found += 1
                assert what.identity.ino not in secret, path
    finally:
        stop.set()
        swapper.join()
    assert found and missed, "the test's own premise"


def test_what_it_is(root: Root, tmp_path: Path) -> None:
    before = time.time()
    (tmp_path / "inside/new").mkdir()
    os.link(tmp_path / "inside/file", tmp_path / "inside/twin")
    what = root.what("/new")
    assert what.is_directory and what.links == 2
    assert what.born_at is None or abs(what.born_at - before) < 5
    assert not root.what("/file").is_directory and root.what("/file").links == 2
    assert abs(root.modified_at("/new") - before) < 5
    with pytest.raises(NotADirectoryError):
        root.what("/file/x")
    assert not root.exists("/file/x") and root.exists("/new")


def test_reading_is_bounded_and_never_waits(root: Root, tmp_path: Path) -> None:
    """Invariant 8: a fifo in the place of a file."""
    (tmp_path / "inside/long").write_bytes(b"x" * 5000)
    assert len(root.read("/long", 100)) == 101
    os.mkfifo(tmp_path / "inside/fifo")
    started = time.monotonic()
    with contextlib.suppress(OSError):
        assert root.read("/fifo", 100) == b""
    assert time.monotonic() - started < 20
    for number in range(5000):
        (tmp_path / f"inside/a/b/c/{number}").touch()
    assert len(root.names("/a/b/c")) <= 4096
    with pytest.raises(NotADirectoryError):
        root.names("/file")


def test_no_descriptor_is_left(root: Root, tmp_path: Path) -> None:
    os.symlink("loop", tmp_path / "inside/loop")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/a/b/c", "/nowhere/x", "/loop", "/file/x", "/a/../../..", "/a/b/file"):
        for act in (root.what, root.names, root.exists, root.readlink, lambda one: root.read(one, 9)):
            try:
                act(path)
            except OSError:
                continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_looking_changes_no_access_time(root: Root, tmp_path: Path) -> None:
    """Invariant 3."""
    path = tmp_path / "inside/a/b"
    os.utime(path, (1, 1))
    root.what("/a/b/file")
    assert os.stat(path).st_atime == 1


@in_namespaces
def test_mounts(tmp_path: Path) -> None:
    """What is on top; its id is mountinfo's; unique ids grow with each mount and are never used again."""
    for name in ("one", "two", "base/dir"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "one/mark").write_text("1")
    target = str(tmp_path / "base/dir")
    with Root(str(tmp_path / "base")) as root:
        plain = root.what("/dir")
        seen = [plain]
        for source in ("one", "two", "one"):
            bind(str(tmp_path / source), target)
            what = root.what("/dir")
            assert what.identity.ino == os.stat(tmp_path / source).st_ino
            assert what.mount_id is not None
            (line,) = [
                one
                for one in Path("/proc/self/mountinfo").read_text().splitlines()
                if one.startswith(f"{what.mount_id} ")
            ]
            assert line.split(" ")[4] == target
            seen.append(what)
        serials = [one.serial for one in seen]
        if None not in serials:
            assert serials == sorted(set(serials)), serials  # type: ignore[type-var]
            umount(target)
            umount(target)
            bind(str(tmp_path / "two"), target)
            again = root.what("/dir")
            assert again.serial is not None and again.serial > max(one for one in serials if one is not None)
        for _ in range(3):
            try:
                umount(target)
            except OSError:
                break
        assert root.what("/dir").identity == plain.identity
        mount("tmpfs", target, "tmpfs")
        assert root.what("/dir").identity.dev != plain.identity.dev and root.names("/dir") == []


@in_namespaces
def test_a_root_is_the_processes_own(tmp_path: Path) -> None:
    """/proc/<pid>/root: what is mounted there after the root was opened is seen too."""
    for name in ("jail/data", "late"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "late/mark").touch()
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.chroot(tmp_path / "jail")
        os.write(tell, b"x")
        os.read(ready, 0)
        while True:
            time.sleep(60)
    os.read(ready, 1)
    with Root(f"/proc/{pid}/root") as root:
        assert root.names("/") == ["data"]
        assert root.what("/../..").identity == root.what("/").identity
        bind(str(tmp_path / "late"), str(tmp_path / "jail/data"))
        assert root.names("/data") == ["mark"]
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        assert root.names("/data") == ["mark"]
