# SPDX-License-Identifier: Apache-2.0
"""What was staged was not written at the last shutdown: the boot is the old one again, and only a stamp tells."""

from __future__ import annotations

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = (
    "ostreedev/ostree#2543",
    "endlessm/eos-updater#300",
    "coreos/rpm-ostree#1567",
    "coreos/rpm-ostree#1791",
    "coreos/rpm-ostree#2342",
)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write("/boot/ostree/finalize-failure.stamp", "it failed")


EXPECT = Expected(
    findings=(("staged-contradiction", "wrong", "host", "/boot/ostree/finalize-failure.stamp", "finalize-failed"),)
)
