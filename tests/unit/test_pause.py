# SPDX-License-Identifier: Apache-2.0
"""A pause on disk: bounded, whole or not there, and told by a clock that nobody sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ostreewatchd import ledger
from ostreewatchd.ledger import Ledger, pausing
from ostreewatchd.model import Pause
from ostreewatchd.watch import orders

MADE = Pause(since=1_000_000.0, since_boottime=5000.0, boot_id="b1", seconds=7200.0, who="ops", why="a demo")


def holds(*, now: float, boottime: float, boot: str = "b1") -> bool:
    return MADE.holds(now=now, boottime=boottime, boot_id=boot)


def test_it_ends_by_itself() -> None:
    assert holds(now=1_000_000.0, boottime=5000.0)
    assert holds(now=1_007_199.0, boottime=12199.0)
    assert not holds(now=1_007_200.0, boottime=12200.0)


@pytest.mark.parametrize("step", [-1e6, -3600.0, 3600.0, 1e7])
def test_a_clock_step_neither_ends_nor_lengthens_it(step: float) -> None:
    assert holds(now=1_001_000.0 + step, boottime=6000.0)
    assert not holds(now=1_007_300.0 + step, boottime=12300.0)


def test_after_a_reboot_the_wall_clock_tells_and_the_uptime_bounds_it() -> None:
    assert holds(now=1_000_600.0, boottime=30.0, boot="b2")
    assert not holds(now=1_007_300.0, boottime=30.0, boot="b2")
    assert holds(now=0.0, boottime=7199.0, boot="b2"), "a clock without a battery"
    assert not holds(now=0.0, boottime=7200.0, boot="b2"), "and it ends all the same"


def test_the_watcher_wakes_at_the_file_that_is_written() -> None:
    """The two places may not import each other (tests/unit/test_imports.py)."""
    assert f"{orders.DIRECTORY}/{orders._NAME}" == os.path.join(os.path.dirname(ledger.PATH), pausing._NAME)


def test_what_was_written_is_read_by_everybody(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        pausing.write(str(tmp_path), MADE)
    finally:
        os.umask(old)
    assert pausing.read(str(tmp_path)) == MADE
    assert os.listdir(tmp_path) == ["pause.json"]
    assert os.stat(tmp_path / "pause.json").st_mode & 0o777 == 0o644
    assert pausing.remove(str(tmp_path)) and not pausing.remove(str(tmp_path))
    assert pausing.read(str(tmp_path)) is None


def test_it_is_part_of_the_history_whatever_the_ledger_is(tmp_path: Path) -> None:
    """A corrupt ledger, or one that was set aside, does not end a pause."""
    path = tmp_path / "ledger.db"
    pausing.write(str(tmp_path), MADE)
    assert ledger.read(str(path)).pause == MADE
    path.write_bytes(b"no database " * 1000)
    assert ledger.read(str(path)).pause == MADE and ledger.read(str(path)).problem
    with Ledger(str(path)) as book:
        assert book.set_aside and book.history().pause == MADE
    assert ledger.read(str(path)).pause == MADE


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"seconds": "long"}', b"\xff\xfe", b'{"who": "' + b"x" * 9000]
)
def test_an_order_that_cannot_be_read_still_holds(tmp_path: Path, content: bytes) -> None:
    """Somebody wanted a pause, and nobody knows for how long."""
    (tmp_path / "pause.json").write_bytes(content)
    pause = pausing.read(str(tmp_path))
    assert pause is not None and "pause.json" in pause.problem
    assert pause.holds(now=9e9, boottime=9e9, boot_id="b9")


def test_a_link_or_a_pipe_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b'{"seconds": 1}')
    (tmp_path / "pause.json").symlink_to("other")
    pause = pausing.read(str(tmp_path))
    assert pause is not None and pause.problem
    (tmp_path / "pause.json").unlink()
    os.mkfifo(tmp_path / "pause.json")
    pause = pausing.read(str(tmp_path))
    assert pause is not None and pause.problem


def test_what_a_person_writes_is_bounded(tmp_path: Path) -> None:
    pausing.write(str(tmp_path), Pause(seconds=60.0, who="w" * 9999, why="\udcff" + "y" * 9999))
    pause = pausing.read(str(tmp_path))
    assert pause is not None and not pause.problem and len(pause.why) == 500
