# SPDX-License-Identifier: Apache-2.0
"""Tokens as an API server makes them, but for the signature, and kubeconfigs as each writer writes them.

The templates are the writers' own: projectcalico/calico node/pkg/cni/token_watch.go and
cni-plugin/pkg/install/install.go, k8snetworkplumbingwg/multus-cni cmd/thin_entrypoint/main.go,
k8snetworkplumbingwg/whereabouts script/lib.sh, istio cni/pkg/install/kubeconfig.go (YAML of a marshaller)."""

from __future__ import annotations

import base64
import json
from typing import Any, Optional

HOUR = 3600.0
SIGNATURE = base64.urlsafe_b64encode(b"the signature of the planted token" * 8).rstrip(b"=").decode()
"""A part of each token that no test may find anywhere."""


def token(
    issued: float,
    lasts: float = 24 * HOUR,
    *,
    warns: Optional[float] = None,
    pod: str = "",
    uid: str = "",
    account: str = "calico-cni-plugin",
    key: str = "key-1",
    **more: Any,
) -> str:
    """Of a service account in kube-system; `warns`: seconds after its beginning, of one whose end was put off; `pod`
    and `uid`: bound to that pod. `more`: other claims."""
    own: dict[str, Any] = {"namespace": "kube-system", "serviceaccount": {"name": account, "uid": "5e7f"}}
    if pod:
        own["pod"] = {"name": pod, "uid": uid or f"uid-of-{pod}"}
    if warns is not None:
        own["warnafter"] = int(issued + warns)
    claims = {
        "aud": ["https://kubernetes.default.svc"], "exp": int(issued + lasts), "iat": int(issued), "nbf": int(issued),
        "iss": "https://kubernetes.default.svc", "kubernetes.io": own,
        "sub": f"system:serviceaccount:kube-system:{account}", **more,
    }  # fmt: skip
    return ".".join((part({"alg": "RS256", "kid": key}), part(claims), SIGNATURE))


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


_CALICO = """\
# Kubeconfig file for Calico CNI plugin. Installed by calico/node.
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: https://[10.96.0.1]:443
    certificate-authority-data: "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
users:
- name: calico
  user:
    token: {token}
contexts:
- name: calico-context
  context:
    cluster: local
    user: calico
current-context: calico-context"""

_MULTUS = """\
# Kubeconfig file for Multus CNI plugin.
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: https://[10.96.0.1]:443
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
users:
- name: multus
  user:
    token: "{token}"
contexts:
- name: multus-context
  context:
    cluster: local
    user: multus
current-context: multus-context
"""

_ISTIO = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
    server: https://10.96.0.1:443
  name: local
contexts:
- context:
    cluster: local
    user: istio-cni
  name: istio-cni-context
current-context: istio-cni-context
kind: Config
preferences: {{}}
users:
- name: istio-cni
  user:
    token: {token}
"""

_JSON = '{{"kind": "Config", "users": [{{"name": "x", "user": {{"token": "{token}"}}}}], "clusters": []}}'

FORMS = {
    "calico": ("calico-kubeconfig", _CALICO),
    "multus": ("multus.d/multus.kubeconfig", _MULTUS),
    "whereabouts": ("whereabouts.d/whereabouts.kubeconfig", _MULTUS.replace("multus", "whereabouts")),
    "istio-cni": ("ZZZ-istio-cni-kubeconfig", _ISTIO),
    "ovn4nfv": ("ovn4nfv-k8s.d/ovn4nfv-k8s.kubeconfig", _MULTUS.replace("multus", "ovn4nfv")),
    "": ("another.kubeconfig", _JSON),
}
"""By writer: its file below a CNI directory, and what stands in it."""


def kubeconfig(writer: str, token: str) -> str:
    return FORMS[writer][1].format(token=token)
