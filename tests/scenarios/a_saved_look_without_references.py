# SPDX-License-Identifier: Apache-2.0
"""Somebody shortened a saved look before he sent it: what the host has at the containers' paths is missing. Of one
container it is not known what it would get; of the other, whose runtime has a mount namespace of its own, that is
known, and not what PID 1 has."""

from __future__ import annotations

from tests.scenarios.kit import CNI, Expected

REPORTED = ("openshift/enhancements#593",)
BY_HAND = "a look always has these references; this is kubens_follows_the_host, shortened"
EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("stale-mount", "unknown", "calico-node", "/usr/lib/modules", "no reference was looked up"),
    ),
    refusals=(("cni-configuration-missing", "calico-node", "lacks 10-calico.conflist"),),
)
