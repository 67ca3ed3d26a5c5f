# SPDX-License-Identifier: Apache-2.0
"""A runtime that answers, and the two halves of the client connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from tests.fakes.cri_server import FakeRuntime


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeRuntime]:
    with FakeRuntime(tmp_path / "cri.sock") as server:
        yield server


@pytest.fixture
def runtime(fake: FakeRuntime) -> Iterator[Runtime]:
    with Runtime.connect(str(fake.socket), deadline=5) as client:
        yield client


@pytest.fixture
def acts(fake: FakeRuntime) -> Iterator[RuntimeActs]:
    with RuntimeActs.connect(str(fake.socket), deadline=5) as client:
        yield client
