# SPDX-License-Identifier: Apache-2.0
"""A switch in the middle of a look: what was looked at before a mount and after it differs, and nothing is stale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ostreewatchd.judge import judge
from ostreewatchd.model import History, Settings
from ostreewatchd.observe.containers import ContainerLooker, Found
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.look import glance, look, look_on
from ostreewatchd.parse.mountinfo import MountTable
from ostreewatchd.peers.hostmounts import HostMounts
from ostreewatchd.platforms import Platform
from tests.host.fakehost import CNI, Bind, FakeHost, bind, mount, umount
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root


class Interrupted(ContainerLooker):
    """Something happens on the host between the look at the containers and the look at the references."""

    def __init__(self, *happens: Callable[[], object]) -> None:
        super().__init__(remember=False)
        self.left = list(happens)

    def look(self, host: Host, platform: Platform, cni_directories: Sequence[str]) -> Found:
        found = super().look(host, platform, cni_directories)
        if self.left:
            self.left.pop(0)()
        return found


def _follower(host: FakeHost) -> None:
    """It has the host's `/`, and each later mount on it: it is never stale."""
    host.container("host-root", [Bind("/", "/host", propagated=True)])


@in_namespaces
def test_who_follows_the_host_is_not_stale_in_a_torn_look(tmp_path: Path) -> None:
    """Invariant 4: looked at before the bind on /etc, and compared with what is there after it."""
    host = FakeHost(tmp_path)
    _follower(host)
    with Host() as now:
        snapshot = look_on(glance(now, Settings()), Interrupted(host.patch), History())
    assert snapshot.torn == "the host was switched during the look"
    assert [one.what for one in snapshot.problems] == [snapshot.torn]
    findings = judge(snapshot)
    assert findings, "the look is not torn: this shows nothing"
    assert {(one.verdict, one.owed) for one in findings} == {("unknown", False)}
    assert all("during the look" in one.reason and "look again" in one.remedy for one in findings)
    assert judge(host.look()) == ()


@in_namespaces
def test_a_torn_look_is_looked_at_again(tmp_path: Path) -> None:
    """Invariant 12: the second is whole, and what is owed is owed."""
    host = FakeHost(tmp_path)
    _follower(host)
    host.container("calico-node", [Bind(CNI, f"/host{CNI}")])
    snapshot = look(Settings(), Interrupted(host.patch), History())
    assert not snapshot.torn and not snapshot.problems
    assert [(one.subject.container, one.owed) for one in judge(snapshot)] == [("calico-node", True)]


@in_namespaces
def test_a_host_that_never_holds_still_is_unknown(tmp_path: Path) -> None:
    """Invariant 8: a bounded number of looks."""
    host = FakeHost(tmp_path)
    _follower(host)
    moves = [host.patch, lambda: umount("/etc")] * 10
    looker = Interrupted(*moves)
    snapshot = look(Settings(), looker, History())
    assert snapshot.torn and len(looker.left) == len(moves) - 4
    assert all(one.verdict == "unknown" for one in judge(snapshot))


@in_namespaces
def test_a_flag_that_comes_during_the_look(tmp_path: Path) -> None:
    """The platform says that it begins: what comes next is its to tell."""
    host = FakeHost(tmp_path)
    _follower(host)
    with Host() as now:
        flag = Path("/run/mount_pending")
        snapshot = look_on(glance(now, Settings()), Interrupted(flag.touch), History())
    assert snapshot.torn == "/run/mount_pending came during the look"


@in_namespaces
def test_other_mounts_do_not_tear_a_look(tmp_path: Path) -> None:
    """On a busy node a pod is always just being mounted."""
    host = FakeHost(tmp_path)
    _follower(host)
    Path("/run/a").mkdir()
    with Host() as now:
        snapshot = look_on(glance(now, Settings()), Interrupted(lambda: bind("/usr", "/run/a")), History())
    assert not snapshot.torn


@in_namespaces
def test_the_mount_table_is_read_anew_only_where_something_came_on_the_way(tmp_path: Path) -> None:
    """In a storm of mounts elsewhere it would be another one each time. Another filesystem on a way that was gone is
    asked nothing before the table has told what it is."""
    host = FakeHost(tmp_path)
    Path("/run/a").mkdir()
    asked: list[int] = []

    class Counted(HostMounts):
        def table(self) -> MountTable | None:
            asked.append(1)
            return super().table()

    def elsewhere() -> None:
        mount("tmpfs", "/run/a", "tmpfs")

    def on_the_way() -> None:
        mount("tmpfs", "/run", "tmpfs")

    def same_tree() -> None:
        bind("/etc", "/etc")

    mounts = Counted()
    for happens, times, is_torn in ((elsewhere, 1, False), (on_the_way, 2, False), (same_tree, 2, True)):
        asked.clear()
        with Host(mounts) as now:
            snapshot = look_on(glance(now, Settings()), Interrupted(happens), History())
        assert (len(asked), bool(snapshot.torn)) == (times, is_torn), happens
        assert not host.look().torn
