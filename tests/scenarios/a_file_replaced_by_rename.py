# SPDX-License-Identifier: Apache-2.0
"""A container was given a single file, and an atomic writer replaced it by rename: the container keeps the old
file. That is no switch, and no restart is due for it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.scenarios.kit import Bind, Expected, ScenarioHost

REPORTED = ("kubernetes/kubernetes#139535",)
FILE = "/etc/resolv.conf"


def build(host: ScenarioHost) -> None:
    Path(FILE).write_text("nameserver 192.0.2.1")
    host.container("resolver", [Bind(FILE, FILE, writable=False)])
    Path(f"{FILE}.new").write_text("nameserver 192.0.2.2")
    os.rename(f"{FILE}.new", FILE)


EXPECT = Expected(findings=(("replaced-file", "noted", "resolver", FILE, "it was replaced by rename"),))
