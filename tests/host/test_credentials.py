# SPDX-License-Identifier: Apache-2.0
"""Credentials of CNI plugins on a real kernel: what the host has, what a container wrote into another directory, and
files that are being written, or cannot be read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from ostreewatchd.model import Credential, Snapshot
from ostreewatchd.observe.credentials import _MOST_UNWHOLE
from ostreewatchd.peers.paths import Root
from tests.fakes.credentials import FORMS, HOUR, kubeconfig, token
from tests.host.fakehost import CNI, NEW, Bind, FakeHost
from tests.host.namespace import in_namespaces, needs_root
from tests.scenarios.kit.certificates import OLD_CERTIFICATE

pytestmark = needs_root

HOST_CNI = f"/host{CNI}"
NEW_CNI = f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0{CNI}"
PODS = "/var/lib/kubelet/pods"


def leave(directory: str, writer: str, text: str) -> Path:
    """As the writer's file there."""
    path = Path(directory, FORMS[writer][0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kubeconfig(writer, text))
    return path


def found(snapshot: Snapshot) -> dict[tuple[str, str], Credential]:
    names = {one.id: one.name for one in snapshot.containers}
    return {(one.path, names.get(one.container_id, "")): one for one in snapshot.credentials}


@in_namespaces
def test_the_hosts_and_what_a_container_wrote_elsewhere(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    now = float(int(time.time()))
    old, new = token(now - 20 * HOUR), token(now)
    bound = token(now - 100, 365 * 24 * HOUR, warns=3607, pod="kube-multus-x1", key="key-2")
    for directory in (CNI, NEW_CNI):
        leave(directory, "calico", old)
        leave(directory, "multus", bound)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("reader", [Bind(CNI, HOST_CNI, writable=False)])
    before = found(host.look_anew())
    assert set(before) == {(f"{CNI}/calico-kubeconfig", ""), (f"{CNI}/multus.d/multus.kubeconfig", "")}
    host.patch()
    leave(f"/proc/{os.getpid()}/root{CNI}", "", "no token of an account's")
    multus = host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    container = next(one for one in host.look_anew().containers if one.name == "calico-node")
    leave(f"/proc/{container.pid}/root{HOST_CNI}", "calico", new)
    snapshot = host.look_anew()
    after = found(snapshot)
    assert set(after) == {
        (f"{CNI}/calico-kubeconfig", ""), (f"{CNI}/calico-kubeconfig", "calico-node"),
        (f"{CNI}/another.kubeconfig", ""), (f"{CNI}/multus.d/multus.kubeconfig", ""),
        (f"{CNI}/multus.d/multus.kubeconfig", "calico-node"),
    }  # fmt: skip
    hosts, mine = after[f"{CNI}/calico-kubeconfig", ""], after[f"{CNI}/calico-kubeconfig", "calico-node"]
    assert (hosts.writer, hosts.kind, hosts.issued_at, hosts.expires_at) == (
        "calico", "token", now - 20 * HOUR, now + 4 * HOUR,
    )  # fmt: skip
    assert (mine.issued_at, mine.same, mine.problem) == (now, False, "")
    assert mine.identity != hosts.identity and abs(mine.modified_at - time.time()) < 60
    theirs, kept = (
        after[f"{CNI}/multus.d/multus.kubeconfig", ""],
        after[f"{CNI}/multus.d/multus.kubeconfig", "calico-node"],
    )
    assert kept.same is True and (theirs.pod, theirs.pod_uid, theirs.key_id, theirs.warn_after) == (
        "kube-multus-x1", "uid-of-kube-multus-x1", "key-2", now - 100 + 3607,
    )  # fmt: skip
    assert theirs.pod_is_here is True, "a container of it runs"
    assert after[f"{CNI}/another.kubeconfig", ""].kind == "token" and not after[f"{CNI}/another.kubeconfig", ""].writer
    multus.kill()
    os.makedirs(f"{PODS}/another")
    assert found(host.look_anew())[f"{CNI}/multus.d/multus.kubeconfig", ""].pod_is_here is False
    os.mkdir(f"{PODS}/uid-of-kube-multus-x1")
    assert found(host.look_anew())[f"{CNI}/multus.d/multus.kubeconfig", ""].pod_is_here is True
    os.rmdir(f"{PODS}/uid-of-kube-multus-x1")
    os.rmdir(f"{PODS}/another")
    assert found(host.look_anew())[f"{CNI}/multus.d/multus.kubeconfig", ""].pod_is_here is None, "no kubelet to ask"


@in_namespaces
def test_files_that_are_not_as_they_should_be(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    path = leave(CNI, "calico", token(time.time()))
    whole = path.read_bytes()
    path.write_bytes(b"")
    assert _of(host, path).problem == "is empty"
    path.write_bytes(whole[: whole.index(b"eyJ") + 100])
    assert (said := _of(host, path).problem) == "its token has not three parts", said
    path.write_bytes(whole + b" " * (64 << 10))
    assert "more than 65536 bytes" in _of(host, path).problem
    path.unlink()
    os.mkfifo(path)
    assert _of(host, path).problem == "cannot be read: not a regular file"
    path.unlink()
    path.symlink_to("/etc/nowhere")
    assert (str(path), "") not in found(host.look_anew())
    path.unlink()
    path.mkdir()
    assert (str(path), "") not in found(host.look_anew())
    for name in ("notes.txt", "10-x.conf", "big.kubeconfig"):
        Path(CNI, name).write_bytes(b"x" * 100_000 if name.startswith("big") else b"users are many")
    assert host.look_anew().credentials == ()


@in_namespaces
def test_a_file_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """As calico-node writes: truncated in place, and whole some moments later."""
    host = FakeHost(tmp_path)
    path = leave(CNI, "calico", token(time.time()))
    whole = path.read_bytes()
    host.look_anew()
    wholes = 0
    for _ in range(10):
        go, ready = os.pipe()
        if os.fork() == 0:
            with open(path, "wb") as file:
                os.write(ready, b"x")
                time.sleep(0.003)
                file.write(whole)
            os._exit(0)
        os.read(go, 1)
        one = _of(host, path)
        os.wait()
        os.close(go)
        os.close(ready)
        assert one.problem in ("", "is empty", "is being written"), "never another one"
        wholes += not one.problem
        assert not _of(host, path).problem, "and whole at the next look"
    assert wholes


@in_namespaces
def test_a_certificate_of_the_thick_plugin(tmp_path: Path) -> None:
    """The link that names the current one, outside of the CNI directory. Its end: openssl-x509(1)."""
    host = FakeHost(tmp_path)
    os.makedirs("/etc/cni/multus/certs")
    Path("/etc/cni/multus/certs/multus-client-2026.pem").write_text(
        OLD_CERTIFICATE + "-----BEGIN EC PRIVATE KEY-----\nMHc="
    )
    os.symlink("multus-client-2026.pem", "/etc/cni/multus/certs/multus-client-current.pem")
    (one,) = host.look_anew().credentials
    assert (one.writer, one.kind, one.subject) == ("multus-thick", "certificate", "apiserver")
    assert (one.issued_at, one.expires_at) == (1796071718.0, 1796935718.0)
    assert b"MHc" not in msgspec.json.encode(one)


@in_namespaces
def test_what_is_remembered_is_read_anew_for_a_reason(tmp_path: Path) -> None:
    """The watcher's look: a hint or the resync makes it forget; a switch, and a container that comes, it notices."""
    host = FakeHost(tmp_path)
    now = float(int(time.time()))
    leave(CNI, "calico", token(now - HOUR))
    leave(NEW_CNI, "calico", token(now - 2 * HOUR))
    host.container("calico-node", [Bind(CNI, HOST_CNI)])

    def issued() -> list[float]:
        return [now - (one.issued_at or 0.0) for one in host.look().credentials]

    assert issued() == [HOUR]
    leave(CNI, "calico", token(now))
    assert issued() == [HOUR], "nobody told it"
    host.looker.credentials.forget()
    assert issued() == [0.0]
    host.patch()
    assert issued() == [2 * HOUR, 0.0], "the host's, and what the container holds"
    reads: list[str] = []
    real = Root.read

    def read(root: Root, path: str, limit: int) -> bytes:
        reads.append(path)
        return real(root, path, limit)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Root, "read", read)
        assert issued() == [2 * HOUR, 0.0] and not [path for path in reads if "kubeconfig" in path], "and none is read"
        host.looker.credentials.forget()
        assert issued() == [2 * HOUR, 0.0] and [path for path in reads if "kubeconfig" in path]


@in_namespaces
def test_what_was_not_whole_is_read_again_by_the_next_looks(tmp_path: Path) -> None:
    """A watcher that looked into the middle of a write, and got its hint before the end of it. A file that stays as it
    is costs no more after some looks."""
    host = FakeHost(tmp_path)
    path = leave(CNI, "calico", token(float(int(time.time()))))
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    assert [bool(one.problem) for one in host.look().credentials] == [True]
    path.write_text(whole)
    assert [one.problem for one in host.look().credentials] == [""]
    host.looker.credentials.forget()
    path.write_text("")
    for _ in range(_MOST_UNWHOLE):
        assert host.look().credentials[0].problem
    path.write_text(whole)
    assert host.look().credentials[0].problem, "kept, until somebody says that it has changed"


def _of(host: FakeHost, path: Path) -> Credential:
    return found(host.look_anew())[str(path), ""]


@in_namespaces
def test_the_token_that_kubelet_has_in_the_pods_volume(tmp_path: Path) -> None:
    """As kubelet lays it out: a link to a link to the newest directory. Compared, and nothing of it is kept."""
    host = FakeHost(tmp_path)
    now = float(int(time.time()))
    old, new = (token(now - age, HOUR, pod="kube-multus-x1", uid="uid-1") for age in (600, 60))
    volume = Path(f"{PODS}/uid-1/volumes/kubernetes.io~projected/kube-api-access-x")

    def project(name: str, text: str) -> None:
        (volume / name).mkdir(parents=True)
        (volume / name / "token").write_text(text)
        (volume / name / "ca.crt").write_text("eyJ of another kind")
        os.symlink(name, volume / "..data_tmp")
        os.rename(volume / "..data_tmp", volume / "..data")

    def of_host() -> Credential:
        (one,) = host.look_anew().credentials
        return one

    leave(CNI, "multus", old)
    assert of_host().projected is None, "kubelet has nothing of it"
    project("..2026_1", old)
    for name in ("token", "ca.crt"):
        os.symlink(f"..data/{name}", volume / name)
    assert of_host().projected is True and of_host().pod_is_here is True
    project("..2026_2", new)
    assert of_host().projected is False, "it was made anew, and the writer has not copied it"
    leave(CNI, "multus", new)
    snapshot = host.look_anew()
    assert snapshot.credentials[0].projected is True
    text = repr(snapshot) + msgspec.json.encode(snapshot).decode()
    assert not any(part in text for one in (old, new) for part in one.split("."))
