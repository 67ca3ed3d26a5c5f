# SPDX-License-Identifier: Apache-2.0
"""The units that container runtimes and kubelet are, for when their processes are down and cannot be asked, and where
a runtime's configuration is.

Sources: the units of cri-o, containerd and kubernetes; k3s install.sh, docs.rke2.io (rke2-server, rke2-agent),
docs.k0sproject.io (k0scontroller, k0sworker), canonical/microk8s snapcraft.yaml, openshift/microshift packaging;
crio.conf(5), crio.conf.d(5), containerd-config.toml(5)."""

from __future__ import annotations

from collections.abc import Mapping

_EMBEDDED = (
    "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service", "k0scontroller.service",
    "k0sworker.service",
)  # fmt: skip

RUNTIME_UNITS: tuple[str, ...] = (
    "crio.service", "snap.microk8s.daemon-containerd.service", *_EMBEDDED, "containerd.service",
)  # fmt: skip
"""The first that is loaded and not only because something wants it. containerd last: it may be there for Docker."""
KUBELET_UNITS: tuple[str, ...] = (
    "kubelet.service", "snap.microk8s.daemon-kubelite.service", *_EMBEDDED, "microshift.service",
)  # fmt: skip
CONFIGURATION: Mapping[str, tuple[str, ...]] = {
    "crio": ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d"),
    "containerd": ("/etc/containerd/config.toml", "/etc/containerd/conf.d"),
}
"""By the name of the process: a file, or a directory with its files. They are read at its start."""
MONITORS = "crio-conmon-*.scope"
"""CRI-O's monitors, one a container."""
