# SPDX-License-Identifier: Apache-2.0
"""A small disk of its own for the product's state, so that what a loss of power leaves can be told apart from what
was only in memory: what was not synced is not in its file."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.cuts import STATE
from tests.lab.node import Node
from tests.lab.run import run

_SIZE = 8 << 20
_DEVICE = "/dev/lab-state"


class StateDisk:
    """Mounted on a running node until that ends. Nothing of it outlives the node: the loop device frees itself."""

    def __init__(self, node: Node) -> None:
        self._file = node.disk.home / "state.img"
        with self._file.open("wb") as stream:
            stream.truncate(_SIZE)
        run(["mkfs.ext4", "-q", "-F", "-b", "1024", str(self._file)], timeout=30)
        device = run(["losetup", "--find", "--show", str(self._file)], timeout=10).stdout.strip()
        number = os.stat(device).st_rdev
        # Nothing is written by itself before it is asked for (ext4: every 5 s; here every hour).
        node.sh(
            f"mkdir -p {STATE} && mknod {_DEVICE} b {os.major(number)} {os.minor(number)}"
            f" && mount -t ext4 -o commit=3600 {_DEVICE} {STATE}"
        )
        run(["losetup", "--detach", device], timeout=10)  # with its last user

    def now(self) -> bytes:
        """What it would have after a loss of power at this instant."""
        return self._file.read_bytes()


def digest(disk: bytes) -> str:
    return hashlib.sha256(disk).hexdigest()


@contextmanager
def files(disk: bytes) -> Iterator[Path]:
    """A folder with what a boot finds on such a disk."""
    with tempfile.TemporaryDirectory() as place:
        image, found, mounted = (Path(place, name) for name in ("img", "found", "mnt"))
        image.write_bytes(disk)
        found.mkdir()
        mounted.mkdir()
        script = 'mount -o loop "$1" "$2" && cp -a "$2/." "$3/" && umount "$2"'
        run(["unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", script, "sh",
             str(image), str(mounted), str(found)], timeout=30)  # fmt: skip
        shutil.rmtree(found / "lost+found", ignore_errors=True)
        yield found


def put(node: Node, disk: bytes) -> None:
    """Make what such a disk has the product's state, in place of what is there; the product must not run."""
    target = node.disk.var / "lib" / os.path.basename(STATE)
    shutil.rmtree(target, ignore_errors=True)
    with files(disk) as found:
        shutil.copytree(found, target)
