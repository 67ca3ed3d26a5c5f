# SPDX-License-Identifier: Apache-2.0
"""Does the lab do what its verbs say? Tests of the product rely on it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import cgroups, pods, record, switch
from tests.lab.errors import CommandFailed, NodeFailed, TimedOut
from tests.lab.node import Node
from tests.lab.run import REPOSITORY, run

pytestmark = pytest.mark.lab

CNI = "/etc/cni/net.d"
MOUNTED = "/host/etc/cni/net.d"


@pytest.fixture
def bare(built: None) -> Iterator[Node]:
    """A booted node without the product: nobody heals what a test breaks."""
    made = Node.create(product=None)
    try:
        made.boot()
        yield made
    finally:
        made.destroy()


def test_boots_whole_and_runs_pods(bare: Node) -> None:
    assert bare.state() == "running"
    assert bare.sh("systemctl is-active containerd kubelet").stdout.split() == ["active", "active"]
    assert bare.sh("hostname").stdout.strip() == bare.name
    assert [one.booted for one in bare.deployments()] == [True]
    everybody = [
        pods.calico_node(),
        pods.kube_multus(),
        pods.host_root(),
        pods.etc_readonly(),
        pods.lib_modules(),
        pods.plain(host_network=False),
        pods.job_like(),
    ]
    for manifest in everybody:
        bare.apply_pod(manifest)
    for manifest in everybody:
        name = manifest["metadata"]["name"]
        status = bare.wait_pod(name)
        container = bare.container(name)
        assert (container.pod_uid, container.id) == (status.uid, status.containers[name].id)
        assert (container.attempt, status.containers[name].restarts) == (0, 0)
    bare.wait(lambda: bare.sh(f"cat {CNI}/calico-kubeconfig {CNI}/multus.d/multus.kubeconfig").stdout, 10, "tokens")

    begun = time.monotonic()
    bare.remove_pod("plain")
    bare.wait(lambda: not bare.containers("plain"), 10, "the pod is gone")
    assert time.monotonic() - begun < 5, "a pod is to end at SIGTERM, not at the end of its grace period"


def test_commands_run_inside(bare: Node) -> None:
    inside = bare.sh("cat /proc/self/cgroup; readlink /proc/self/ns/*").stdout
    assert cgroups.PREFIX not in inside, "a cgroup namespace's root is /"
    for line in inside.splitlines():
        assert "/.." not in line, f"outside of the node's cgroups: {line}"
    assert bare.sh("pwd").stdout == "/\n"
    with pytest.raises(CommandFailed) as failed:
        bare.sh("echo why >&2; exit 3")
    assert failed.value.status == 3
    assert str(failed.value).startswith("exit status 3: echo why >&2; exit 3 (on node ")
    assert "why" in failed.value.output
    with pytest.raises(CommandFailed, match="not done after"):
        bare.sh("sleep 60", timeout=0.3)
    with pytest.raises(TimedOut, match="something never happens"):
        bare.wait(lambda: False, 0.2, "something never happens")


def test_in_service_patch_parts_host_and_container(bare: Node) -> None:
    bare.apply_pod(pods.calico_node())
    bare.wait_pod("calico-node")
    container = bare.container("calico-node")
    assert bare.identity(CNI) == bare.identity_in(container, MOUNTED)
    before = bare.identity(CNI)
    booted = bare.deployments()[0]

    done = bare.in_service_patch()

    assert done.complete
    assert done.mounted == sorted(done.mounted)
    assert bare.identity_in(container, MOUNTED) == before
    assert bare.identity(CNI) != before
    assert bare.live("/usr") == bare.live("/etc") == Path(done.pending).name
    assert [one for one in bare.deployments() if one.booted] == [booted], "status still stars the old one"
    assert bare.container("calico-node").id == container.id, "nothing restarts it unasked"
    assert bare.sh(f"test -e {switch.PENDING_FLAG}", check=False).returncode == 1
    # kubelet finds manifests in the new /etc although its watch is on the old one.
    bare.apply_pod(pods.plain())
    bare.wait_pod("plain")

    again = bare.in_service_patch()

    assert again.active == done.active == booted.folder
    assert again.pending not in (done.pending, done.active)
    assert bare.live("/etc") == Path(again.pending).name

    bare.reboot()

    assert bare.deployments()[0].folder == again.pending
    assert bare.deployments()[0].booted
    bare.wait_pod("calico-node")
    assert bare.identity(CNI) == bare.identity_in(bare.container("calico-node"), MOUNTED)


def test_half_a_patch(bare: Node) -> None:
    begun = bare.in_service_patch(stop_after=1)
    assert len(begun.mounted) == 1
    assert (bare.live("/usr"), bare.live("/etc")) == (Path(begun.pending).name, Path(begun.active).name)
    assert bare.sh(f"test -e {switch.PENDING_FLAG}", check=False).returncode == 0
    begun.resume(3)
    assert bare.live("/etc") == Path(begun.pending).name
    assert begun.resume().complete
    assert bare.sh(f"test -e {switch.PENDING_FLAG}", check=False).returncode == 1
    with pytest.raises(NodeFailed, match="cannot stop after"):
        begun.resume(2)


def test_commits_carry_and_delete_files(bare: Node) -> None:
    first = bare.commit({"/etc/lab/one": "1", "/usr/bin/hello": "#!/bin/sh\necho hello\n", "/etc/adduser.conf": None})
    second = bare.commit({"/etc/lab/two": b"2", "/usr/share/lab/image.tar": None})
    assert first != second
    bare.reboot_required_patch(second)
    assert bare.sh(f"test -e {switch.REBOOT_FLAG}", check=False).returncode == 0
    assert not Path(bare.root, "usr/bin/hello").exists(), "deployed, not mounted"
    bare.reboot()
    assert bare.sh("cat /etc/lab/one /etc/lab/two; hello").stdout == "12hello\n"
    for gone in ("/etc/adduser.conf", "/usr/share/lab/image.tar"):
        assert bare.sh(["test", "-e", gone], check=False).returncode == 1, gone
    with pytest.raises(NodeFailed, match="cannot carry"):
        bare.commit({"/var/lib/x": "x"})


def test_power_cut_keeps_the_journal(bare: Node) -> None:
    begun = time.time()
    bare.sh(["logger", "-t", "lab-test", "before the cut"])
    leader = bare.leader
    bare.wait(lambda: bare.journal(since=begun - 1, SYSLOG_IDENTIFIER="lab-test"), 10, "the journal has it")
    bare.power_cut()
    assert not bare.running
    assert record.Process.of(leader) is None
    assert [one["MESSAGE"] for one in bare.journal(SYSLOG_IDENTIFIER="lab-test")] == ["before the cut"]
    with pytest.raises(NodeFailed, match="is off"):
        bare.sh("true")
    bare.boot()
    bare.kill("kubelet.service")
    bare.wait(lambda: bare.sh("systemctl show -P NRestarts kubelet").stdout.strip() == "1", 20, "kubelet is back")


def test_product_is_a_second_layer(built: None, tmp_path: Path) -> None:
    """With a package made here: scriptlets run, the unit is enabled, a commit can take it away."""
    rpm = _package(tmp_path)
    node = Node.create(product=rpm)
    try:
        node.boot()
        assert node.sh("systemctl is-active ostreewatchd").stdout == "active\n"
        assert node.sh("rpm -q ostreewatchd").stdout.startswith("ostreewatchd-9")
        assert node.sh("id -un ostreewatchd").stdout == "ostreewatchd\n"
        node.deploy(node.commit(product=None))
        node.reboot()
        assert node.sh("rpm -q ostreewatchd", check=False).returncode != 0
        assert node.sh("systemctl cat ostreewatchd", check=False).returncode != 0
        node.deploy(node.commit(product=rpm))
        node.reboot()
        assert node.sh("systemctl is-active ostreewatchd").stdout == "active\n"
    finally:
        node.destroy()


def _package(folder: Path) -> Path:
    (folder / "x.spec").write_text(
        """
Name: ostreewatchd
Version: 9
Release: 1
Summary: stands in for the product
License: Apache-2.0
BuildArch: noarch
%description
stands in for the product
%install
mkdir -p %{buildroot}/usr/lib/systemd/system %{buildroot}/usr/lib/sysusers.d
printf '[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nUser=ostreewatchd\\nExecStart=true\\n[Install]\\n' \\
    >%{buildroot}/usr/lib/systemd/system/ostreewatchd.service
echo WantedBy=multi-user.target >>%{buildroot}/usr/lib/systemd/system/ostreewatchd.service
echo u ostreewatchd - - >%{buildroot}/usr/lib/sysusers.d/ostreewatchd.conf
%post
systemd-sysusers ostreewatchd.conf
%files
/usr/lib/systemd/system/ostreewatchd.service
/usr/lib/sysusers.d/ostreewatchd.conf
"""
    )
    run(["rpmbuild", "-bb", "--define", f"_topdir {folder}", str(folder / "x.spec")], timeout=60)
    return next(folder.glob("RPMS/noarch/*.rpm"))


@pytest.mark.parametrize("moment", ["installed", "booting", "running"])
def test_nothing_stays_when_the_owner_is_killed(built: None, moment: str) -> None:
    owner, name, nspawn = _owner(moment)
    try:
        owner.kill()
        owner.wait(timeout=10)
        _wait_gone(name, nspawn)
    finally:
        owner.kill()
        owner.communicate(timeout=10)


def test_the_next_node_sweeps_what_a_killed_reaper_left(built: None) -> None:
    owner, name, nspawn = _owner("running")
    try:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if words[-3:-1] == [b"tests.lab.reaper", name.encode()]:
                os.kill(int(folder.name), 9)
        owner.kill()
        owner.wait(timeout=10)
        time.sleep(0.5)
        assert Path(f"/proc/{nspawn}").exists(), "nobody is there to end it"
        Node.create(product=None).destroy()
        _wait_gone(name, nspawn)
    finally:
        owner.kill()
        owner.communicate(timeout=10)


def _owner(moment: str) -> "tuple[subprocess.Popen[str], str, int]":
    """A process with a node, at that moment of the node's life; also nspawn's pid, if there is one."""
    program = [
        "import time; from tests.lab.node import Node",
        "node = Node.create(product=None)",
        "print(node.name, flush=True)",
        *([] if moment == "installed" else ["node.boot()", "print(node.leader, flush=True)"]),
        "time.sleep(600)",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(program)], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert name
    if moment == "running":
        assert process.stdout.readline().strip()
    elif moment == "booting":
        time.sleep(0.15)
    nspawn = record.read(name).nspawn
    return process, name, nspawn.pid if nspawn else 0


def _wait_gone(name: str, nspawn: int) -> None:
    deadline = time.monotonic() + 20
    nodes = record.folder(name).parent
    while time.monotonic() < deadline and any(name in path.name for path in nodes.iterdir()):
        time.sleep(0.1)
    assert not record.folder(name).exists()
    assert name not in cgroups.names()
    assert not nspawn or not Path(f"/proc/{nspawn}/exe").exists()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            mounts, command = (folder / "mountinfo").read_text(), (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError, OSError):
            continue
        assert f"/nodes/{name}/" not in mounts, f"process {folder.name} still has mounts of {name}"
        assert f"--machine={name}" not in command, f"process {folder.name} is left of {name}"
