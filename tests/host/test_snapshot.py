# SPDX-License-Identifier: Apache-2.0
"""A snapshot that was saved on a host: it has what the host has and none of its secrets, and it is judged anywhere as
the host is."""

from __future__ import annotations

import base64
import concurrent.futures.thread  # noqa: F401  What is imported late must be there before the root is another one.
import contextlib
import encodings.idna  # noqa: F401
import hashlib
import io
import json
import os
import signal
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc._channel
import grpc._server
import grpc._utilities  # noqa: F401
import pystemd.dbuslib  # noqa: F401

from ostreewatchd.cli import main
from ostreewatchd.judge import judge
from ostreewatchd.model import Daemon, History, KubeletView, Live, Settings, Snapshot, SystemView
from ostreewatchd.observe import deep
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.look import Answers
from ostreewatchd.plan import plan
from ostreewatchd.platforms import Platform
from ostreewatchd.replay import form
from tests.fakes.credentials import SIGNATURE, kubeconfig, token
from tests.fakes.cri_server import FakeRuntime
from tests.host.fakehost import CNI, OLD, Bind, Container, FakeHost
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root

HOST_CNI = f"/host{CNI}"
FILE = "/tmp/saved.json"
DAEMON_SET = {"controller-revision-hash": "1", "pod-template-generation": "1"}
JWT = token(1.8e9, pod="calico-node-x1")
NEWER = token(1.8e9 + 3600)
"""Which the container writes after the switch."""
SECRETS = {
    "token": JWT,
    "key": "MIIEowIBAAKCAQEAsecretkeymaterial",
    "env": "hunter2-from-the-environment",
    "annotation": "hunter3-from-an-annotation",
    "label": "hunter4-from-a-label",
    "manifest": "hunter5-from-a-manifest",
    "kubeconfig": "hunter6-from-a-kubeconfig",
    "file": "hunter7-from-a-file-beside",
}

MANIFEST = f"""
kind: Pod
metadata: {{name: etcd, namespace: kube-system, annotations: {{a: {SECRETS["manifest"]}}}}}
spec: {{containers: [{{name: etcd, env: [{{name: PASSWORD, value: {SECRETS["manifest"]}}}]}}]}}
"""


def said(*arguments: str, status: int) -> str:
    """What the command prints."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out):
        got = main(list(arguments))
        out.flush()
    assert got == status, (arguments, got)
    return out.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]


def fake_host(folder: Path) -> FakeHost:
    with contextlib.redirect_stdout(io.StringIO()):
        main(["plan"])  # What is imported late is, before the root is another one.
    os.environ["API_TOKEN"] = SECRETS["env"]
    host = FakeHost(folder)
    host.join_init_scope()
    os.mkdir("/dev")
    os.mknod("/dev/urandom", stat.S_IFCHR | 0o666, os.makedev(1, 9))  # grpc wants it.
    return host


@contextlib.contextmanager
def runtime(*containers: Container) -> Iterator[None]:
    """containerd answers, and says more than anybody should keep."""
    with FakeRuntime(Path("/run/containerd/containerd.sock")) as fake:
        for number, one in enumerate(containers, start=1):
            secrets = {"config.example.com/password": SECRETS["annotation"]}
            labels = {**DAEMON_SET, "example.com/secret": SECRETS["label"]}
            sandbox = fake.sandbox(number, name=f"{one.name}-x1", labels=labels, annotations=secrets)
            box = fake.containers[fake.container(100 + number, sandbox, name=one.name)]
            del fake.containers[box.status.id]
            box.status.id = one.id
            fake.containers[one.id] = box
        yield


class Well(deep.DeepLook):
    """systemd and kubelet are well: there are none in these namespaces. The runtime is asked."""

    def ask(self, host: Host, platform: Platform, daemons: Sequence[Daemon], live: Live, history: History) -> Answers:
        answers = super().ask(host, platform, daemons, live, history)
        assert answers.system.problem and answers.kubelet.problem and answers.rpm_ostree.problem
        return answers._replace(system=SystemView(state="running"), kubelet=KubeletView(pid=1))


@in_namespaces
def test_it_is_judged_and_planned_anywhere_as_on_the_host(tmp_path: Path) -> None:
    """The same text of scan, plan and explain, also for machines; with the refusals of a host on which nobody answers,
    and with the steps of one where all do."""
    host = fake_host(tmp_path)
    odd = Bind("/etc", "/odd\udcff name")
    writer = host.container("calico-node", [Bind(CNI, HOST_CNI), odd], bundle=False, link=True)
    late = host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.container("modules", [Bind("/usr/lib/modules", "/lib/modules", writable=False)])
    host.patch()
    host.write("/etc/ostreewatchd/ostreewatchd.conf", "[Watch]\nCNIDirectories=/etc/cni/other\n")
    commands = (("scan",), ("scan", "--json"), ("plan",), ("plan", "--json"), ("explain", "calico-node"),
                ("explain", "multus", "--json"))  # fmt: skip
    with runtime(writer, late):
        for deep_look, text in ((deep.DeepLook, "kubelet-inactive"), (Well, "stop container")):
            original = deep.DeepLook
            deep.DeepLook = deep_look  # type: ignore[misc]
            try:
                live = [said(*command, status=1) for command in commands]
                assert said("snapshot", "save", "--output", FILE, status=0) == f"{FILE}\n"
            finally:
                deep.DeepLook = original  # type: ignore[misc]
            assert text in live[2]
            snapshot = form.load(Path(FILE).read_bytes())
            assert snapshot.settings is not None and snapshot.settings.cni_directories == ("/etc/cni/other",)
            assert "/odd\udcff name" in [it.path for one in snapshot.containers for it in one.binds]
            for command, before in zip(commands, live):
                assert said(*command, "--from", FILE, status=1) == before, command
    assert len(plan(snapshot, judge(snapshot), snapshot.settings).steps) == 2
    assert os.stat(FILE).st_mode & 0o7777 == 0o600


def plant(host: FakeHost) -> Container:
    """Secrets wherever a node has some."""
    tree = f"/sysroot/ostree/deploy/debian/deploy/{OLD}.0"
    for name, text in {
        f"{CNI}/calico-kubeconfig": kubeconfig("calico", JWT),
        f"{CNI}/multus.d/multus.kubeconfig": kubeconfig("multus", JWT)[:-900],
        f"{CNI}/99-x.conflist": json.dumps({"plugins": [{"password": SECRETS["file"]}]}),
        "/etc/kubernetes/kubelet.conf": f"users: [{{user: {{password: {SECRETS['kubeconfig']}}}}}]",
        "/etc/kubernetes/pki/ca.key": f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n-----END PRIVATE KEY-----",
        f"{tree}/etc/broken.origin": SECRETS["file"],
        "/run/ostree/staged-deployment": SECRETS["file"],
        "/run/ostree-booted": SECRETS["file"],
        "/var/log/containers/notes.log": SECRETS["file"],
        "/var/lib/ostreewatchd/ledger.db": SECRETS["file"],
    }.items():
        os.makedirs(os.path.dirname(name), exist_ok=True)
        Path(name).write_text(text)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI), Bind("/etc/kubernetes/pki", "/pki")])
    path = Path(f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{one.id}/config.json")
    spec = json.loads(path.read_text())
    spec["process"] = {"env": [f"PASSWORD={SECRETS['env']}"], "args": ["x", f"--token={JWT}"]}
    spec["annotations"]["example.com/secret"] = SECRETS["annotation"]
    path.write_text(json.dumps(spec))
    torn = host.container("torn", [Bind(CNI, HOST_CNI)])
    path = Path(f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{torn.id}/config.json")
    path.write_text(json.dumps(spec)[:-5])
    return one


def traces(text: str) -> list[str]:
    """Of the planted tokens: segments, pieces of them, and other ways to write them."""
    found = []
    for one in (JWT, NEWER):
        header, claims, signature = one.split(".")
        for secret in (header, claims, signature, signature[:16], signature[-16:], claims[40:64]):
            data = secret.encode()
            forms = (
                secret,
                data.hex(),
                base64.b64encode(data).decode()[:-4],
                secret[::-1],
                hashlib.sha256(data).hexdigest(),
            )
            found += [form for form in forms if form in text]
        digests = (getattr(hashlib, name)(one.encode()).hexdigest() for name in ("md5", "sha1", "sha256"))
        found += [form for form in digests if form in text]
    assert SIGNATURE.startswith(JWT.split(".")[2])
    return found + [word for word in ("signature of the planted", "kubernetes.default.svc") if word in text]


@in_namespaces
def test_no_secret_of_the_host_is_in_it(tmp_path: Path) -> None:
    """Invariant 10, by grep. And nothing that could be looked at was left out for it."""
    host = fake_host(tmp_path)
    one = plant(host)
    ready, tell = os.pipe()
    kubelet = os.fork()
    if kubelet == 0:
        Path("/proc/self/comm").write_text("kubelet")
        os.write(tell, b"x")
        while True:
            signal.pause()
    os.read(ready, 1)
    host.patch()
    os.makedirs("/etc/kubernetes/manifests")
    Path("/etc/kubernetes/manifests/etcd.yaml").write_text(MANIFEST)
    Path(f"{CNI}/calico-kubeconfig").write_text(kubeconfig("calico", JWT))
    Path(f"/proc/{one.pid}/root{HOST_CNI}/calico-kubeconfig").write_text(kubeconfig("calico", NEWER))
    try:
        with runtime(one):
            for words in (("scan",), ("scan", "--json"), ("plan", "--json"), ("explain", "calico-node"), ("status",)):
                assert not traces(said(*words, status=1)), words
            for options in ((), ("--anonymize",)):
                said("snapshot", "save", "--output", FILE, *options, status=0)
                text = Path(FILE).read_text()
                for where, secret in SECRETS.items():
                    assert secret not in text, where
                assert not traces(text)
                assert not any(word in text for word in ("hunter", "PRIVATE KEY", "eyJ", "example.com"))
                snapshot = form.load(text.encode())
                assert snapshot.kubelet is not None and snapshot.kubelet.pid is not None
                assert [pod.name for pod in snapshot.kubelet.static_pods] == ["etcd"]
                assert snapshot.runtime is not None
                assert [set(pod.labels) for pod in snapshot.runtime.pods] == [set(DAEMON_SET)], snapshot.runtime
                read = [it for it in snapshot.credentials if it.kind == "token" and it.expires_at]
                assert {it.container_id != "" for it in read} == {True, False}, "they were looked at"
                assert any("conflist" in name for name in snapshot.containers[0].binds[0].sight.names)
                assert any(finding.owed for finding in judge(snapshot))
    finally:
        os.kill(kubelet, signal.SIGKILL)
        os.waitpid(kubelet, 0)


@in_namespaces
def test_anonymized_it_does_not_tell_whose_host_it_was(tmp_path: Path) -> None:
    host = fake_host(tmp_path)
    one = host.container("payments", [Bind(CNI, HOST_CNI), Bind("/usr", "/srv/acme")])
    host.patch()
    with runtime(one):
        said("snapshot", "save", "--anonymize", "--output", FILE, status=0)
    text = Path(FILE).read_text()
    for name in ("payments", "acme", one.id[:10], OLD[:10]):
        assert name not in text, name
    snapshot = form.load(text.encode())
    shown = host.look()
    assert snapshot.node.name == "node1"
    assert [(it.verdict, it.owed) for it in judge(snapshot)] == [(it.verdict, it.owed) for it in judge(shown)]
    assert judge(shown)


@in_namespaces
def test_a_broken_host_is_saved_too(tmp_path: Path) -> None:
    """No deployment, no runtime, no boot loader, files that are no files: what cannot be read is in it."""
    host = fake_host(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)], bundle=False)
    host.patch()
    for path in ("/run/ostree-booted", "/run/ostree/staged-deployment", "/var/lib/ostreewatchd/ledger.db",
                 "/etc/ostreewatchd/ostreewatchd.conf", "/run/containerd/containerd.sock"):  # fmt: skip
        os.makedirs(path)
    data = said("snapshot", "save", "--output", "-", status=0)
    snapshot: Snapshot = form.load(data.encode())
    assert snapshot.history.problem and snapshot.system is not None and snapshot.system.problem
    assert snapshot.runtime is not None and snapshot.runtime.problem
    assert any("whose it is" in one.what for one in snapshot.problems)
    assert [one.rule for one in judge(snapshot) if one.owed] == ["stale-mount"]
    refusals = {one.name for one in plan(snapshot, judge(snapshot), Settings()).refusals}
    assert refusals >= {"systemd-not-answering", "runtime-not-answering", "kubelet-inactive"}
    assert any(name.startswith("ledger-") for name in refusals)
