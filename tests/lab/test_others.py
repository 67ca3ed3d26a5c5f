# SPDX-License-Identifier: Apache-2.0
"""Others stop and start what the product does, before, during and after it: no container is stopped twice by the
product for one switch, and kubelet counts exactly what can be accounted for."""

from pathlib import Path

import pytest

from tests.lab import others
from tests.lab.node import Node
from tests.lab.others import NAMES, Round
from tests.lab.witness import WATCHER, reports

pytestmark = pytest.mark.lab

# For a pod that is taken away: as long as a new sandbox could come, its proof is waited for.
CONFIGURATION = "[Remediation]\nProofSec=15\n"
REMEDIATE = "/usr/libexec/ostreewatchd/ostreewatchd-remediate"


@pytest.fixture
def round(shared_node: Node) -> Round:
    return others.begin(shared_node)


def test_back_by_unmounting_and_by_another_patch_and_undeployed(node: Node) -> None:
    """A → B → A, then A's commit as another deployment, and B is undeployed: each of these is a switch of its own
    and is healed once; the undeploy is none."""
    round, names = others.begin(node), ["calico-node"]
    # kubelet's back-off counts for each container: one is enough to see a second restart.
    node.remove_pod(f"kube-multus{round.suffix}")
    node.wait(lambda: [one.name for one in node.containers()] == names, 15, "only one is left")
    first = node.in_service_patch()
    healed = round.settled(names)
    round.check(healed)
    assert healed["calico-node"].restarts == 1

    unmounted = others.next_switch(round, names)
    for _, target, _ in reversed(first.binds):
        for _ in range(200):  # A mount shows up at each place of its peer group, and more so with each patch before.
            if node.live(target) != Path(first.pending).name:
                break
            node.sh(["umount", "--lazy", target])
        assert node.live(target) != Path(first.pending).name
    back = unmounted.settled(names)
    unmounted.check(back)
    assert back["calico-node"].restarts == 2

    again = others.begin(node)
    third = node.in_service_patch(Path(first.active).name.partition(".")[0])
    last = again.settled()
    again.check(last)
    assert {name: one.restarts for name, one in last.items()} == dict.fromkeys(NAMES, 1)
    assert node.live("/etc") == Path(third.pending).name
    known = [one.name for one in node.deployments()]
    node.sh(["ostree", "admin", "undeploy", str(known.index(Path(first.pending).name))])
    again.stays(last)


def test_the_script_before_the_remediation(round: Round) -> None:
    """It runs while the patch is still mounting, with /etc switched already: nothing is left to do."""
    switch = round.node.in_service_patch(stop_after=3)
    round.script()
    after = round.settled()
    switch.resume()
    round.stays(after)
    round.check(after)
    assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(NAMES, 1)
    assert round.by_us() == {name: [] for name in NAMES}


def test_the_script_during_the_remediation_and_once_more_after_it(round: Round) -> None:
    """What it stops in between is not stopped again; what it stops later is the script's restart alone."""
    round.node.in_service_patch()
    round.at_intent()
    round.script()
    after = round.settled()
    round.check(after)
    assert all(one.restarts <= 2 for one in after.values())
    round.script()
    again = round.settled()
    round.check(again)
    assert all(again[name].restarts == after[name].restarts + 1 for name in NAMES)
    round.stays(again)


def test_kubelet_is_restarted_in_the_middle(round: Round) -> None:
    """As pmond does."""
    round.node.in_service_patch()
    round.at_intent(2)
    round.node.sh(["systemctl", "restart", "kubelet"])
    after = round.settled()
    round.check(after)
    assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(NAMES, 1)
    round.stays(after)


def test_a_sandbox_is_stopped_by_hand_in_the_middle(round: Round) -> None:
    """`crictl stopp` of the pod whose turn has not come: its new containers are fresh and are left alone."""
    round.node.in_service_patch()
    round.at_intent()
    round.stop_sandbox("kube-multus")
    after = round.settled()
    round.check(after)
    assert after["calico-node"].restarts == 1
    round.stays(after)


def test_a_pod_is_taken_away_in_the_middle(round: Round) -> None:
    """Its manifest is gone, as with `kubectl delete`: each act ends with a name, and the other pod is healed."""
    round.node.in_service_patch()
    round.at_intent(2)
    round.node.remove_pod(f"kube-multus{round.suffix}")
    after = round.settled(["calico-node"])
    round.check(after)
    assert {outcome for name, _, outcome in round.acts() if name != "calico-node"} <= {
        "pod-gone", "cured", "not-needed",
    }  # fmt: skip
    assert not [one for one in round.node.containers() if one.name != "calico-node"]


def test_a_second_copy_is_started_by_hand_in_the_middle(round: Round) -> None:
    """It says that another one runs, and does nothing. So does a second watcher, which asks as the first one does."""
    round.node.sh(
        f"cp /usr/lib/systemd/system/{WATCHER} /run/systemd/system/second.service"
        " && systemctl daemon-reload && systemctl start second"
    )
    round.node.in_service_patch()
    round.at_intent()
    second = round.node.sh([REMEDIATE], check=False)
    assert second.returncode == 3
    assert any("another remediation" in one["MESSAGE"] for one in reports(round.node, "failed"))
    after = round.settled()
    round.check(after)
    assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(NAMES, 1)
    assert reports(round.node, "owed") and round.node.sh("systemctl is-active second").stdout == "active\n"
    round.node.sh("systemctl stop second && rm /run/systemd/system/second.service && systemctl daemon-reload")


def test_a_reboot_in_the_middle(round: Round) -> None:
    """The last: what was begun gets its outcome after the boot, and nothing is stopped for a switch that is over."""
    node = round.node
    node.in_service_patch()
    round.at_intent()
    node.reboot()
    after = round.settled()
    node.wait(lambda: all(outcome for _, _, outcome in round.acts()), 30, "each act has its outcome")
    round.stays(after)
    ours = round.by_us()
    assert all(len(ids) <= 1 for ids in ours.values())
    assert all(id == round.before[name].id for name, ids in ours.items() for id in ids), "none of after the boot"
