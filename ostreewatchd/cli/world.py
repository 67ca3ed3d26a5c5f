# SPDX-License-Identifier: Apache-2.0
"""What a verb judges: a look at this host, or a snapshot that was saved on another; and what both have in common.

What looks is imported only by who looks: a saved snapshot is judged anywhere."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

import msgspec

from ostreewatchd import ledger, settings
from ostreewatchd.judge import judge
from ostreewatchd.model import (
    Credential,
    Daemon,
    Exit,
    Finding,
    History,
    KubeletView,
    Live,
    Plan,
    RpmOstreeView,
    RuntimeView,
    Settings,
    Snapshot,
    SystemView,
)
from ostreewatchd.plan.moment import bind_of
from ostreewatchd.replay import form

if TYPE_CHECKING:
    from ostreewatchd.observe.host import Host
    from ostreewatchd.observe.look import Answers
    from ostreewatchd.platforms import Platform


class CouldNotKnow(Exception):
    """There is nothing to judge; the text says why."""


Judged = tuple[Settings, Snapshot, tuple[Finding, ...]]


def json_argument(parser: argparse.ArgumentParser, prints: str = "one JSON object") -> None:
    """`--json`, of each verb that has an answer for programs."""
    parser.add_argument("--json", action="store_true", help=f"print {prints}")


def from_argument(parser: argparse.ArgumentParser) -> None:
    """`--from`, of each verb that can judge a saved snapshot."""
    parser.add_argument(
        "--from",
        dest="source",
        type=given_file,
        metavar="FILE",
        help="judge this saved snapshot and not this host (-: standard input)",
    )


def given_file(text: str) -> str:
    """Of an option: an empty name is a script's mistake, and must not mean this host."""
    if not text:
        raise argparse.ArgumentTypeError("must name a file")
    return text


def only_root(verb: str) -> None:
    """Said before anything else of it fails for that reason. Raises CouldNotKnow."""
    if os.geteuid() != 0:
        raise CouldNotKnow(f"{verb} needs root")


def see(options: argparse.Namespace, *, deep: bool = False) -> Judged:
    """What is now, or what `--from` has. `deep`: the verb needs what runtime, kubelet and systemd say too. Raises
    CouldNotKnow."""
    source: Optional[str] = getattr(options, "source", None)
    return _saved(source, deep=deep) if source else see_host(deep=deep)


def see_host(*, deep: bool = False) -> Judged:
    """What is now on this host. Raises CouldNotKnow."""
    from ostreewatchd.observe.containers import ContainerLooker
    from ostreewatchd.observe.host import Host, HostGone
    from ostreewatchd.observe.look import look

    config, complaints = settings.load()
    for complaint in complaints:
        print(f"ostreewatchctl: {complaint}", file=sys.stderr)
    asker = _Asker() if deep else None
    try:
        with Host() as host:
            doubt = host.doubt
        snapshot = look(config, ContainerLooker(remember=False), ledger.read(), deep=asker)
    except HostGone as error:
        raise CouldNotKnow(str(error)) from error
    if doubt is not None:
        snapshot = msgspec.structs.replace(snapshot, problems=(doubt, *snapshot.problems))
    return config, snapshot, judge(snapshot)


class _Asker:
    """Asks systemd, runtime and kubelet, unless this installation is not whole (as it is where a switch took the tree
    away): what of them is missing may be missed only when they are used. The rest of the look holds."""

    def with_acceptance(self, host: Host, credentials: Sequence[Credential]) -> tuple[Credential, ...]:
        try:
            from ostreewatchd.observe.acceptance import with_acceptance

            return with_acceptance(host, credentials)
        except ImportError:
            return tuple(credentials)

    def ask(self, host: Host, platform: Platform, daemons: Sequence[Daemon], live: Live, history: History) -> Answers:
        try:
            from ostreewatchd.observe.deep import DeepLook

            return DeepLook().ask(host, platform, daemons, live, history)
        except ImportError as error:
            problem = f"not asked, as this installation is not whole: {error}"
            from ostreewatchd.observe.look import Answers

            return Answers(
                system=SystemView(problem=problem),
                runtime=RuntimeView(socket="", problem=problem),
                kubelet=KubeletView(problem=problem, refusal="kubelet-not-answering"),
                rpm_ostree=RpmOstreeView(problem=problem),
            )


def _saved(source: str, *, deep: bool) -> Judged:
    snapshot = read_snapshot(source)
    if snapshot.settings is None:
        print("ostreewatchctl: the snapshot has no settings: the defaults are taken", file=sys.stderr)
    asked = snapshot.system is not None and snapshot.runtime is not None and snapshot.kubelet is not None
    if deep and not asked:
        print(
            "ostreewatchctl: when the snapshot was taken, systemd, runtime and kubelet were not all asked: whether"
            " they would let a remediation act is not known",
            file=sys.stderr,
        )
    return snapshot.settings or Settings(), snapshot, judge(snapshot)


def read_snapshot(source: str) -> Snapshot:
    """The snapshot in a file, or from standard input for `-`. Raises CouldNotKnow."""
    try:
        return form.load(read_file(source, form.MAX_BYTES))
    except form.SnapshotError as error:
        raise CouldNotKnow(f"{_name(source)}: {error}") from error


def read_file(source: str, most: int) -> bytes:
    """All of a file, or of standard input for `-`, or one byte more than it may have. Raises CouldNotKnow."""
    name = _name(source)
    try:
        if source == "-":
            return sys.stdin.buffer.read(most + 1)
        # A pipe that nobody writes to would otherwise be waited for without end.
        with open(os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISDIR(mode):
                raise CouldNotKnow(f"{name}: it is a directory")
            if stat.S_ISFIFO(mode):
                raise CouldNotKnow(f"{name}: it is a pipe: give it as standard input, with - for the name")
            return file.read(most + 1)
    except OSError as error:
        raise CouldNotKnow(f"{name}: {error.strerror or error}") from error


def _name(source: str) -> str:
    return "standard input" if source == "-" else source


def exit_status(snapshot: Snapshot, findings: tuple[Finding, ...], made: Optional[Plan] = None) -> Exit:
    """OWED: owed, refused, or a cure without its proof yet. COULD_NOT_KNOW: nothing owed was seen, and something owed
    may be behind what was not read or could not be judged."""
    if any(finding.owed for finding in findings) or any(not act.outcome for act in snapshot.history.acts):
        return Exit.OWED
    if made is not None and made.refusals:
        return Exit.OWED
    if any(may_be_owed(snapshot, finding) for finding in findings):
        return Exit.COULD_NOT_KNOW
    return Exit.COULD_NOT_KNOW if snapshot.problems else Exit.NOTHING_OWED


def may_be_owed(snapshot: Snapshot, finding: Finding) -> bool:
    """Whether it is unknown of what would be owed if it was stale: a container's own, writable CNI directory."""
    container = snapshot.container(finding.subject.container_id)
    bind = bind_of(container, finding) if container is not None else None
    if finding.verdict != "unknown" or bind is None:
        return False
    return bind.writable and not bind.via and bool(snapshot.cni_directory_of(finding.path))


def rpm_ostree() -> RpmOstreeView:
    """What rpm-ostree's daemon does, if it runs: it is not started for this."""
    try:
        from ostreewatchd.peers.rpmostree import ask

        return ask()
    except ImportError as error:
        return RpmOstreeView(problem=f"not asked, as this installation is not whole: {error}")


def watcher_status() -> str:
    """What the watcher says of itself (STATUS=), or why that is not known."""
    from ostreewatchd.peers.systemd import Systemd, SystemdError

    try:
        with Systemd() as systemd:
            return systemd.status_text("ostreewatchd.service")
    except SystemdError as error:
        return f"not known: {error.what}"


def unit_states() -> dict[str, str]:
    """The state of what must run for anything to be healed; a reason where systemd does not tell."""
    from ostreewatchd.peers.systemd import Systemd, SystemdError

    units = ("ostreewatchd.service", "ostreewatchd-remediate.path")
    try:
        with Systemd() as systemd:
            return {unit: systemd.unit_state(unit) for unit in units}
    except SystemdError as error:
        return dict.fromkeys(units, f"not known: {error.what}")
