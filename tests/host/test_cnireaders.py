# SPDX-License-Identifier: Apache-2.0
"""A runtime's watch on a real kernel, by its fdinfo: on the directory that its path leads to, on the one before it, on
none; in its own mount namespace, and on filesystems whose inodes are others there than stat(2) tells."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from inotify_simple import INotify, flags

from ostreewatchd.model import CniReader
from tests.host.fakehost import CNI, NEW, FakeHost, mount
from tests.host.namespace import in_namespaces, needs_root
from tests.host.pretend import pretend
from tests.host.test_daemons import process

pytestmark = needs_root
kept: list[object] = []


def runtime(*paths: str, name: str = "containerd", before: Callable[[], object] = lambda: None) -> int:
    """A process of that name which watches these."""

    def body() -> None:
        before()
        pretend(name)
        for path in paths:
            one = INotify()
            one.add_watch(path, flags.CREATE)
            kept.append(one)

    return process(body)


def reader(host: FakeHost) -> CniReader:
    """By a look with memory and one without."""
    (one,), (same,) = host.look().cni_readers, host.look_anew().cni_readers
    assert one == same
    return one


@in_namespaces
def test_it_moves_with_the_switch_and_the_watch_does_not(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    Path(f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0{CNI}/00-multus.conf").write_text('{"name": "m", "type": "x"}')
    Path(CNI, "10-calico.conflist").write_text('{"name": "k8s-pod-network", "plugins": [{}]}')
    pid = runtime("/usr", CNI)
    before = reader(host)
    assert (before.pid, before.directory, before.watch) == (pid, CNI, "there")
    assert (before.file, before.network, before.problem) == ("10-calico.conflist", "k8s-pod-network", "")
    host.patch()
    after = reader(host)
    assert after.watch == "elsewhere" and after.identity != before.identity
    assert (after.file, after.network) == ("00-multus.conf", "m")
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    runtime(CNI)
    assert reader(host).watch == "there"


@in_namespaces
def test_a_runtime_that_watches_nothing(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    Path(CNI, "10-calico.conflist").write_text("cut off")
    runtime()
    one = reader(host)
    assert (one.watch, one.network) == ("none", "")
    assert one.problem == "10-calico.conflist: it is no JSON: cut off, or no CNI configuration"


@in_namespaces
def test_behind_an_overlay(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    for name in ("upper", "work"):
        os.makedirs(f"/tmp/{name}")
    mount("overlay", "/etc", "overlay", data="lowerdir=/etc,upperdir=/tmp/upper,workdir=/tmp/work")
    runtime(CNI)
    assert reader(host).watch == "there"


@in_namespaces
def test_the_directory_that_its_configuration_names(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    for directory in ("/etc/one/net.d", "/etc/containerd"):
        os.makedirs(directory)
    Path("/etc/containerd/config.toml").write_text("[plugins.cri.cni]\nconf_dir = '/etc/one/net.d'")
    runtime("/etc/one/net.d")
    one = reader(host)
    assert (one.directory, one.watch, one.file) == ("/etc/one/net.d", "there", "")
    Path("/etc/containerd/config.toml").write_text('disabled_plugins = ["cri"]')
    assert host.look().cni_readers == ()


@in_namespaces
def test_no_room_for_a_watch_of_our_own(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    runtime(CNI)
    add_watch = INotify.add_watch

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    try:
        INotify.add_watch = full
        one = host.look_anew().cni_readers[0]
    finally:
        INotify.add_watch = add_watch
    assert (one.watch, one.problem) == ("unknown", "what is watched cannot be told: No space left on device")


@pytest.fixture(autouse=True)
def nothing_is_kept() -> None:
    kept.clear()
