# SPDX-License-Identifier: Apache-2.0
"""calico-node truncates its file and writes it anew: whoever looks in between sees half a token. It is no reason to
restart anything, and no reason to say that all is well."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.credentials import kubeconfig, token
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("projectcalico/calico 2b3469b257 (os.WriteFile in place)",)


def build(host: ScenarioHost) -> None:
    host.patch()
    text = kubeconfig("calico", token(1.8e9))
    Path(CNI, "calico-kubeconfig").write_text(text[: text.index("eyJ") + 90])
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(("token-expired", "unknown", "host", f"{CNI}/calico-kubeconfig", "its token has not three parts"),),
)
