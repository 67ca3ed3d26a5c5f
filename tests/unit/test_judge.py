# SPDX-License-Identifier: Apache-2.0
"""Rules: what is stale, replaced, fresh or unknown, and what is owed (DESIGN §5.1, §5.4, §7)."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from ostreewatchd.judge import RULES, judge
from ostreewatchd.model import Finding, Settings, Snapshot
from ostreewatchd.plan import plan
from tests.unit.worlds import CNI, HOST, NEW, NEW_NAME, OLD, OLD_NAME, RUNTIME, World, gone, stale, there, world


def only(built: World) -> Finding:
    (finding,) = judge(built.snapshot())
    return finding


def test_the_seeds_bug() -> None:
    """Invariant 1, and DESIGN §7: writable, the CNI directory itself, another directory than the host's."""
    finding = only(stale())
    assert (finding.rule, finding.verdict, finding.owed) == ("stale-mount", "stale", True)
    assert str(finding.subject) == "kube-system/calico-node-x1/calico-node"
    assert finding.path == CNI and finding.inside == f"/host{CNI}"
    assert finding.expected is not None and finding.actual is not None
    assert (finding.expected.ino, finding.expected.deployment) == (10371999, NEW_NAME)
    assert (finding.actual.ino, finding.actual.deployment) == (10347112, OLD_NAME)
    assert "debian-aaaaaaaaaa.0" in finding.reason and "debian-bbbbbbbbbb.0" in finding.reason
    assert [line.partition(":")[0] for line in finding.evidence] == ["container", "host"]


def test_the_same_directory_is_fresh_whatever_its_path_says() -> None:
    """Invariant 1: identity, never the path's text, `(deleted)` or the deployment's name."""
    for mine in (there(7, of=OLD_NAME), there(7), there(7, of=NEW_NAME, serial=1)):
        assert judge(world().host(CNI, there(7, of=NEW_NAME)).container("a").bind(CNI, mine).snapshot()) == ()


def test_deleted_in_the_text_is_no_verdict() -> None:
    """Invariant 1."""
    mine = msgspec.structs.replace(there(7), mount="131 130 8:1 /etc/cni/net.d//deleted /x rw - ext4 /dev/a rw")
    assert judge(world().host(CNI, there(7)).container("a").bind(CNI, mine).snapshot()) == ()


def test_the_same_inode_on_another_device_is_stale() -> None:
    """Invariant 1: never an inode without its device (an overlay keeps the number)."""
    finding = only(world().host("/usr", there(13, dev=45)).container("a").bind("/usr", there(13, dev=44)))
    assert finding.verdict == "stale"
    assert "44:13" in finding.reason and "45:13" in finding.reason


def test_a_directory_replaced_by_rename_is_stale() -> None:
    """Facts §3 A8: same filesystem, same path, another directory; no deployment in sight."""
    finding = only(world().host(CNI, there(8)).container("a").bind(CNI, there(7)))
    assert finding.owed and "directory 65024:7" in finding.reason


def test_a_file_replaced_by_rename_is_its_own_kind_and_never_owed() -> None:
    """Invariant 1: `replaced-file`, and no switch."""
    path = f"{CNI}/10-calico.conflist"
    mine, theirs = there(7, of=NEW_NAME, is_directory=False), there(8, of=NEW_NAME, is_directory=False)
    finding = only(world().host(path, theirs).container("a").bind(path, mine))
    assert (finding.rule, finding.verdict, finding.owed) == ("replaced-file", "stale", False)


def test_a_single_file_of_another_deployment_is_stale() -> None:
    """A subPath file mount goes stale at a real switch."""
    path = f"{CNI}/10-calico.conflist"
    mine, theirs = there(7, of=OLD_NAME, is_directory=False), there(8, of=NEW_NAME, is_directory=False)
    finding = only(world().host(path, theirs).container("a").bind(path, mine))
    assert (finding.rule, finding.owed) == ("stale-mount", True)


@pytest.mark.parametrize("host_path", [CNI, f"{CNI}/multus.d", f"{CNI}/whereabouts.d/x"])
def test_the_cni_directory_and_what_lies_below_it_is_owed(host_path: str) -> None:
    """DESIGN §7: is or lies below a CNI configuration directory."""
    assert only(world().host(host_path, NEW).container("a").bind(host_path, OLD)).owed


@pytest.mark.parametrize("host_path", ["/etc", "/usr", "/lib/modules", "/etc/cni", "/etc/cni/net.d2", "/etc/cni/net"])
def test_anything_else_is_noted(host_path: str) -> None:
    """DESIGN §7."""
    finding = only(world().host(host_path, NEW).container("a").bind(host_path, OLD))
    assert finding.verdict == "stale" and not finding.owed
    assert "is no CNI configuration directory" in finding.reason and finding.remedy.startswith("on request")
    assert f"`crictl stop {finding.subject.container_id[:12]}`" in finding.remedy and "by root" in finding.remedy


@pytest.mark.parametrize("via", ["/", "/etc", "/etc/cni"])
def test_seen_by_way_of_an_ancestor_is_noted(via: str) -> None:
    """DESIGN §7: not one that sees it by way of / or /etc."""
    finding = only(world().host(CNI, NEW).container("a").bind(CNI, OLD, via=via))
    assert finding.verdict == "stale" and not finding.owed and f"by way of {via}" in finding.reason


def test_read_only_is_noted() -> None:
    """DESIGN §7: writable."""
    finding = only(world().host(CNI, NEW).container("a").bind(CNI, OLD, writable=False))
    assert finding.verdict == "stale" and not finding.owed and "read-only" in finding.reason


def test_a_configured_directory_counts_too() -> None:
    built = world().part(cni_directories=(CNI, "/etc/other/net.d"))
    assert only(built.host("/etc/other/net.d", NEW).container("a").bind("/etc/other/net.d", OLD)).owed


def test_a_bind_of_its_own_below_a_noted_one_is_judged() -> None:
    """A pod with `/` at /host and the CNI directory at /host/etc/cni/net.d: the latter is its own, and owed."""
    built = world().host(CNI, NEW).host("/etc", there(2, of=NEW_NAME)).host("/", there(1)).container("multus")
    built.bind("/", there(1), path="/host").bind("/etc", there(3, of=OLD_NAME), path="/host/etc", via="/")
    built.bind(CNI, OLD, path=f"/host{CNI}")
    findings = judge(built.snapshot())
    assert [(one.path, one.owed) for one in findings] == [(CNI, True), ("/etc", False)]


def test_what_is_seen_below_a_stale_ancestor_is_said_once() -> None:
    built = world().host(CNI, NEW).host("/etc", there(2, of=NEW_NAME)).container("a")
    built.bind("/etc", there(3, of=OLD_NAME)).bind(CNI, OLD, via="/etc")
    assert [one.path for one in judge(built.snapshot())] == ["/etc"]


UNKNOWN = [
    (world().host(CNI, NEW).container("a").bind(CNI, gone()), "in the container: No such file"),
    (world().host(CNI, gone()).container("a").bind(CNI, OLD), "on the host: No such file"),
    (world().host(CNI, gone("/etc is nfs4, which may not answer: not touched")).container("a").bind(CNI, OLD), "nfs4"),
    (world().container("a").bind(CNI, OLD), "no reference"),
    (world().host(CNI, NEW).container("a", binder=RUNTIME).bind(CNI, OLD), "no reference"),
]


@pytest.mark.parametrize(("built", "because"), UNKNOWN)
def test_unknown_is_not_stale_and_restarts_nothing(built: World, because: str) -> None:
    """Invariant 4."""
    snapshot = built.snapshot()
    (finding,) = judge(snapshot)
    assert finding.verdict == "unknown" and not finding.owed and because in finding.reason
    made = plan(snapshot, (finding,), Settings())
    assert not made.steps and not made.refusals


NOTHING = msgspec.structs.replace(gone(), absent=True)


def test_what_is_nowhere_is_no_news() -> None:
    """A watched directory that neither host nor container has, seen by way of an ancestor."""
    assert judge(world().host(CNI, NOTHING).container("a").bind(CNI, NOTHING, via="/").snapshot()) == ()


@pytest.mark.parametrize(
    "built",
    [
        world().host(CNI, NEW).container("a").bind(CNI, NOTHING, via="/"),
        world().host(CNI, NOTHING).container("a").bind(CNI, OLD, via="/"),
        world().host(CNI, gone()).container("a").bind(CNI, NOTHING, via="/"),
        world().host(CNI, NOTHING).container("a").bind(CNI, NOTHING),
    ],
)
def test_what_is_on_one_side_only_is_unknown(built: World) -> None:
    """Invariant 4."""
    assert only(built).verdict == "unknown"


def test_a_runtime_in_a_namespace_of_its_own_that_is_stale_itself() -> None:
    """Facts §3 E44: the container has what its binder has; PID 1 has another: a restart is useless."""
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME).container("a", binder=RUNTIME).bind(CNI, OLD)
    finding = only(built)
    assert (finding.rule, finding.verdict, finding.owed) == ("runtime-namespace", "unknown", False)
    assert "restarting it cures nothing" in finding.reason and finding.remedy.startswith("recommended")


def test_a_runtime_in_a_namespace_of_its_own_that_is_fresh() -> None:
    built = world().host(CNI, NEW).host(CNI, NEW, namespace=RUNTIME).container("a", binder=RUNTIME).bind(CNI, OLD)
    assert only(built).owed


def test_a_stale_shim_tells_nothing_of_a_container_that_cannot_be_looked_into() -> None:
    """Invariant 4: what it shows is unknown, whatever a new one would get."""
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME).container("a", binder=RUNTIME)
    finding = only(built.bind(CNI, gone("Permission denied")).daemon())
    assert (finding.rule, finding.verdict, finding.owed) == ("stale-mount", "unknown", False)


def test_the_reference_is_the_binders() -> None:
    """DESIGN §2: the identity that a restarted container would get."""
    built = world().host(CNI, OLD).host(CNI, NEW, namespace=RUNTIME).container("a", binder=RUNTIME).bind(CNI, OLD)
    finding = only(built)
    assert (finding.rule, finding.verdict, finding.owed) == ("runtime-namespace", "wrong", False)
    assert str(RUNTIME) in finding.reason and "it is fresh, but" in finding.reason


def test_a_patched_node_as_a_whole() -> None:
    """The node of the issue: two writers owed; `/`, read-only, /lib/modules noted; the one with nothing untouched."""
    built = stale("calico-node").container("kube-multus").bind(CNI, OLD)
    built.host("/", there(2)).host("/etc", there(4, of=NEW_NAME)).host("/lib/modules", there(6, of=NEW_NAME))
    built.container("root").bind("/", there(2), path="/rootfs").bind(CNI, NEW, via="/", path=f"/rootfs{CNI}")
    built.container("frozen-root").bind("/etc", there(3, of=OLD_NAME), via="/", path="/rootfs/etc")
    built.container("reader").bind("/etc", there(3, of=OLD_NAME), writable=False)
    built.container("modules").bind("/lib/modules", there(5, of=OLD_NAME))
    built.container("nothing")
    owed = [one.subject.container for one in judge(built.snapshot()) if one.owed]
    noted = [one.subject.container for one in judge(built.snapshot()) if not one.owed]
    assert owed == ["calico-node", "kube-multus"]
    assert sorted(noted) == ["frozen-root", "modules", "reader"]


def test_order_and_purity() -> None:
    """The same Snapshot gives the same findings in the same order, whatever the order of its parts; owed first."""
    built = stale("b").container("a").bind("/usr", there(1)).host("/usr", there(2)).container("c").bind(CNI, OLD)
    snapshot = built.snapshot()
    expected = judge(snapshot)
    assert [one.subject.container for one in expected] == ["b", "c", "a"]
    for containers in itertools.permutations(snapshot.containers):
        assert judge(msgspec.structs.replace(snapshot, containers=containers)) == expected


def test_a_saved_snapshot_replays() -> None:
    """DESIGN §3: a Snapshot saved on a user's node replays anywhere."""
    snapshot = stale().switch().act(outcome="cured").flag().snapshot()
    again = msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot)
    assert again == snapshot
    assert judge(again) == judge(snapshot)


def test_each_rule_says_what_it_proves_and_its_public_source() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.proves and rule.source and "facts/" not in rule.source


def test_hosts_namespace_is_pid_ones() -> None:
    assert stale().snapshot().init_mount_namespace == HOST


def test_a_directory_below_replaced_in_place_is_no_switch() -> None:
    """DESIGN §2: the watched directory is another one, or the tree is; multus.d made anew is neither."""
    path = f"{CNI}/multus.d"
    in_place = world().host(path, there(71, of=NEW_NAME)).container("a").bind(path, there(70, of=NEW_NAME))
    (finding,) = judge(in_place.snapshot())
    assert finding.verdict == "stale" and not finding.owed and "in place" in finding.reason
    switched = world().host(path, there(71, of=NEW_NAME)).container("a").bind(path, there(70, of=OLD_NAME))
    (finding,) = judge(switched.snapshot())
    assert finding.owed


def test_in_a_torn_look_nothing_is_stale() -> None:
    """Invariant 4."""
    finding = only(stale().part(torn="the host was switched during the look"))
    assert (finding.rule, finding.verdict, finding.owed) == ("stale-mount", "unknown", False)
    assert finding.reason.startswith("the host was switched during the look, so it is not known whether it shows")
