# SPDX-License-Identifier: Apache-2.0
"""The platforms that are known.

Sources: starlingx/update (software_agent.py, ostree_utils.py: order of the binds); starlingx/
ansible-playbooks (roles/common/bringup-kubemaster: the CNI pods); projectcalico/calico manifests/calico.yaml;
k8snetworkplumbingwg/multus-cni cmd/thin_entrypoint; containerd and CRI-O defaults; k3s-io/k3s pkg/dataverify and
pkg/cli (data/current, agent/), docs.rke2.io (pod-manifests, server/tls); canonical/microk8s
microk8s-resources/default-args and canonical/microk8s#4184 (current); k0sproject/k0s docs/runtime.md and
pkg/constant; openshift/microshift pkg/config (resources/, certs/); openshift/cluster-network-operator
pkg/network/multus.go (SystemCNIConfDir), openshift/machine-config-operator
pkg/daemon (currentconfig); flatcar/Flatcar#1328 (release), nixpkgs kubernetes/pki.nix and nixpkgs#556436 (NIXOS),
transactional-update(8)."""

from __future__ import annotations

from ostreewatchd.platforms.table import MovingLink, Platform

_CONTAINERD = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json"
_CONFIGURATIONS = ("/etc/containerd/config.toml", "/etc/crio/crio.conf")
_CRIO = "/run/containers/storage/overlay-containers/{id}/userdata/config.json"

GENERIC = Platform(
    name="generic",
    marks=(),
    cni_directories=("/etc/cni/net.d",),
    # Calico before Multus: a pod's delegate must be able to work before the plugin that calls it does.
    writers=("calico-node", "kube-multus", "multus-watcher", "whereabouts", "install-cni"),
    # thin_entrypoint and multus-daemon make their configuration anew at each start.
    self_written=("00-multus.conf*",),
    runtime_sockets=("/run/containerd/containerd.sock", "/run/crio/crio.sock"),
    bundles=(_CONTAINERD, _CRIO),
    kubelet_commands=("kubelet",),
    manifests=("/etc/kubernetes/manifests",),
    pki=("/etc/kubernetes/pki",),
    runtime_configurations=_CONFIGURATIONS,
)

STARLINGX = GENERIC._replace(name="starlingx", marks=("/etc/platform/platform.conf",))

K3S = GENERIC._replace(
    name="k3s",
    marks=("/var/lib/rancher/k3s/server", "/var/lib/rancher/k3s/agent"),
    cni_directories=("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d"),
    runtime_sockets=("/run/k3s/containerd/containerd.sock",),
    bundles=("/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json",),
    kubelet_commands=("k3s-server", "k3s-agent", "k3s"),
    manifests=("/var/lib/rancher/k3s/agent/pod-manifests",),
    pki=("/var/lib/rancher/k3s/server/tls",),
    kubeconfigs=("/var/lib/rancher/k3s/agent/kubelet.kubeconfig",),
    links=(MovingLink("/var/lib/rancher/k3s/data/current", "[0-9a-f]{64}"),),
    runtime_configurations=("/var/lib/rancher/k3s/agent/etc/containerd/config.toml",),
)

_SNAP = "/var/snap/microk8s"
MICROK8S = GENERIC._replace(
    name="microk8s",
    marks=(f"{_SNAP}/current",),
    cni_directories=(f"{_SNAP}/current/args/cni-network",),
    runtime_sockets=(f"{_SNAP}/common/run/containerd.sock",),
    bundles=(f"{_SNAP}/common/run/containerd/io.containerd.runtime.v2.task/k8s.io/{{id}}/config.json",),
    kubelet_commands=("kubelite", "kubelet"),
    manifests=(),
    pki=(f"{_SNAP}/current/certs",),
    kubeconfigs=(f"{_SNAP}/current/credentials/kubelet.config",),
    pods=f"{_SNAP}/common/var/lib/kubelet/pods",
    # Its configuration names the directory of the revision; what is followed is the link.
    runtime_configurations=(),
    # The revision of a snap: a number, with an x where it was installed from a file.
    links=(MovingLink(f"{_SNAP}/current", "x?[0-9]+"),),
)

RKE2 = GENERIC._replace(
    name="rke2",
    marks=("/var/lib/rancher/rke2/server", "/var/lib/rancher/rke2/agent"),
    runtime_sockets=K3S.runtime_sockets,
    bundles=K3S.bundles,
    manifests=("/var/lib/rancher/rke2/agent/pod-manifests",),
    pki=("/var/lib/rancher/rke2/server/tls",),
    runtime_configurations=("/var/lib/rancher/rke2/agent/etc/containerd/config.toml",),
)

K0S = GENERIC._replace(
    name="k0s",
    marks=("/var/lib/k0s",),
    runtime_sockets=("/run/k0s/containerd.sock",),
    bundles=("/run/k0s/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json",),
    manifests=(),
    pki=("/var/lib/k0s/pki",),
    pods="/var/lib/k0s/kubelet/pods",
    runtime_configurations=("/etc/k0s/containerd.toml",),
)

MICROSHIFT = GENERIC._replace(
    name="microshift",
    marks=("/var/lib/microshift",),
    runtime_sockets=("/run/crio/crio.sock",),
    bundles=(_CRIO,),
    runtime_configurations=("/etc/crio/crio.conf",),
    kubelet_commands=("microshift",),
    manifests=(),
    pki=("/var/lib/microshift/certs",),
    kubeconfigs=("/var/lib/microshift/resources/kubelet/kubeconfig",),
)

OPENSHIFT = GENERIC._replace(
    name="openshift",
    marks=("/etc/machine-config-daemon/currentconfig",),
    # CRI-O reads the first. What Multus delegates to is below /run, which no switch moves.
    cni_directories=("/etc/kubernetes/cni/net.d", "/etc/cni/net.d"),
    runtime_sockets=("/run/crio/crio.sock",),
    bundles=(_CRIO,),
    pki=(),
    runtime_configurations=("/etc/crio/crio.conf",),
)

# Systems whose /usr or /etc moves, and on which kubeadm, or a distribution above, may run.
FLATCAR = GENERIC._replace(name="flatcar", marks=("/usr/share/flatcar/release",))
NIXOS = GENERIC._replace(name="nixos", marks=("/etc/NIXOS",), pki=("/var/lib/kubernetes/secrets", *GENERIC.pki))
MICROOS = GENERIC._replace(name="microos", marks=("/usr/sbin/transactional-update",))

PLATFORMS: tuple[Platform, ...] = (
    STARLINGX, K3S, RKE2, MICROK8S, K0S, MICROSHIFT, OPENSHIFT, FLATCAR, NIXOS, MICROOS,
)  # fmt: skip
"""Tried in this order: a distribution before the system that it runs on. GENERIC where none matches, as on a host that
kubeadm has set up."""
