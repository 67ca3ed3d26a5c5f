# SPDX-License-Identifier: Apache-2.0
"""Where a restart could not be undone by kubelet, or is not wanted, nothing is stopped and the reason has a name;
when the reason is gone, the same switch is healed without anybody's help."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Optional

import pytest

from tests.lab import pods
from tests.lab.node import Node
from tests.lab.switch import PENDING_FLAG
from tests.lab.witness import (
    CNI,
    SETTINGS,
    WATCHER,
    WRITERS,
    acts,
    ctl,
    facts,
    findings,
    fresh,
    healed,
    instances,
    ledger,
    reaches_host,
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

# What is done to the node, what undoes it, and the name of the refusal.
CAUSES = {
    "kubelet is stopped": ("systemctl stop kubelet", "systemctl start kubelet", "kubelet-inactive"),
    "the runtime does not answer": (
        "systemctl kill --kill-who=main -s STOP containerd",
        "systemctl kill --kill-who=main -s CONT containerd",
        "runtime-not-answering",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_nothing_is_stopped_that_would_not_start_again(node: Node, cause: str) -> None:
    """DESIGN §7: a refusal with its name; healed once the cause is gone, without a new switch."""
    spoil, repair, name = CAUSES[cause]
    before = start_writers(node)
    node.sh(spoil)
    node.in_service_patch()

    entry = wait_refusal(node, name)

    assert entry["OSTREEWATCHD_ENDS"]
    untouched(node, before, seconds=0.5)
    assert ctl(node, "status")[0] == 1
    assert acts(node) == [] and not stops(node)

    node.sh(repair)

    healed(node, before, timeout=45)
    assert all(reaches_host(node, one) for one in WRITERS)


def test_nothing_is_stopped_while_mounts_are_still_to_come(node: Node) -> None:
    """/run/mount_pending, with /usr and /etc of the new deployment already: the watcher waits and says for what; a
    person who asks gets a refusal."""
    before = start_writers(node)
    switch = node.in_service_patch(stop_after=3)
    node.wait(lambda: PENDING_FLAG in status_text(node), 10, "STATUS says what is waited for")
    assert ctl(node, "remediate", "--wait", "20")[0] == 1
    wait_refusal(node, "switch-in-progress")
    untouched(node, before, seconds=0.5)
    assert PENDING_FLAG in ctl(node, "status")[1]

    switch.resume()

    healed(node, before)
    assert PENDING_FLAG not in status_text(node)


def test_nothing_is_stopped_where_the_new_tree_lacks_cni_configuration(node: Node) -> None:
    """What an init container once wrote nobody would write again: with the old directory pods still start."""
    before = start_writers(node)
    node.in_service_patch(node.commit({f"{CNI}/10-lab.conflist": None}))
    entry = wait_refusal(node, "cni-configuration-missing")
    assert "10-lab.conflist" in entry["MESSAGE"] and entry["OSTREEWATCHD_ALARM"] == "1"
    named = {one["OSTREEWATCHD_CONTAINER"] for one in node.journal(OSTREEWATCHD_REFUSAL="cni-configuration-missing")}
    assert named == set(WRITERS)
    untouched(node, before, seconds=0.5)
    assert acts(node) == []
    # Also when it was asked for more than once: the watcher does not give up.
    node.wait(lambda: len(ledger(node, "SELECT id FROM run WHERE status = 1")) >= 2, 20, "it is refused again")
    untouched(node, before)

    old = node.container("calico-node")
    node.sh(f"cp /proc/{old.pid}/root/host{CNI}/10-lab.conflist {CNI}/")

    healed(node, before, timeout=45)
    assert instances(node, before)["calico-node"].restarts == 1


def test_nothing_is_stopped_that_kubelet_does_not_start_again(node: Node) -> None:
    """A pod with restartPolicy Never is refused, by name and subject; the others beside it are healed."""
    before = start(node, pods.calico_node(), pods.job_like())
    node.in_service_patch()
    entry = wait_refusal(node, "restart-policy-not-always")
    assert entry["OSTREEWATCHD_CONTAINER"] == "job-like"
    healed(node, before)
    untouched(node, {"job-like": before["job-like"]}, seconds=1.0)
    assert [one["owed"] for one in findings(node, "job-like")] == [True], "still owed, and still said so"
    assert ctl(node, "status")[0] == 1
    assert [name for name, _ in acts(node)] == ["calico-node"]


def test_nothing_is_stopped_while_the_system_shuts_down(node: Node) -> None:
    """The next boot cures all; a container that is stopped now would not be started again."""
    before = start_writers(node)
    # It is stopped before the others, because it was started after them, and takes its time.
    after = f"containerd.service kubelet.service {WATCHER} dbus.service systemd-journald.service"
    node.sh(
        "systemd-run --unit=lab-slow --service-type=oneshot --remain-after-exit --property=TimeoutStopSec=60 "
        f"--property='After={after}' --property='ExecStop=/bin/sleep 60' true"
    )
    node.sh("systemctl poweroff --no-block")
    node.wait(lambda: node.sh("systemctl is-system-running", check=False).stdout == "stopping\n", 10, "it shuts down")
    node.in_service_patch()
    node.wait(lambda: reports(node, "owed"), 10, "the watcher sees that something is owed")

    code, text = ctl(node, "plan", "--json")
    planned = json.loads(text)
    assert (code, planned["steps"]) == (1, [])
    assert [one["name"] for one in planned["refusals"]] == ["shutting-down"]
    assert node.sh(["/usr/libexec/ostreewatchd/ostreewatchd-remediate"], check=False).returncode == 1
    assert refused(node, "shutting-down")
    untouched(node, before, seconds=1.0)

    node.power_cut()
    assert acts(node) == [] and not stops(node)
    node.boot()

    for name in WRITERS:
        node.wait_pod(name)
    assert fresh(node), "the boot has cured it"
    assert ctl(node, "status")[0] == 0
    assert acts(node) == [] and not stops(node)


def test_mode_observe_does_all_but_the_act(node: Node) -> None:
    """And it is what an administrator sees without the product: a token written in the pod stays in the pod."""
    before = start_writers(node)
    with _configured(node, "[Remediation]\nMode=observe\n"):
        node.in_service_patch()
        wait_refusal(node, "mode-observe")
        named = {one["OSTREEWATCHD_CONTAINER"] for one in node.journal(OSTREEWATCHD_REFUSAL="mode-observe")}
        assert named == set(WRITERS)
        assert {one["OSTREEWATCHD_CONTAINER"] for one in reports(node, "owed")} == set(WRITERS)
        untouched(node, before, seconds=1.0)
        assert not any(reaches_host(node, name) for name in WRITERS), "the fault"
        assert "2 owed" in status_text(node)
        status = facts(node, "status")
        assert status["mode"] == "observe"
        assert [one["subject"]["container"] for one in status["findings"] if one["owed"]] == [
            "calico-node",
            "kube-multus",
        ]
        code, text = ctl(node, "explain", "calico-node")
        assert code == 1
        for said in ("mode-observe", "stop the container", "Mode=heal"):
            assert said in text
        assert acts(node) == []
        # The host's side may only be looked at with the old one still there: both identities in one text.
        host = node.identity(CNI)
        pod = node.identity_in(node.container("calico-node"), f"/host{CNI}")
        assert f"{host[0]}:{host[1]}" in text and f"{pod[0]}:{pod[1]}" in text

    healed(node, before)
    assert all(reaches_host(node, name) for name in WRITERS)


@contextmanager
def _configured(node: Node, text: str, file: Optional[str] = None) -> Iterator[None]:
    """With this configuration in effect, also in a deployment that is made meanwhile."""
    path = file or SETTINGS
    node.sh(f"cat >{path}", input=text)
    node.sh(["systemctl", "reload", WATCHER])
    try:
        yield
    finally:
        node.sh(["rm", "-f", path])
        node.sh(["systemctl", "reload", WATCHER])
