# SPDX-License-Identifier: Apache-2.0
"""A disk was mounted over a directory that a running container has: without propagation it never sees it (which is
what led to mountPropagation), with it it does. No CNI directory, so it is noted."""

from __future__ import annotations

import os

from tests.scenarios.kit import Bind, Expected, ScenarioHost, mount

REPORTED = ("kubernetes/kubernetes#44713", "kubernetes/minikube#2530", "kubernetes/kubernetes#31504")
DATA = "/etc/data"


def build(host: ScenarioHost) -> None:
    os.makedirs(f"{DATA}/disk")
    host.container("private", [Bind(DATA, DATA), Bind(f"{DATA}/disk", "/disk")])
    host.container("following", [Bind(DATA, DATA, propagated=True)])
    mount("tmpfs", f"{DATA}/disk", "tmpfs")


EXPECT = Expected(
    findings=(("stale-mount", "noted", "private", f"{DATA}/disk", "is no CNI configuration directory"),),
)
