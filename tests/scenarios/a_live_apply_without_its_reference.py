# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree's stamp and the overlay are there, and no reference says which commit is live."""

from __future__ import annotations

from tests.scenarios.kit import OLD, Expected, ScenarioHost

REPORTED = ("coreos/rpm-ostree#4861",)
STAMP = f"/run/ostree/deployment-state/{OLD}.0/rpmostree-is-live.stamp"


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.unlock()
    host.write(f"/run/ostree/deployment-state/{OLD}.0/unlocked-development")
    host.write(STAMP)


EXPECT = Expected(findings=(("live-apply-contradiction", "unknown", "host", STAMP, "stamp-without-references"),))
