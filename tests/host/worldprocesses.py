# SPDX-License-Identifier: Apache-2.0
"""The processes of a random world: they make their own mounts as a runtime does, and then do and say what they are
told, from inside their own root."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.host import clone
from tests.host.clone import Seen
from tests.host.fakehost import bind, mount, umount, unshare_mounts

_REC, _PRIVATE, _SLAVE = 0x4000, 1 << 18, 1 << 19
OWN = "/own"
"""Where a container binds something that it has already."""
_READ_ONLY = 0x1000 | 0x20 | 0x1


class Given(NamedTuple):
    """A bind that a container was given."""

    source: str
    target: str
    propagated: bool
    writable: bool


class Process(NamedTuple):
    """A process that answers commands on a pair of pipes."""

    pid: int
    child: int
    """PID 1's own: the process itself, or its parent."""
    ask: int
    answer: int

    def tell(self, name: str, argument: Any) -> Any:
        """Have it do something; what it says."""
        os.write(self.ask, json.dumps([name, argument]).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            chunk = os.read(self.answer, 1 << 16)
            if not chunk:
                raise RuntimeError(f"{name}: process {self.pid} has ended: {data!r}")
            data += chunk
        return json.loads(data)

    def see(self, paths: Sequence[str]) -> list[Seen | None]:
        """What each path is in its root."""
        return [Seen(*one) if one else None for one in self.tell("identities", paths)]

    def end(self) -> None:
        """Kill it and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.ask)
        while os.read(self.answer, 1 << 16):
            pass  # Its end closes the pipe.
        os.close(self.answer)
        if self.child != self.pid:
            os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def start(
    body: Callable[[], None],
    flags: int = 0,
    *,
    cgroup: int | None = None,
    apart: int = 0,
    pid: int | None = None,
) -> Process:
    """A process that does `body` and then answers commands. `apart`: its parent is another process, in a mount
    namespace of its own, which follows the host's mounts (1) or does not (2)."""
    (asked, ask), (answer, answered) = os.pipe(), os.pipe()
    child = clone.clone(0 if apart else flags, cgroup=None if apart else cgroup, pid=None if apart else pid)
    if child == 0:
        try:
            os.close(ask)
            os.close(answer)
            if apart:
                unshare_mounts()
                mount("none", "/", flags=_REC | (_SLAVE if apart == 1 else _PRIVATE))
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                if clone.clone(flags, cgroup=cgroup, pid=pid) != 0:
                    os.close(answered)
                    _sleep()
            body()
            os.write(answered, f"{os.getpid()}\n".encode())
            _serve(asked, answered)
        except OSError as error:
            os.write(answered, f"{error.errno} {os.getpid()} {error}\n".encode())
        except BaseException:  # noqa: BLE001 (the parent shows it)
            os.write(answered, (json.dumps(traceback.format_exc()) + "\n").encode())
        finally:
            os._exit(1)
    os.close(asked)
    os.close(answered)
    said = b""
    while not said.endswith(b"\n"):
        chunk = os.read(answer, 1 << 16)
        said += chunk or b'"a process ended before it was ready"\n'
    text = said.decode().strip()
    if text.isdecimal():
        return Process(int(text), child, ask, answer)
    number, _, rest = text.partition(" ")
    if number.isdecimal():
        own, _, reason = rest.partition(" ")
        _await_end(child, int(own))
        raise OSError(int(number), reason)
    raise RuntimeError(json.loads(text))


def _await_end(child: int, own: int) -> None:
    """Of what failed to start, and of what stands between: one that is still ending is seen by one look and not by the
    next."""
    os.kill(child, signal.SIGKILL)
    for pid in dict.fromkeys((child, own)):  # The second is an orphan by then, and PID 1's.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _sleep() -> None:
    while True:
        signal.pause()


def be_container(slot: int, binds: Sequence[Given]) -> None:
    """As runc does it: a root of its own, the binds in it, each with its propagation."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    mount("none", "/", flags=_REC | _SLAVE)
    root = f"/tmp/{slot}"
    os.makedirs(root, exist_ok=True)
    mount("tmpfs", root, "tmpfs", data="size=1m")
    mount("none", root, flags=_PRIVATE)
    for one in binds:
        at = root + one.target
        if os.path.isdir(one.source):
            os.makedirs(at, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(at), exist_ok=True)
            Path(at).touch()
        bind(one.source, at, recursive=True)
        mount("none", at, flags=_REC | (_SLAVE if one.propagated else _PRIVATE))
        if not one.writable:
            mount("none", at, flags=_READ_ONLY)
    os.mkdir(root + OWN)
    clone.pivot(root)


def _serve(asked: int, answered: int) -> None:
    """Does what it is told, until nobody is there to tell."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    data = b""
    while True:
        chunk = os.read(asked, 1 << 16)
        if not chunk:
            return
        data += chunk
        if not data.endswith(b"\n"):
            continue
        name, argument = json.loads(data)
        data = b""
        said: Any = True
        try:
            if name == "identities":
                said = clone.identities(argument, root)
            elif name in ("unshare", "chroot"):
                if name == "chroot":
                    os.chroot(argument)
                else:
                    unshare_mounts()
                os.close(root)
                root = os.open("/", os.O_PATH | os.O_CLOEXEC)
            else:
                _INSIDE[name](argument, (asked, answered, root))
        except OSError:
            said = False
        os.write(answered, json.dumps(said).encode() + b"\n")


def _helper(fds: Sequence[int], body: Callable[[], None]) -> None:
    """A second process of the container, in its cgroup and namespaces."""
    ready, tell = os.pipe()
    if clone.clone() == 0:
        try:
            for fd in (*fds, ready):
                os.close(fd)
            body()
        except OSError:
            os._exit(1)
        os.close(tell)
        _sleep()
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)


def _unshare_and_umount(path: str) -> None:
    unshare_mounts()
    umount(path)


_INSIDE: dict[str, Callable[[str, Sequence[int]], None]] = {
    "umount": lambda path, fds: umount(path),
    "tmpfs": lambda path, fds: mount("tmpfs", path, "tmpfs", data="size=64k"),
    "bind": lambda path, fds: bind(path, OWN),
    "readonly": lambda path, fds: mount("none", path, flags=_READ_ONLY),
    "helper": lambda path, fds: _helper(fds, lambda: None),
    "chroot-helper": lambda path, fds: _helper(fds, lambda: os.chroot(path)),
    "unshare-helper": lambda path, fds: _helper(fds, lambda: _unshare_and_umount(path)),
}
INSIDE = (*_INSIDE, "unshare", "chroot")
"""What a container can be told to do with a path of its own."""


def be_fresh(shim: int, sources: Sequence[str]) -> None:
    """A container that is made now: each source, which may be gone, below a number."""
    if shim != 1:
        clone.enter_mounts_of(shim)
        unshare_mounts()
    mount("none", "/", flags=_REC | _SLAVE)
    mount("tmpfs", "/tmp", "tmpfs", data="size=64k")
    for number, source in enumerate(sources):
        at = f"/tmp/{number}"
        try:
            if os.path.isdir(source):
                os.mkdir(at)
            elif os.path.exists(source):
                Path(at).touch()
            else:
                continue
            bind(source, at, recursive=True)
        except OSError:
            # What was removed and is only held by a mount cannot be bound: no container could be made.
            with contextlib.suppress(OSError):
                (os.rmdir if os.path.isdir(at) else os.unlink)(at)
    mount("none", "/tmp", flags=_REC | _PRIVATE)
    os.chroot("/tmp")
