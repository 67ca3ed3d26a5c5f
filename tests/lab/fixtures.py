# SPDX-License-Identifier: Apache-2.0
"""pytest fixtures that give nodes: a conftest.py imports those that its tests use, and the report hook.

from tests.lab.fixtures import built, node, pytest_runtest_makereport, shared_node  # noqa: F401
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import plan
from tests.lab.errors import LabError
from tests.lab.node import Node
from tests.lab.witness import SETTINGS

JOURNAL_LINES = 80


@pytest.fixture(scope="session")
def built() -> None:
    """What nodes are made from. On a fresh machine this takes minutes, afterwards nothing."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    plan.ready(plan.DEFAULT)
    plan.ready(None)


@pytest.fixture
def node(built: None) -> Iterator[Node]:
    """A booted node of the test's own, with the product of this working tree."""
    yield from _booted()


@pytest.fixture(scope="module")
def shared_node(built: None, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A booted node for all tests of a module, which leave it as they found it, or make their pods and a switch anew.
    Where the module has a CONFIGURATION, that is the product's."""
    yield from _booted(getattr(request.module, "CONFIGURATION", ""))


def _booted(configuration: str = "") -> Iterator[Node]:
    made = Node.create()
    try:
        made.boot()
        if configuration:
            made.sh(f"mkdir -p $(dirname {SETTINGS}) && cat >{SETTINGS}", input=configuration)
        yield made
    finally:
        made.destroy()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test's report ends with the journals of its nodes."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed and report.when != "teardown":
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Node):
                report.sections.append((f"journal of node {value.name}", _journal(value)))


def _journal(node: Node) -> str:
    try:
        entries = node.journal()[-JOURNAL_LINES:]
    except (LabError, OSError, ValueError) as error:
        return f"cannot be read: {error}"
    return "\n".join(
        f"{entry.get('SYSLOG_IDENTIFIER', entry.get('_COMM', '?'))}: {str(entry.get('MESSAGE', ''))[:300]}"
        for entry in entries
    )
