# SPDX-License-Identifier: Apache-2.0
"""Who leaves credentials for CNI plugins on the host, under which names, and how each of them renews them.

Sources: projectcalico/calico node/pkg/cni/token_watch.go (TokenRequest of 24 h, a new one after a quarter of what is
left, and up to twice that; its sleep can be set by CNI_TOKEN_REFRESH_INTERVAL); k8snetworkplumbingwg/multus-cni
cmd/thin_entrypoint and docs/thick-plugin.md (perNodeCertificate); k8snetworkplumbingwg/whereabouts script/lib.sh;
istio PR 52323 (moved out of the CNI directory); akraino-edge-stack/icn-nodus entrypoint; kubernetes
pkg/kubelet/token/token_manager.go (kubelet makes a pod's token anew at 80 % of its time, or after 24 h); client-go
util/certificate (a certificate is made anew at 70 to 90 % of its time)."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ostreewatchd.model.credential import WriterName

HOUR = 3600.0


class CredentialWriter(NamedTuple):
    """One writer's file."""

    name: WriterName
    file: str
    """Below a CNI configuration directory, or where it begins with `/` on the host."""
    containers: tuple[str, ...]
    """The names of those that write it while they run."""
    due: float = 0.8
    """After which part of the time that was asked for it has a new one, at the latest."""
    due_at_most: float = 24 * HOUR
    """Seconds after which it has a new one whatever was asked for."""


WRITERS: tuple[CredentialWriter, ...] = (
    CredentialWriter("calico", "calico-kubeconfig", ("calico-node",), due=0.5),
    CredentialWriter("multus", "multus.d/multus.kubeconfig", ("kube-multus", "multus-watcher")),
    CredentialWriter("whereabouts", "whereabouts.d/whereabouts.kubeconfig", ("whereabouts",)),
    CredentialWriter("istio-cni", "ZZZ-istio-cni-kubeconfig", ("install-cni",)),
    CredentialWriter("istio-cni", "/run/istio-cni/istio-cni-kubeconfig", ("install-cni",)),
    CredentialWriter("ovn4nfv", "ovn4nfv-k8s.d/ovn4nfv-k8s.kubeconfig", ("ovn4nfv", "ovn4nfv-cni")),
    CredentialWriter("multus-thick", "/etc/cni/multus/certs/multus-client-current.pem", ("kube-multus",), due=0.9),
)


def named(name: str) -> Optional[CredentialWriter]:
    """The first of that name; None for a credential that is known by its shape alone."""
    return next((one for one in WRITERS if one.name == name), None)


def writer_of(path: str, cni_directory: str) -> Optional[CredentialWriter]:
    """Whose file that is; `cni_directory`: the one that it lies below, if it does."""
    for one in WRITERS:
        if path == (one.file if one.file.startswith("/") else f"{cni_directory}/{one.file}"):
            return one
    return None
