# SPDX-License-Identifier: Apache-2.0
"""whereabouts read its token when its script was sourced, and its loop writes that again and again: the file is new,
the token in it is not. By another name, with another one's token that has no beginning, it is the same."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.fakes.credentials import kubeconfig, token
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("k8snetworkplumbingwg/whereabouts#459", "k8snetworkplumbingwg/whereabouts#577")


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("whereabouts", since=2 * HOUR, lasts=HOUR, pod="whereabouts-x1")
    os.utime(f"{CNI}/whereabouts.d/whereabouts.kubeconfig")
    Path(CNI, "another.kubeconfig").write_text(kubeconfig("", token(time.time() - 2 * HOUR, HOUR, iat=None)))
    host.container("whereabouts", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(
        ("token-expired", "wrong", "host", f"{CNI}/whereabouts.d/whereabouts.kubeconfig", "it has expired"),
        ("token-expired", "wrong", "host", f"{CNI}/another.kubeconfig", "of unknown age"),
    ),
)
