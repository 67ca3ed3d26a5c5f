# SPDX-License-Identifier: Apache-2.0
"""The key of service account tokens was rotated: a token with its end in the future is refused. The mount is fine:
nothing is found here."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#12595",
    "projectcalico/calico#12941",
)
KUBECONFIG = f"{CNI}/calico-node-kubeconfig"


def build(host: ScenarioHost) -> None:
    Path(KUBECONFIG).write_text("token: a-secret-of-last-week")
    os.chmod(KUBECONFIG, 0o600)
    last_week = time.time() - 7 * 86400
    os.utime(KUBECONFIG, (last_week, last_week))
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()
