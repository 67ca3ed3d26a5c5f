# SPDX-License-Identifier: Apache-2.0
"""The lab's own tests use its fixtures."""

from tests.lab.fixtures import built, node, pytest_runtest_makereport, shared_node

__all__ = ["built", "node", "pytest_runtest_makereport", "shared_node"]
