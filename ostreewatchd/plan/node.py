# SPDX-License-Identifier: Apache-2.0
"""Refusals that hold for the whole node, each with its evidence and what ends it.

Their words stay the same while their cause does: a refusal is news when its words are."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd import settle
from ostreewatchd.model import Refusal, Settings, Snapshot
from ostreewatchd.plan import windows
from ostreewatchd.plan.restarting import not_back

_CHANGES_NOTHING = frozenset({"RefreshMd"})
"""Methods of rpm-ostree that touch no tree: this one loads what repositories offer, and may take minutes. Source:
org.projectatomic.rpmostree1.xml."""


def refusals(snapshot: Snapshot, settings: Settings) -> Iterator[Refusal]:
    """All of them at once, so that a person need not find out one after the other."""
    yield from _system(snapshot)
    busy = settle.in_progress(snapshot.flags, complete=settle.complete(snapshot), cap=settings.settle_cap)
    if busy is not None:
        ends = "when the file is removed"
        if not any(flag.always for flag in snapshot.flags):
            ends += ", or by SettleCapSec if /usr and /etc are of one deployment then"
        yield Refusal(name="switch-in-progress", because=busy, ends=ends)
    yield from _rpm_ostree(snapshot)
    if snapshot.history.problem:
        yield Refusal(
            name="ledger-unusable",
            because=snapshot.history.problem,
            ends="when the ledger can be read and written",
            alarm=True,
        )
    yield from _by_order(snapshot, settings)
    yield from _peers(snapshot)
    yield from not_back(snapshot, settings)


def _system(snapshot: Snapshot) -> Iterator[Refusal]:
    system, next_root = snapshot.system, snapshot.ostree.next_root
    if system is None or system.problem:
        why = system.problem if system else "it was not asked"
        yield Refusal(name="systemd-not-answering", because=why, ends="when systemd answers")
    elif system.state == "stopping" and next_root:
        # systemd-soft-reboot.service(8): all of userspace ends, and starts again from /run/nextroot.
        because = f"systemd is stopping userspace, and /run/nextroot has {next_root}: containers end with it"
        yield Refusal(name="soft-rebooting", because=because, ends="with the soft reboot")
    elif system.state == "stopping":
        yield Refusal(name="shutting-down", because="systemd is stopping the system", ends="with the shutdown")


def _rpm_ostree(snapshot: Snapshot) -> Iterator[Refusal]:
    """It was asked for this plan: no signal is trusted for that. Before a live-apply writes down that it is under way,
    nothing else tells. Where it is not known, what libostree wrote down decides alone."""
    view = snapshot.rpm_ostree
    if view is not None and view.transaction and view.title.partition(" ")[0] not in _CHANGES_NOTHING:
        because = f"rpm-ostree is at work: {view.title} is under way"
        yield Refusal(name="transaction-under-way", because=because, ends="with its transaction: `rpm-ostree status`")


def _by_order(snapshot: Snapshot, settings: Settings) -> Iterator[Refusal]:
    """What a person has ordered: for once, or by the configuration."""
    pause = snapshot.pause
    if pause is not None and pause.problem:
        yield Refusal(
            name="paused",
            because=f"the order to pause cannot be read, and so holds: {pause.problem}",
            ends="with `ostreewatchctl resume`",
            alarm=True,
        )
    elif pause is not None:
        yield Refusal(
            name="paused",
            because=f"{pause.who} ordered it: {pause.why}",
            ends="by itself, or with `ostreewatchctl resume`",
            ends_at=pause.until,
        )
    opens_at = windows.opens_at(settings.windows, snapshot.taken_at)
    if opens_at is not None:
        yield Refusal(
            name="outside-window",
            because=f"Windows={', '.join(map(str, settings.windows))} (UTC): restarts wait for the next one",
            ends="when it opens",
            ends_at=opens_at,
        )


def _peers(snapshot: Snapshot) -> Iterator[Refusal]:
    runtime, kubelet = snapshot.runtime, snapshot.kubelet
    if runtime is None or runtime.problem:
        why = runtime.problem if runtime else "it was not asked"
        yield Refusal(name="runtime-not-answering", because=why, ends="when the runtime answers")
    if kubelet is None or kubelet.problem:
        why = kubelet.problem if kubelet else "it was not asked"
        name = kubelet.refusal if kubelet else "kubelet-unknown"
        yield Refusal(name=name, because=why, ends="when kubelet would start a stopped container again")
