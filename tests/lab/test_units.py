# SPDX-License-Identifier: Apache-2.0
"""The two units as systemd runs them on a node: who they are, what they may, and how the watcher is watched."""

import re
import time
from pathlib import Path

import pytest

from tests.lab import pods
from tests.lab.node import Node
from tests.lab.witness import (
    PATH_UNIT,
    REMEDIATION,
    SETTINGS,
    WATCHER,
    findings,
    healed,
    idle,
    reports,
    start,
    status_text,
    wait_refusal,
)

pytestmark = pytest.mark.lab

# systemd-analyze's scale ends at 10; DESIGN §9 for the watcher, what was measured for the remediation.
EXPOSURE = {WATCHER: 1.0, REMEDIATION: 2.1}
# capabilities(7)
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE = 1 << 1, 1 << 2, 1 << 19


@pytest.mark.parametrize("unit", EXPOSURE)
def test_exposure_is_within_its_limit(shared_node: Node, unit: str) -> None:
    """DESIGN §9."""
    text = shared_node.sh(["systemd-analyze", "security", "--no-pager", unit]).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+) ", text)
    assert found, text[-300:]
    assert float(found.group(1)) <= EXPOSURE[unit], text


def test_watcher_is_a_user_with_two_capabilities(shared_node: Node) -> None:
    """DESIGN §4: it may look and cannot act."""
    status = _process(shared_node)
    user = shared_node.sh(["id", "-u", "ostreewatchd"]).stdout.strip()
    assert user != "0" and status["Uid"].split() == [user] * 4
    assert "0" not in status["Groups"].split()
    wanted = f"{CAP_DAC_READ_SEARCH | CAP_SYS_PTRACE:016x}"
    assert {name: status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == dict.fromkeys(
        ("CapPrm", "CapEff", "CapBnd", "CapAmb"), wanted
    )
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_watcher_can_write_nothing_of_the_host(shared_node: Node) -> None:
    """DESIGN §4. With the credentials and the mounts that it has: nothing through PID 1's root or where it stands;
    that it can look there is what it lives by."""
    status = _process(shared_node)
    user, held = status["Uid"].split()[0], int(status["CapEff"], 16)
    capabilities = "-all" + "".join(f",+cap_{number}" for number in range(41) if held >> number & 1)
    script = """
        cat /proc/1/root/etc/shadow >/dev/null && echo looked
        for file in /proc/1/root/etc /proc/1/root/run /proc/1/root/var/lib /etc /usr /var/lib /run; do
            (echo x >$file/forged) 2>/dev/null && echo wrote $file
        done
        (echo x | dd of=/proc/1/root/etc/passwd conv=notrunc) 2>/dev/null && echo wrote passwd
        true"""
    tried = shared_node.sh(
        ["nsenter", f"--target={_main_pid(shared_node)}", "--mount", "--", "setpriv", f"--reuid={user}",
         "--regid=ostreewatchd", "--clear-groups", "--no-new-privs", f"--inh-caps={capabilities}",
         f"--ambient-caps={capabilities}", f"--bounding-set={capabilities}", "/bin/sh", "-c", script]
    ).stdout  # fmt: skip
    assert tried == "looked\n"


def test_all_are_enabled_and_run_from_the_package(shared_node: Node) -> None:
    assert shared_node.sh(["systemctl", "is-enabled", WATCHER]).stdout == "enabled\n"
    assert shared_node.sh(["systemctl", "is-active", WATCHER, PATH_UNIT]).stdout.split() == ["active", "active"]
    for program in ("/usr/libexec/ostreewatchd/ostreewatchd", "/usr/bin/ostreewatchctl"):
        assert shared_node.sh(["rpm", "-qf", program]).stdout.startswith("ostreewatchd-")
    properties = shared_node.sh(["systemctl", "show", WATCHER, "-p", "Type", "-p", "NotifyAccess", "-p", "NRestarts"])
    assert set(properties.stdout.split()) == {"Type=notify", "NotifyAccess=main", "NRestarts=0"}


def test_status_is_true(node: Node) -> None:
    """STATUS= before a switch, while something is owed, and when it is healed, each against the kernel."""
    text = node.wait(lambda: status_text(node), 10, "the watcher tells its status")
    booted = [one.name for one in node.deployments() if one.booted][0]
    assert booted[:10] in text and "nothing stale" in text
    before = start(node, pods.calico_node(), pods.etc_readonly())
    node.sh(f"mkdir -p $(dirname {SETTINGS}) && echo '[Remediation]\nMode=observe' >{SETTINGS}")
    new = Path(node.in_service_patch().pending).name
    wait_refusal(node, "mode-observe")
    text = node.wait(lambda: status_text(node), 10, "the watcher, which was restarted, tells its status")
    found = findings(node)
    owed, noted = len([one for one in found if one["owed"]]), len([one for one in found if not one["owed"]])
    assert owed == 1 and f"{owed} owed, {noted} noted" in text
    assert f"live debian-{new[:10]}" in text and f"booted debian-{booted[:10]}" in text
    node.sh(f"rm {SETTINGS}; systemctl reload {WATCHER}")
    healed(node, before)
    node.wait(lambda: "0 owed" in status_text(node), 10, "STATUS says that nothing is owed")


def test_watchdog_is_fed_by_work_and_bites_when_it_stops(node: Node) -> None:
    """Fed for longer than its time it stays; stopped for longer it is killed and started anew, and heals."""
    before = start(node, pods.calico_node())
    node.sh(
        f"mkdir -p /run/systemd/system/{WATCHER}.d && cat >/run/systemd/system/{WATCHER}.d/short.conf && "
        f"systemctl daemon-reload && systemctl restart {WATCHER}",
        input="[Service]\nWatchdogSec=1s\nRestartSec=100ms\n",
    )
    pid = _main_pid(node)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert _main_pid(node) == pid, "it was killed although it was fed"
        time.sleep(0.2)
    node.kill(WATCHER, 19)  # SIGSTOP

    node.in_service_patch()

    node.wait(lambda: _restarts(node) >= 1, 15, "systemd has started the watcher anew")
    assert [one for one in node.journal(unit=WATCHER) if "Watchdog timeout" in str(one.get("MESSAGE"))]
    healed(node, before)
    node.wait(lambda: idle(node) and "; 0 owed" in status_text(node), 30, "the watcher works again")
    assert len(reports(node, "cured")) == 1


def _main_pid(node: Node) -> int:
    return int(node.sh(["systemctl", "show", "-P", "MainPID", WATCHER]).stdout)


def _restarts(node: Node) -> int:
    return int(node.sh(["systemctl", "show", "-P", "NRestarts", WATCHER]).stdout)


def _process(node: Node) -> dict[str, str]:
    """The watcher's /proc/<pid>/status."""
    text = Path(node.root, "proc", str(_main_pid(node)), "status").read_text()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
