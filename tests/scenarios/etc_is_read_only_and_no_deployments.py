# SPDX-License-Identifier: Apache-2.0
"""/etc of a host without OSTree is read-only, as somebody wanted it: nothing is wrong with that."""

from __future__ import annotations

from tests.scenarios.kit import Expected, Layout, ScenarioHost, bind

REPORTED = ("flatcar/Flatcar#1328",)
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    bind("/etc", "/etc", read_only=True)


EXPECT = Expected()
