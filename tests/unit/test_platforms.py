# SPDX-License-Identifier: Apache-2.0
"""The platforms' tables: what has to hold for each of them."""

from __future__ import annotations

import pytest

from ostreewatchd.platforms import FLAGS, GENERIC, PLATFORMS, Platform

ALL = (*PLATFORMS, GENERIC)
EMBEDDED = {"k3s", "microk8s", "microshift"}
"""Whose kubelet is a part of a larger program."""


def by_name(name: str) -> Platform:
    return next(one for one in ALL if one.name == name)


def test_names_and_marks_tell_them_apart() -> None:
    assert len({one.name for one in ALL}) == len(ALL)
    marks = [mark for one in PLATFORMS for mark in one.marks]
    assert len(set(marks)) == len(marks) and all(one.marks for one in PLATFORMS) and not GENERIC.marks


@pytest.mark.parametrize("platform", ALL, ids=lambda one: one.name)
def test_paths(platform: Platform) -> None:
    paths = (
        *platform.marks, *platform.cni_directories, *platform.runtime_sockets, *platform.bundles, *platform.manifests,
        *platform.pki, *platform.kubeconfigs, *(flag.path for flag in FLAGS),
        *(link.path for link in platform.links), *platform.runtime_configurations,
    )  # fmt: skip
    for path in paths:
        assert path.startswith("/") and not path.endswith("/") and "//" not in path, path
        assert not path.startswith("/var/run/"), "a link to /run: a lookup of it would be of another path"
    assert all(bundle.count("{id}") == 1 for bundle in platform.bundles)
    assert platform.cni_directories and platform.runtime_sockets and platform.kubelet_commands


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda one: one.name)
def test_a_kubelet_without_flags_has_its_kubeconfig_in_the_table(platform: Platform) -> None:
    """Without one it would be taken for a standalone kubelet, which needs no API server."""
    assert bool(platform.kubeconfigs) == (platform.name in EMBEDDED)


def test_a_link_of_a_path_is_a_link_of_the_table() -> None:
    """What lies behind a link is another directory when the link moves: that is the switch."""
    microk8s = by_name("microk8s")
    (link,) = microk8s.links
    assert all(path.startswith(f"{link.path}/") for path in (*microk8s.cni_directories, *microk8s.pki))


def test_a_distribution_goes_before_the_system_that_it_runs_on() -> None:
    names = [one.name for one in PLATFORMS]
    for system in ("flatcar", "nixos", "microos"):
        for distribution in ("starlingx", "k3s", "rke2", "microk8s", "k0s", "microshift", "openshift"):
            assert names.index(distribution) < names.index(system)


def test_kubeadm_is_what_nothing_else_is() -> None:
    assert GENERIC.pki == by_name("starlingx").pki == by_name("flatcar").pki == ("/etc/kubernetes/pki",)
    assert GENERIC.cni_directories == ("/etc/cni/net.d",)
