# SPDX-License-Identifier: Apache-2.0
"""What a look waits for a child in all, and that no child stays a zombie."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ostreewatchd.parse.mountinfo import Mounts, MountTable
from ostreewatchd.peers import aside, paths

_MOUNTS = b"1 0 0:50 / / rw - overlay overlay rw\n2 1 0:99 / /x rw - overlay overlay rw\n"


def _table() -> MountTable:
    return MountTable(Mounts(_MOUNTS, is_hosts=lambda device, _: device == b"0:50"))


def test_answers_that_come_just_in_time_do_not_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").mkdir()
    what = paths._VERBS["what"]

    def slow(root: paths.Root, path: str, argument: int) -> Any:
        answer = what(root, path, argument)
        time.sleep(0.15)
        return answer

    monkeypatch.setitem(paths._VERBS, "what", slow)
    looker = aside.Aside(deadline=0.3)
    for _ in range(2):
        looker.begin()
        answered = refused = 0
        for _ in range(3):
            with paths.Root(str(tmp_path), _table(), looker) as root:
                for _ in range(10):
                    try:
                        root.what("/x")
                        answered += 1
                    except paths.MayNotAnswer:
                        refused += 1
        assert 1 <= answered <= 6
        assert answered + refused == 30


def test_a_child_that_ends_late_is_reaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").mkdir()
    monkeypatch.setattr(aside, "_ENDS_WITHIN", 0.0)
    looker = aside.Aside()
    with paths.Root(str(tmp_path), _table(), looker) as root:
        root.what("/x")
        assert root._child is not None
        pid = root._child.pid
    until = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
        time.sleep(0.01)
        looker.begin()
    assert not os.path.exists(f"/proc/{pid}")
