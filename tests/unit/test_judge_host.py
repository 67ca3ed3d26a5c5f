# SPDX-License-Identifier: Apache-2.0
"""Rules about the host: each contradiction by its name, and nothing where nothing is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from ostreewatchd.cli.explain import explain
from ostreewatchd.judge import RULES, judge
from ostreewatchd.judge.host.rule import IN_PROGRESS_FOR, HostRule
from ostreewatchd.model import (
    Credential,
    Deployments,
    Finding,
    Identity,
    Inside,
    Ostree,
    Plan,
    Settings,
    Switch,
    SystemView,
    Unreadable,
)
from ostreewatchd.plan import plan
from ostreewatchd.report import words
from tests.unit.runtimes import crio
from tests.unit.worlds import BOOT, CNI, NEW_NAME, NOW, OLD_NAME, World, stale, there, world

OF_THE_HOST = [rule for rule in RULES if isinstance(rule, HostRule)]
STATE = f"/run/ostree/deployment-state/{'a' * 64}.0"
REFERENCE = "/ostree/repo/refs/heads/rpmostree/live-apply-inprogress"
COMMIT = "c" * 64
ROOT = Identity(dev=1, ino=2)
DELETED = f"111 102 254:0 /ostree/deploy/debian/deploy/{'b' * 64}.0/etc//deleted /etc rw - ext4 /dev/vda1 rw"


def booted(**state: Any) -> World:
    """A host that is what it was booted as."""
    names = Deployments(booted=OLD_NAME, etc=OLD_NAME, usr=OLD_NAME, staged=state.pop("staged", ""))
    at_rest = {"is_booted": True, "root": ROOT, "etc_writable": True}
    return world().live(deployments=names, usr_class="self").part(ostree=Ostree(**{**at_rest, **state}))


def unlocked(overlay: str = "transient", **state: Any) -> World:
    """The same with an overlay on /usr."""
    names = Deployments(booted=OLD_NAME, etc=OLD_NAME)
    return booted(**state).live(deployments=names, usr_class="ostree-overlay", usr_overlay=overlay)


def found(built: World) -> list[tuple[str, str, str]]:
    """(verdict, path, the contradiction's name) of each finding, which are all about the host and never owed."""
    findings = judge(built.snapshot())
    assert all(one.subject.kind == "host" and not one.owed and one.remedy for one in findings)
    assert plan(built.snapshot(), findings, Settings()) == Plan()
    return [(one.verdict, one.path, one.reason.partition(":")[0]) for one in findings]


@pytest.mark.parametrize(
    "built",
    [
        world(),
        booted(),
        booted(live_commit=COMMIT, live_target=COMMIT),
        booted(staged=NEW_NAME, lock_file=True, staged_is_locked=True),
        booted(next_root=NEW_NAME),
        unlocked(unlocked=("transient",)),
        unlocked("hotfix", unlocked=("hotfix",)),
        unlocked("development", unlocked=("development",)),
        unlocked(unlocked=("transient",), is_live=True, live_commit=COMMIT),
        unlocked("", is_booted=None),
        unlocked("bootc", is_booted=False),
        booted(is_booted=False, root=None),
        booted().live(usr_class="sysext"),
        booted(unlocked=("development", "hotfix"), is_live=True, live_commit=COMMIT).live(usr_class="sysext"),
        world().live(usr_class="foreign", deployments=Deployments()).part(ostree=Ostree(etc_writable=False)),
    ],
    ids=[
        "patched", "at rest", "leftover references", "staged and locked", "soft reboot prepared", "unlocked", "hotfix",
        "development", "live-applied", "an older version's Snapshot", "bootc's overlay", "not OSTree", "sysext",
        "what lies below a sysext", "NixOS",
    ],
)  # fmt: skip
def test_nothing_is_wrong(built: World) -> None:
    """coreos/rpm-ostree live.rs: references that outlived a reboot are usual, and so is all else here."""
    assert found(built) == []


def test_a_flag_without_its_mount() -> None:
    """ostreedev/ostree#2653: unlocked in a container's mount namespace, or below a private `/`."""
    for kind in ("development", "transient"):
        assert found(booted(unlocked=(kind,))) == [("wrong", f"{STATE}/unlocked-{kind}", "flag-without-mount")]


def test_a_hotfix_without_its_overlay() -> None:
    """coreos/fedora-coreos-tracker#2087: the kernel could not stack it."""
    assert found(booted(unlocked=("hotfix",))) == [("wrong", "/usr", "hotfix-without-overlay")]


def test_an_overlay_without_its_flag_is_not_known() -> None:
    """ostree-sysroot.c: the mount comes first."""
    assert found(unlocked()) == [("unknown", "/usr", "overlay-without-flag")]
    (one,) = judge(unlocked().snapshot())
    assert "If it is still missing" in one.remedy, "not: look again, for ever"


def applying(age: float, **state: Any) -> World:
    return unlocked(unlocked=("transient",), is_live=True, live_target=COMMIT, **state).flag(
        REFERENCE, always=False, age=age
    )


def test_a_live_apply_in_progress_is_no_contradiction() -> None:
    assert found(applying(IN_PROGRESS_FOR - 1)) == []
    assert found(applying(0.0, live_commit=COMMIT)) == []


def test_a_live_apply_that_was_interrupted() -> None:
    for state in ({}, {"live_commit": "d" * 64}):
        assert found(applying(IN_PROGRESS_FOR, **state)) == [("wrong", REFERENCE, "live-apply-interrupted")]


def test_a_live_apply_counts_as_a_switch_under_way() -> None:
    """DESIGN §6: no stamped live-apply-inprogress."""
    built = stale().flag(REFERENCE, always=False, age=5.0).snapshot()
    (refusal,) = plan(built, judge(built), Settings()).refusals
    assert refusal.name == "switch-in-progress" and REFERENCE in refusal.because


def test_a_stamp_without_what_it_stands_for() -> None:
    stamp = f"{STATE}/rpmostree-is-live.stamp"
    assert found(booted(is_live=True, live_commit=COMMIT)) == [("wrong", stamp, "stamp-without-overlay")]
    built = unlocked(unlocked=("transient",), is_live=True)
    assert found(built) == [("unknown", stamp, "stamp-without-references")]


def test_a_lock_that_outlived_what_it_locked() -> None:
    """ostreedev/ostree#3025."""
    path = "/run/ostree/staged-deployment"
    assert found(booted(lock_file=True)) == [("wrong", f"{path}-locked", "lock-without-staged")]
    torn = booted(lock_file=True, unreadable=(Unreadable(path=path, what="not in normal form"),))
    assert found(torn) == [("unknown", path, "not in normal form")]


def test_a_staged_deployment_that_was_lost() -> None:
    """coreos/rpm-ostree#1567, ostreedev/ostree#2543."""
    assert found(booted(finalize_failed=True)) == [("wrong", "/boot/ostree/finalize-failure.stamp", "finalize-failed")]


def test_a_tree_that_was_undeployed_under_the_host() -> None:
    usr = DELETED.replace("/etc", "/usr")
    built = world().live(usr_class="deleted", usr_mount=usr, etc_mount=DELETED)
    assert found(built) == [("wrong", "/etc", "undeployed"), ("wrong", "/usr", "undeployed")]
    (etc, _) = judge(built.snapshot())
    assert etc.evidence == (f"host: {DELETED}",)
    assert found(world().live(usr_mount="torn", etc_mount="1 2 3:4 /x//deleted-not /etc rw - ext4 d rw")) == []


def test_a_switch_that_stopped_half_way() -> None:
    """Launchpad 1999447, 1999262."""
    (one,) = judge(world().partial().snapshot())
    assert (one.rule, one.verdict, one.path) == ("split-tree", "wrong", "/etc") and "half-way" in one.reason
    assert judge(world().partial().flag(age=1.0).snapshot()) == (), "it is still under way"
    assert judge(world().partial().flag("/ostree/lock", always=False, age=599.0).snapshot()) == ()
    (late,) = judge(world().partial().flag(age=IN_PROGRESS_FOR).snapshot())
    assert late.rule == "split-tree", "mount_pending stays behind when the second mount fails"


def test_etc_that_cannot_be_written() -> None:
    """starlingx/update 62f537c."""
    assert found(booted(etc_writable=False)) == [("wrong", "/etc", "the visible mount of /etc is read-only")]
    assert found(booted(etc_writable=False, transient_etc="/run/ostree/transient-etc.x")) == []
    assert found(booted(etc_writable=None)) == []


@pytest.mark.parametrize(
    ("inside", "dangerous"),
    [
        (Inside(deployment=f"debian-{'c' * 64}.0", point="/p", shows="/etc"), True),
        (Inside(deployment=f"debian-{'c' * 64}.0", point="/p", shows="/usr"), True),
        (Inside(deployment=f"debian-{'c' * 64}.0", point="/p", shows="/etc", writable=False), False),
        (Inside(deployment=OLD_NAME, point="/p", shows="/etc"), False),
        (Inside(deployment=NEW_NAME, point="/p", shows="/etc"), False),
        (Inside(deployment=NEW_NAME, point="/p", shows="/usr"), False),
    ],
    ids=["etc", "usr", "read-only", "the booted one's", "the live one's", "the live one's usr"],
)
def test_what_an_undeploy_would_empty(inside: Inside, dangerous: bool) -> None:
    """The booted deployment cannot be undeployed; the live one is lost with or without a mount in it."""
    built = world().part(ostree=Ostree(is_booted=True, root=ROOT, inside=(inside,)))
    findings = judge(built.snapshot())
    assert [(one.rule, one.verdict, one.path) for one in findings] == (
        [("undeploy-danger", "wrong", "/p")] if dangerous else []
    )
    if dangerous:
        assert "debian-cccccccccc.0" in findings[0].reason
        assert findings[0].remedy.startswith("do not undeploy, prune or clean up that deployment before the next")
        assert "umount" not in findings[0].remedy, "mount_namespaces(7): it would go on to the live /etc"


def test_a_tree_of_the_first_switch_below_the_second() -> None:
    """/usr was switched twice and /etc once: what is live in the one is not in the other."""
    names = Deployments(booted=OLD_NAME, etc=NEW_NAME, usr=f"debian-{'d' * 64}.0")
    inside = Inside(deployment=NEW_NAME, point="/p", shows="/usr")
    built = world().live(deployments=names).part(ostree=Ostree(is_booted=True, inside=(inside,)))
    assert [one.rule for one in judge(built.snapshot())] == ["undeploy-danger"]


def test_bootcs_own_backend_is_said_once() -> None:
    built = world().live(deployments=Deployments(), usr_class="self")
    built.part(ostree=Ostree(is_booted=False, composefs_native=True))
    (one,) = judge(built.snapshot())
    assert (one.rule, one.verdict, one.path) == ("composefs-native", "unknown", "/")
    assert "not supported" in one.reason


def test_what_cannot_be_decoded() -> None:
    files = (
        Unreadable(path="/run/ostree-booted", what="torn: at 5"),
        Unreadable(path="/run/ostree/nextroot-booted", what="cut"),
    )
    built = booted(unreadable=files).live(deployments=Deployments(), usr_class="self")
    assert found(built) == [
        ("unknown", "/run/ostree-booted", "torn"),
        ("unknown", "/run/ostree/nextroot-booted", "cut"),
    ]


def test_a_damaged_file_is_called_that() -> None:
    path = "/run/ostree/staged-deployment"
    why = "not in GVariant's normal form: no padding at 5"
    (one,) = judge(booted(unreadable=(Unreadable(path=path, what=why),)).snapshot())
    assert one.reason.startswith(f"{path} is damaged: ") and why in one.reason


@pytest.mark.parametrize(
    ("path", "name"),
    [("/run/ostree-booted", "not-recorded"), ("/ostree", "link-missing"), ("/sysroot", "sysroot-hidden")],
)
def test_what_each_booted_host_has_and_this_one_has_not(path: str, name: str) -> None:
    """ostree-prepare-root(1)."""
    assert found(booted(missing=(path,))) == [("unknown", path, name)]
    lost = booted(missing=(path,)).live(deployments=Deployments(), usr_class="self")
    assert found(lost) == [("unknown", path, name)], "of a composefs nothing else tells the booted one"


def test_a_booted_host_without_its_deployment() -> None:
    """ostree-sysroot.c: "Unexpected state: /run/ostree-booted found, but no / deployment found"."""
    (one,) = judge(booted().live(deployments=Deployments(), usr_class="self").snapshot())
    assert (one.rule, one.verdict, one.path) == ("unreadable-state", "unknown", "/run/ostree-booted")


def test_in_a_torn_look_nothing_is_wrong() -> None:
    """Invariant 4."""
    (one,) = judge(world().partial().part(torn="the host was switched during the look").snapshot())
    assert one.verdict == "unknown" and "it is not known whether" in one.reason


def test_each_finding_says_its_own_rule() -> None:
    built = booted(unlocked=("hotfix",), finalize_failed=True, etc_writable=False, lock_file=True)
    findings = judge(built.snapshot())
    assert {one.rule for one in findings} < {rule.name for rule in OF_THE_HOST}
    text = "\n".join(explain(findings, Plan()))
    for one in findings:
        assert f"rule     {one.rule}: " in text and one.remedy in text and one.reason in text
    assert "container" not in text.partition("\n")[0]


def test_words() -> None:
    snapshot = booted(etc_writable=False, staged=NEW_NAME).snapshot()
    findings = judge(snapshot)
    assert words.counts(findings) == (0, 0, 0, 1, 0)
    lost = judge(booted(missing=("/ostree",)).snapshot())
    assert words.counts(lost) == (0, 0, 0, 0, 1), "of no container"
    assert words.summary(booted().snapshot(), lost).endswith("; nothing stale, 1 unknown of the host")
    assert words.finding(findings[0]).startswith("wrong: host: /etc: the visible mount")
    assert words.summary(snapshot, findings).endswith("nothing stale, 1 wrong with the host")
    assert "staged debian-bbbbbbbbbb.0" in words.live(snapshot.live)


@pytest.mark.parametrize(
    ("names", "pending", "cautious"),
    [
        (Deployments(booted=OLD_NAME, etc=OLD_NAME, usr=OLD_NAME, next_boot=OLD_NAME), "", False),
        (Deployments(booted=OLD_NAME, etc=OLD_NAME, next_boot=NEW_NAME, pending=NEW_NAME), f"   {NEW_NAME} (", False),
        (Deployments(booted=OLD_NAME, etc=NEW_NAME, next_boot=NEW_NAME), "none besides the live one", True),
        (Deployments(booted=OLD_NAME, etc=NEW_NAME, usr=NEW_NAME, next_boot=OLD_NAME), "", True),
        (Deployments(booted=OLD_NAME, etc=OLD_NAME, usr=NEW_NAME), "", True),
        (Deployments(etc=NEW_NAME, usr=NEW_NAME), "", False),
    ],
    ids=["at rest", "pending", "patched", "patched, and boots the old one", "half", "booted not known"],
)
def test_what_the_next_boot_takes_and_what_must_not_be_undeployed(
    names: Deployments, pending: str, cautious: bool
) -> None:
    """ostree-sysroot-cleanup.c: what was mounted over /usr and /etc without a reboot is one that may be undeployed."""
    live = world().live(deployments=names).snapshot().live
    assert (pending in words.pending(live)) if pending else not words.pending(live)
    assert ("do not undeploy or prune it before the next reboot" in words.not_booted(live)) is cautious


def test_what_takes_effect_later_is_said_as_that() -> None:
    built = booted(staged=NEW_NAME, staged_is_locked=True, next_root="unknown")
    texts = [text for _, text in words.waiting(built.snapshot())]
    assert len(texts) == 2 and all("nothing is restarted" in text for text in texts)
    assert "locked" in texts[0] and texts[1].startswith("unknown is prepared for a soft reboot")
    pending = world().live(deployments=Deployments(booted=OLD_NAME, etc=OLD_NAME, pending=NEW_NAME)).snapshot()
    ((name, text),) = words.waiting(pending)
    assert name == NEW_NAME and "with the next reboot" in text


@pytest.mark.parametrize(
    ("built", "switched"),
    [
        (world(), True),
        (booted(), False),
        (unlocked(), True),
        (booted().live(usr_class="sysext", deployments=Deployments(booted=OLD_NAME, etc=OLD_NAME)), False),
        (booted().live(deployments=Deployments(booted=OLD_NAME, usr=OLD_NAME)), False),
        (booted().live(usr_class="deleted"), True),
        (booted().live(deployments=Deployments(etc=NEW_NAME)), False),
    ],
    ids=["patched", "at rest", "unlocked", "sysext", "an /etc that names none", "removed", "booted not known"],
)
def test_what_counts_as_switched(built: World, switched: bool) -> None:
    assert built.snapshot().live.is_switched is switched


def before(root: str, boot: str = BOOT) -> Switch:
    return Switch(id="s", fingerprint="f", boot_id=boot, deployment=OLD_NAME, seen_at=1.0, root=root)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (booted().history(switch=before("1:2")), False),
        (booted().history(switch=before("9:9")), True),
        (booted().history(switch=before("1:2"), before=before("9:9")), True),
        (booted().history(switch=before("")), False),
        (booted().history(switch=before("9:9", boot="another")), False),
        (booted(root=None).history(switch=before("9:9")), False),
        (booted().part(system=SystemView(state="running", soft_reboots=1)), True),
        (booted().part(system=SystemView(state="running", soft_reboots=0)), False),
    ],
    ids=["same root", "another root", "before that", "older ledger", "another boot", "no root", "counted", "none yet"],
)
def test_a_soft_reboot_is_told_by_the_boot_and_the_root(built: World, expected: bool) -> None:
    """systemd-soft-reboot.service(8): the boot id stays. The kernel's command line is never asked: it stays too."""
    assert built.snapshot().soft_rebooted is expected


def rules_that_find(built: World) -> set[str]:
    findings: tuple[Finding, ...] = judge(built.snapshot())
    return {one.rule for one in findings}


def test_rules_do_not_hide_each_other() -> None:
    built = booted(
        unlocked=("transient",), is_live=True, live_commit=COMMIT, finalize_failed=True, etc_writable=False,
        composefs_native=True, unreadable=(Unreadable(path="/x", what="y"),),
        inside=(Inside(deployment=f"debian-{'c' * 64}.0", point="/p", shows="/etc"),),
    ).live(etc_mount=DELETED, partial="/usr is of one deployment and /etc of another")  # fmt: skip
    built.container("calico-node").bind(CNI, there(1, names=("10-lost.conflist",))).host(
        CNI, there(2, names=("05-brought.conf",))
    )
    built.part(credentials=tuple(
        Credential(path=f"{CNI}/{age}", writer="multus", kind="token", issued_at=NOW - age * 3600,
                   expires_at=NOW + (24 - age) * 3600, pod_is_here=False if age == 1 else None,
                   accepted=False if age == 2 else None)
        for age in (1, 2, 22, 23.5, 25)
    ), node_runtime=crio(types_missing=("new_t",)))  # fmt: skip
    assert rules_that_find(built) >= {rule.name for rule in OF_THE_HOST}
