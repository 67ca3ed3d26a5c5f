# SPDX-License-Identifier: Apache-2.0
"""Runtime, shim, conmon and kubelet in mount namespaces of their own, and pods in virtual machines: who is found, and
which restart cures."""

from __future__ import annotations

import errno
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from ostreewatchd.judge import judge
from ostreewatchd.model import Finding, Snapshot
from tests.host.fakehost import CNI, Bind, FakeHost, bind, mount, show, unshare_mounts
from tests.host.namespace import in_namespaces, needs_root
from tests.host.pretend import pretend

pytestmark = needs_root

HOST_CNI = f"/host{CNI}"
_REC, _PRIVATE, _SLAVE = 0x4000, 1 << 18, 1 << 19


def process(
    prepare: Callable[[], None], *, propagation: int = 0, group: str = "", host: FakeHost | None = None
) -> int:
    """Start one that prepares itself and then waits. `propagation`: in a mount namespace of its own."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        try:
            if propagation:
                unshare_mounts()
                mount("none", "/", flags=_REC | propagation)
            if host is not None and group:
                host._join(group)
            prepare()
            os.write(tell, b"x")
            while True:
                signal.pause()
        except BaseException:  # noqa: BLE001 (the parent shows it)
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(ready, 1) == b"x"
    os.close(ready)
    return pid


def containerd() -> None:
    pretend("containerd")


def about_mounts(snapshot: Snapshot) -> list[Finding]:
    """Who pretends to be a runtime here has no watch, which is not the matter."""
    return [one for one in judge(snapshot) if one.rule != "runtime-watch-stale"]


def by_rule(snapshot: Snapshot) -> dict[tuple[str, str], Finding]:
    """By rule and subject, of the CNI directory or of what comes first."""
    show(snapshot)
    return {(one.rule, one.subject.container or one.subject.unit): one for one in about_mounts(snapshot)}


@in_namespaces
def test_daemons_of_the_host(tmp_path: Path) -> None:
    """By name, root's, in no container; with and without memory, and gone when they end."""
    host = FakeHost(tmp_path)
    runtime = process(containerd, host=host, group="containerd.service")
    kubelet = process(lambda: pretend("kubelet"), propagation=_SLAVE)

    def another_user() -> None:
        pretend("crio")
        os.setresuid(1000, 1000, 1000)

    process(another_user)
    host.container("liar", body=containerd)
    for snapshot in (host.look(), host.look(), host.look_anew()):
        assert [(one.kind, one.name, one.pid, one.unit) for one in snapshot.daemons] == [
            ("runtime", "containerd", runtime, "containerd.service"), ("kubelet", "kubelet", kubelet, ""),
        ]  # fmt: skip
        assert snapshot.daemons[0].mount_namespace == snapshot.init_mount_namespace
        assert snapshot.daemons[1].mount_namespace != snapshot.init_mount_namespace
    os.kill(runtime, signal.SIGKILL)
    os.waitpid(runtime, 0)
    assert [one.kind for one in host.look().daemons] == ["kubelet"]


@in_namespaces
def test_a_runtime_that_is_left_behind(tmp_path: Path) -> None:
    """It and its container's shim: the unit's restart is recommended, nothing is owed."""
    host = FakeHost(tmp_path)

    def start() -> None:
        pretend("containerd")
        host._join("containerd.service")
        host.container("calico-node", [Bind(CNI, HOST_CNI)])

    process(start, propagation=_PRIVATE)
    assert judge(host.look()) == ()
    host.patch()
    found = by_rule(host.look())
    unit = found["runtime-namespace", "containerd.service"]
    assert unit.verdict == "stale" and not unit.owed and "systemctl restart containerd.service" in unit.remedy
    one = found["runtime-namespace", "calico-node"]
    assert one.verdict == "unknown" and "the runtime (containerd)" in one.reason
    assert "restart containerd.service" in one.remedy and "new shim" in one.remedy
    assert len(found) == 2


def _held_process(point: str) -> None:
    """A runtime whose namespace is bound. Only a namespace that was made later can be, and which one was is told by
    numbers that each processor hands out from a stock of its own (Linux 6.18): so not each will do."""
    for _ in range(200):
        pid = process(containerd, propagation=_PRIVATE)
        try:
            bind(f"/proc/{pid}/ns/mnt", point)
            return
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    raise AssertionError("no namespace can be held")


@in_namespaces
def test_a_namespace_that_is_held(tmp_path: Path) -> None:
    """kubens that was cut off: a restart of the runtime alone joins it again."""
    host = FakeHost(tmp_path)
    Path("/run/kubens").touch()
    _held_process("/run/kubens")
    host.patch()
    (finding,) = about_mounts(host.look())
    assert finding.rule == "runtime-namespace" and "holds /run/kubens" in finding.remedy
    assert host.look().daemons[0].held_at == "/run/kubens"


@in_namespaces
def test_kubens_that_follows(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)

    def start() -> None:
        pretend("crio")
        host.container("calico-node", [Bind(CNI, HOST_CNI)])
        if os.fork() == 0:
            pretend("kubelet")
            os.closerange(3, 64)
            while True:
                signal.pause()

    process(start, propagation=_SLAVE)
    host.patch()
    snapshot = host.look()
    assert {one.mount_namespace for one in snapshot.daemons} == {snapshot.containers[0].binder.mount_namespace}
    (finding,) = about_mounts(snapshot)
    assert (finding.rule, finding.owed) == ("stale-mount", True)


@in_namespaces
def test_only_the_shim_is_left_behind(tmp_path: Path) -> None:
    """The runtime was restarted since and sees what PID 1 sees: no unit, and no container stop, but a new sandbox."""
    host = FakeHost(tmp_path)
    process(containerd)

    def shim() -> None:
        pretend("containerd-shim")
        host.container("calico-node", [Bind(CNI, HOST_CNI)])

    process(shim, propagation=_PRIVATE)
    host.patch()
    (finding,) = about_mounts(host.look())
    assert (finding.rule, finding.verdict, finding.owed) == ("runtime-namespace", "stale", True)
    assert "the pod's shim" in finding.reason and "new shim" in finding.remedy and "no unit" in finding.remedy
    assert host.look().containers[0].binder.kind == "shim"


@in_namespaces
def test_a_conmon_that_is_left_behind(tmp_path: Path) -> None:
    """Each container gets a new one, of CRI-O's namespace: a container stop is all that it takes."""
    host = FakeHost(tmp_path)
    process(lambda: pretend("crio"))

    def conmon() -> None:
        pretend("conmon")
        host.container("calico-node", [Bind(CNI, HOST_CNI)])

    process(conmon, propagation=_PRIVATE)
    host.patch()
    snapshot = host.look()
    (finding,) = about_mounts(snapshot)
    assert (finding.rule, finding.owed) == ("stale-mount", True)
    assert snapshot.containers[0].binds[0].made_in == snapshot.init_mount_namespace


@in_namespaces
def test_a_subpath_is_kubelets(tmp_path: Path) -> None:
    """The runtime binds what kubelet has bound, so what kubelet sees counts: here the host's, and the runtime's own
    view is of no importance. kubelet makes its bind anew at a container's start if the file is another one by then."""
    host = FakeHost(tmp_path)
    point = "/var/lib/kubelet/pods/uid/volume-subpaths/cni/calico-node/0"
    Path(point).parent.mkdir(parents=True)
    Path(point).touch()
    name = f"{CNI}/10-calico.conflist"
    bind(name, point)

    def start() -> None:
        pretend("containerd")
        body = [Bind(name, "/conf/10-calico.conflist", says=point)]
        host.container("calico-node", body)

    process(start, propagation=_PRIVATE)
    process(lambda: pretend("kubelet"))
    snapshot = host.look()
    (one,) = snapshot.containers[0].binds
    assert (one.host_path, one.made_in) == (name, snapshot.init_mount_namespace)
    assert not about_mounts(snapshot)
    host.patch()
    found = by_rule(host.look())
    finding = found["stale-mount", "calico-node"]
    assert finding.owed and finding.path == name and finding.remedy.startswith("stop the container")
    assert ("runtime-namespace", "containerd") in found and len(found) == 2


@in_namespaces
def test_a_virtual_machine(tmp_path: Path) -> None:
    """Unknown once the host was switched, by name; its virtiofsd is no container."""
    host = FakeHost(tmp_path)
    sandbox, nameless = "7" * 64, "8" * 64
    host.write_bundle(sandbox, "vm", [], **{"container-type": "sandbox"})
    shim = "/usr/bin/containerd-shim-kata-v2"

    def start(id: str) -> None:
        pretend("containerd-shim-kata-v2", shim, "-id", id)

    uid = "0f3a1f52-7b0e-4d6a-9a3f-2b7d1a5c9e11"
    os.makedirs(f"/var/log/pods/default_web-0_{uid}")
    process(lambda: start(sandbox))
    process(lambda: start(nameless), host=host, group=f"pod{uid}")
    process(lambda: pretend("containerd-shim", "/usr/bin/containerd-shim-runc-v2", "-id", "9" * 64))
    host.container("virtiofsd", [Bind(CNI, HOST_CNI)], group=nameless, bundle=False)
    snapshot = host.look()
    assert judge(snapshot) == (), "nothing was switched"
    assert snapshot.vm_sandboxes == host.look_anew().vm_sandboxes
    host.patch()
    found = [one for one in judge(host.look()) if one.rule == "vm-sandbox"]
    assert found == list(judge(host.look()))
    assert sorted(str(one.subject) for one in found) == ["default/web-0", "kube-system/vm-x1"]
    assert {(one.verdict, one.owed) for one in found} == {("unknown", False)}
    assert all("virtual machine (containerd-shim-kata-v2)" in one.reason for one in found)
