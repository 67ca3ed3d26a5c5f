# SPDX-License-Identifier: Apache-2.0
"""A control-plane pod that holds the old /etc/kubernetes/pki: noted with the first end of each side's certificates."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ostreewatchd.judge import judge
from tests.host.fakehost import NEW, Bind, FakeHost
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root

PKI = "/etc/kubernetes/pki"


def certificate(path: Path, name: str, days: int) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
               f"/CN={name}", "-days", str(days), "-keyout", str(path / f"{name}.key"), "-out",
               str(path / f"{name}.crt")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)


@in_namespaces
def test_old_certificates(tmp_path: Path) -> None:
    for where, days in (("old", 10), ("new", 400)):
        (tmp_path / where / "etcd").mkdir(parents=True)
        certificate(tmp_path / where, "apiserver", days)
        certificate(tmp_path / where, "ca", 3650)
        certificate(tmp_path / where / "etcd", "server", days + 1)
    (tmp_path / "old/broken.crt").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    open_old = os.open(tmp_path, os.O_RDONLY)
    host = FakeHost(tmp_path)
    for where, target in (("old", PKI), ("new", f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0{PKI}")):
        copy(open_old, where, target)
    os.close(open_old)
    host.container("kube-apiserver", [Bind(PKI, PKI, writable=False)])
    host.container("etcd", [Bind(f"{PKI}/etcd", f"{PKI}/etcd", writable=False)])
    before = host.look()
    assert judge(before) == () and not any(bind.sight.certificates for bind in before.containers[0].binds)
    host.patch()
    snapshot = host.look()
    found = {one.subject.container: one for one in judge(snapshot) if one.rule == "stale-certificates"}
    assert {name: (one.verdict, one.owed) for name, one in found.items()} == {
        "kube-apiserver": ("stale", False), "etcd": ("stale", False),
    }  # fmt: skip
    reason = found["kube-apiserver"].reason
    assert reason.count("apiserver.crt (apiserver) ends first, on 2") == 2
    mine, _, hosts = reason.partition("of the host's")
    assert mine.rpartition("on ")[2] < hosts.rpartition("on ")[2], "the old one ends first"
    (bind,) = next(one for one in snapshot.containers if one.name == "kube-apiserver").binds
    assert [(one.name, one.subject) for one in bind.sight.certificates] == [
        ("apiserver.crt", "apiserver"), ("ca.crt", "ca"), ("etcd/server.crt", "server"),
    ]  # fmt: skip
    assert not any(one.rule == "stale-mount" for one in judge(snapshot))


def copy(folder: int, name: str, target: str) -> None:
    """From outside the host's root."""
    os.makedirs(target)
    here = os.open(name, os.O_RDONLY, dir_fd=folder)
    for entry in os.listdir(here):
        try:
            fd = os.open(entry, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        except NotADirectoryError:
            source = os.open(entry, os.O_RDONLY, dir_fd=here)
            Path(f"{target}/{entry}").write_bytes(os.read(source, 1 << 20))
            os.close(source)
        else:
            os.close(fd)
            copy(here, entry, f"{target}/{entry}")
    os.close(here)
