# SPDX-License-Identifier: Apache-2.0
"""`rpm-ostree usroverlay` on a composefs host, where /usr was no mount before. Who has /usr keeps what was there;
/etc is what it was."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost

REPORTED = ("ostreedev/ostree#3177",)
LAYOUT = Layout.COMPOSEFS


def build(host: ScenarioHost) -> None:
    host.container("tuned", [Bind("/usr", "/usr", writable=False), Bind(CNI, HOST_CNI)])
    host.overlay("/usr", name="usr-transient")


EXPECT = Expected(findings=(("stale-mount", "noted", "tuned", "/usr", "is no CNI configuration directory"),))
