# SPDX-License-Identifier: Apache-2.0
"""The shape of a platform's table."""

from __future__ import annotations

from typing import NamedTuple


class MovingLink(NamedTuple):
    """A link that an upgrade moves to another directory beside it. A runtime resolves it when it makes a bind, so what
    a container has names the directory, and not the link that it was asked for."""

    path: str
    of: str
    """Regular expression of the names of the directories that it leads to, one at a time."""


class Platform(NamedTuple):
    """One platform. Paths are the host's."""

    name: str
    marks: tuple[str, ...]
    """Files of which each one tells the platform."""
    cni_directories: tuple[str, ...]
    writers: tuple[str, ...]
    """Container names that write tokens into the CNI directories, in the order of their restart."""
    self_written: tuple[str, ...]
    """Shell patterns of names in a CNI directory that their writer makes anew at each start."""
    runtime_sockets: tuple[str, ...]
    bundles: tuple[str, ...]
    """Directories with a folder a container that has its config.json; `{id}` is the container's id."""
    kubelet_commands: tuple[str, ...]
    manifests: tuple[str, ...]
    runtime_commands: tuple[str, ...] = ("containerd", "crio")
    links: tuple[MovingLink, ...] = ()
    pki: tuple[str, ...] = ()
    """Directories with the control plane's certificates."""
    kubeconfigs: tuple[str, ...] = ()
    """Of a kubelet that is a part of a larger program, which gives it no flag: the first that is there."""
    runtime_configurations: tuple[str, ...] = ()
    """Files of the runtimes' configuration; of which each that is there names CNI directories, or leaves the
    default."""
    pods: str = "/var/lib/kubelet/pods"
    """Where kubelet has a directory for each of its pods, named by the pod's UID."""
