# SPDX-License-Identifier: Apache-2.0
"""What is broken, forged or unreadable is named, restarts nothing by mistake, and the healthy rest goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import pods
from tests.lab.node import Node
from tests.lab.witness import (
    CNI,
    MOUNTED,
    REMEDIATION,
    SETTINGS,
    WATCHER,
    acts,
    ctl,
    facts,
    healed,
    idle,
    instances,
    refused,
    reports,
    start,
    start_writers,
    status_text,
    stops,
    untouched,
    wait_refusal,
)

pytestmark = pytest.mark.lab

LEDGER = "/var/lib/ostreewatchd/ledger.db"
FORGED = "evil\nowed: forged: nothing of this is true\x1b[2J\x1b]0;title\x07\u202e\x85"

# A bind of one mount namespace into another: `old root path` of the first process becomes the path of the second.
MOVE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
first, source, second, target = sys.argv[1:]
namespaces = [os.open(f"{process}/ns/mnt", os.O_RDONLY) for process in (first, second)]
checked(libc.setns(namespaces[0], 0x20000))
tree = checked(libc.syscall(428, -100, source.encode(), 0x80001))
checked(libc.setns(namespaces[1], 0x20000))
checked(libc.syscall(429, tree, b"", -100, target.encode(), 0x4))
"""


def test_unreadable_proc_entry_is_unknown_and_the_rest_is_healed(node: Node) -> None:
    """Invariants 4 and 12. One container's mountinfo answers EIO to all that the product reads with: it is said
    everywhere, that container is left alone, and the other one is healed."""
    before = start_writers(node)
    pid = node.container("kube-multus").pid
    entry = f"/proc/{pid}/mountinfo"
    for unit in (WATCHER, REMEDIATION):
        drop_in = f"/run/systemd/system/{unit}.d"
        node.sh(f"mkdir -p {drop_in} && cat >{drop_in}/unreadable.conf", input=(
            f"[Service]\nBindReadOnlyPaths=/proc/1/mem:{entry}\n"
        ))  # fmt: skip
    node.sh(f"mount --bind /proc/1/mem {entry} && systemctl daemon-reload && systemctl restart {WATCHER}")
    node.wait(lambda: reports(node, "unknown"), 10, "the watcher says what it cannot read")
    assert entry in reports(node, "unknown")[-1]["MESSAGE"]
    assert "1 not read" in status_text(node)
    code, text = ctl(node, "status")
    assert code == 3, "something may be owed that was not seen"
    assert "not read" in text and entry in text and before["kube-multus"].id[:12] in text

    node.in_service_patch()

    healed(node, {"calico-node": before["calico-node"]})
    untouched(node, {"kube-multus": before["kube-multus"]}, seconds=1.0)
    assert [name for name, _ in acts(node)] == ["calico-node"]
    assert [one["where"] for one in facts(node, "scan")["problems"]]

    node.sh(f"umount {entry}; rm -r /run/systemd/system/{WATCHER}.d /run/systemd/system/{REMEDIATION}.d")
    node.sh(f"systemctl daemon-reload && systemctl restart {WATCHER}")

    after = healed(node, {"kube-multus": before["kube-multus"]})
    assert after["kube-multus"].restarts == 1
    assert instances(node)["calico-node"].restarts == 1


def test_names_with_newlines_and_escapes_forge_nothing(node: Node) -> None:
    """Invariant 12. In the bundles of a bystander and of a writer, and below /var/log/containers, over a real name
    too: journal and terminal get one printable line each, and the writer is healed by its id."""
    before = start(node, pods.calico_node(), pods.etc_readonly())
    tasks = Path(node.root, "run/containerd/io.containerd.runtime.v2.task/k8s.io")
    for one in before.values():
        bundle = tasks / one.id / "config.json"
        text = bundle.read_text()
        name = next(name for name in before if before[name] == one)
        assert text.count(f'"{name}-{node.name}"') >= 1
        escaped = "".join(f"\\u{ord(char):04x}" for char in FORGED)
        bundle.write_text(text.replace(f'"{name}-{node.name}"', f'"{escaped}"'))
    logs = node.disk.var / "log/containers"
    (logs / f"{FORGED}_kube-system_x-{'0' * 64}.log").symlink_to(f"/var/log/pods/{FORGED}_{FORGED}_1/x/0.log")
    (logs / f"zz\n_kube-system_x-{before['calico-node'].id}.log").symlink_to("/nowhere\n/0.log")

    node.in_service_patch()

    node.wait(lambda: acts(node) and acts(node)[0][1] and idle(node), 30, "the writer's act is done")
    assert instances(node, ["calico-node"])["calico-node"].restarts == 1
    # By kubelet's numbers alone: the name in the bundle is no longer this pod's.
    bystander = node.pod_status("etc-readonly").containers["etc-readonly"]
    assert (bystander.id, bystander.restarts) == (before["etc-readonly"].id, 0)
    noted = [one for one in reports(node, "noted") if one.get("OSTREEWATCHD_POD_UID") == before["etc-readonly"].uid]
    assert noted and all("evil\\nowed" in one["OSTREEWATCHD_POD"] for one in noted)
    for kind in ("owed", "noted", "intent", "cured"):
        for entry in reports(node, kind):
            assert all(value.isprintable() for field, value in entry.items() if field.startswith("OSTREEWATCHD_"))
            assert entry["MESSAGE"].isprintable() and not entry["MESSAGE"].startswith("owed: forged")
    for verb in (["status"], ["scan"], ["explain", "evil"], ["history"], ["plan"]):
        _, text = ctl(node, *verb)
        lines = text.splitlines()
        assert lines and all(line.isprintable() for line in lines), (verb, text)
        assert not [line for line in lines if line.lstrip().startswith("owed: forged")], (verb, text)
    assert "evil" in ctl(node, "scan")[1]
    names = {one["subject"]["pod"] for one in facts(node, "scan")["findings"]}
    assert FORGED in names, "JSON has escapes of its own: the name is whole"


def test_unknown_key_is_named_with_file_and_line_and_the_rest_holds(node: Node) -> None:
    """Invariant 12."""
    node.sh(f"cat >{SETTINGS}", input="# ours\n[Remediation]\nMode=observe\nColour=blue\n[Watch]\nSettleSec=soon\n")
    node.sh(["systemctl", "restart", WATCHER])
    assert node.sh(["systemctl", "is-active", WATCHER]).stdout == "active\n"
    entries = node.wait(lambda: reports(node, "config"), 10, "the journal names the mistakes")
    assert [(one["OSTREEWATCHD_FILE"], one["OSTREEWATCHD_LINE"]) for one in entries] == [
        (SETTINGS, "4"),
        (SETTINGS, "6"),
    ]
    assert f"{SETTINGS}:4:" in entries[0]["MESSAGE"] and "Colour" in entries[0]["MESSAGE"]
    assert "SettleSec" in entries[1]["MESSAGE"]
    assert reports(node, "started")[-1]["OSTREEWATCHD_MODE"] == "observe", "the valid rest is in effect"
    assert facts(node, "status")["mode"] == "observe"
    shown = node.sh(["ostreewatchctl", "status"], check=False).stderr
    assert f"{SETTINGS}:4:" in shown

    before = start(node, pods.calico_node())
    node.in_service_patch()
    wait_refusal(node, "mode-observe")
    untouched(node, before, seconds=0.5)


def test_corrupt_ledger_is_set_aside_and_what_the_switch_left_is_healed(node: Node) -> None:
    """Invariant 12. All that is owed was started before the switch: nobody needs a memory to know that."""
    before = start_writers(node)
    rubbish = "this is no database\n" * 500
    node.sh(f"mkdir -p $(dirname {LEDGER}) && cat >{LEDGER}", input=rubbish)
    node.in_service_patch()
    healed(node, before)
    _set_aside(node, rubbish)
    assert acts(node) == [("calico-node", "cured"), ("kube-multus", "cured")]


def test_corrupt_ledger_restarts_nothing_that_started_after_the_switch(node: Node) -> None:
    """Invariant 6, with no memory at all: started after the switch and stale still is an alarm, never a restart."""
    private = [{"name": "root-dir", "hostPath": "/", "mountPath": "/hostroot"}]
    before = start(node, pods.calico_node(), pods.pod("keeper", mounts=private))
    node.in_service_patch()
    after = healed(node, before)
    _make_stale_again(node)
    assert [one["path"] for one in facts(node, "scan")["findings"] if one["owed"]] == [CNI]

    assert ctl(node, "remediate")[0] == 1
    assert wait_refusal(node, "already-restarted")["OSTREEWATCHD_ALARM"] == "1"
    untouched(node, after)

    node.wait(lambda: idle(node), 10, "no remediation runs")
    rubbish = "this is no database\n" * 500
    node.sh(f"cat >{LEDGER}", input=rubbish)
    assert ctl(node, "remediate", "--wait", "20")[0] == 1
    entry = wait_refusal(node, "started-after-switch")
    assert entry["OSTREEWATCHD_ALARM"] == "1" and entry["OSTREEWATCHD_CONTAINER"] == "calico-node"
    untouched(node, after, seconds=1.0)
    assert instances(node, after) == after
    assert acts(node) == []
    assert len(stops(node)) == 1, "the first one, of the switch itself"
    _set_aside(node, rubbish)


def test_no_ledger_no_act(node: Node) -> None:
    """Invariant 6. The filesystem of the ledger is full, then it is read-only, then it is sound again."""
    before = start_writers(node)
    folder = LEDGER.rpartition("/")[0]
    node.sh(f"mkdir -p {folder} && mount -t tmpfs -o size=16k,mode=755 tmpfs {folder}")
    node.sh(f"dd if=/dev/zero of={folder}/fill bs=4k 2>/dev/null", check=False)
    node.in_service_patch()
    full = node.wait(lambda: refused(node, "ledger-unusable"), 15, "the journal has the refusal")
    assert "full" in full["MESSAGE"] and LEDGER in full["MESSAGE"]
    untouched(node, before, seconds=0.5)

    node.wait(lambda: idle(node), 10, "no remediation runs")
    node.sh(f"rm {folder}/fill && mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}")
    # Not to wait for the watcher's growing pauses: that it asks again, the refusals' tests show.
    node.sh(["systemctl", "start", REMEDIATION])
    assert "Read-only" in node.journal(OSTREEWATCHD_REFUSAL="ledger-unusable")[-1]["MESSAGE"]
    untouched(node, before, seconds=0.5)
    assert not stops(node)
    assert ctl(node, "plan")[0] == 1

    node.wait(lambda: idle(node), 10, "no remediation runs")
    node.sh(f"umount {folder} && umount {folder}")
    node.sh(["systemctl", "start", REMEDIATION])

    healed(node, before)


def _set_aside(node: Node, rubbish: str) -> None:
    """The corrupt ledger lies beside the new one, whole, and it is told."""
    entry = reports(node, "ledger-aside")
    assert len(entry) == 1 and LEDGER in entry[0]["MESSAGE"]
    kept = list((node.disk.var / "lib/ostreewatchd").glob("ledger.db.corrupt-*"))
    assert [path.read_text() for path in kept] == [rubbish]
    assert kept[0].name in facts(node, "status")["ledger_set_aside"]
    assert kept[0].name in ctl(node, "status")[1]


def _make_stale_again(node: Node) -> None:
    """Bind the old directory, which one pod still has, over the new one of a container that is already restarted."""
    keeper, target = node.container("keeper"), node.container("calico-node")
    first, second = (f"{node.root}/proc/{one.pid}" for one in (keeper, target))
    subprocess.run(
        [sys.executable, "-c", MOVE, first, f"/hostroot{CNI}", second, MOUNTED], check=True, timeout=20
    )  # fmt: skip
    assert node.identity_in(node.container("calico-node"), MOUNTED) != node.identity(CNI)
