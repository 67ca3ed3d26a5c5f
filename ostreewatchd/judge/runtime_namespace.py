# SPDX-License-Identifier: Apache-2.0
"""Who makes a container's binds (runtime, shim, kubelet) lives in a mount namespace that shows another tree than
PID 1's: what is started there gets that tree, and to stop a container cures nothing. Where the pod's shim alone was
left behind, a new sandbox with a new shim is the cure, or a new container where each has a conmon of its own; else the
unit's restart comes first, which is only recommended. A namespace of its own that follows the host's is healthy.

Source: mount_namespaces(7) (propagation); openshift/enhancements#593 and MCO kubens.service; containerd#11912; ostree
#2653 (an unlock that a private namespace does not see)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.judge.due import due
from ostreewatchd.judge.rule import Cure, Rule, seen
from ostreewatchd.model import Bind, Container, Daemon, Finding, Reference, Snapshot, Subject

rule = Rule("runtime-namespace", cure=Cure.RESTART_UNIT)

_NEW_SHIM = "stop the pod's sandbox, so that it is made anew with a new shim (a container stop keeps the old one)"


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each daemon that sees another tree, once a unit; and each bind that a restart would make from such a tree."""
    said: set[str] = set()
    for daemon in snapshot.daemons:
        apart = _differing_tree(snapshot, daemon.mount_namespace)
        name = daemon.unit or daemon.name
        if apart is not None and name not in said:
            said.add(name)
            yield _of_daemon(daemon, name, *apart)
    for container in snapshot.containers:
        for bind in container.binds:
            differing = differs(snapshot, container, bind)
            # Where it cannot be told what the container itself shows, that is all that is known (invariant 4).
            if differing is not None and bind.sight.identity is not None:
                yield _of_bind(snapshot, container, bind, *differing)


def differs(snapshot: Snapshot, container: Container, bind: Bind) -> Optional[tuple[Reference, Reference]]:
    """What the maker of the bind sees and what PID 1 sees, if both see something and it is not the same."""
    return _differing(snapshot, bind.host_path, container.maker(bind))


def _differing(snapshot: Snapshot, path: str, namespace: int) -> Optional[tuple[Reference, Reference]]:
    theirs, init = (snapshot.reference(path, one) for one in (namespace, snapshot.init_mount_namespace))
    if theirs is None or init is None or theirs.sight.identity is None:
        return None
    return (theirs, init) if snapshot.shows_the_hosts(path, namespace) is False else None


def _differing_tree(snapshot: Snapshot, namespace: int) -> Optional[tuple[Reference, Reference]]:
    """The first of the trees that the namespace shows otherwise than PID 1 has it."""
    for path in ("/etc", "/usr", *snapshot.cni_directories):
        differing = _differing(snapshot, path, namespace)
        if differing is not None:
            return differing
    return None


def _of_daemon(daemon: Daemon, name: str, theirs: Reference, init: Reference) -> Finding:
    what = "for the pods that it starts" if daemon.kind == "runtime" else "for what it mounts for pods"
    return Finding(
        rule=rule.name,
        verdict="stale",
        owed=False,
        subject=Subject(kind="unit", unit=name),
        path=theirs.host_path,
        inside=theirs.host_path,
        expected=seen(init.sight),
        actual=seen(theirs.sight),
        reason=f"noted only: {daemon.name} (pid {daemon.pid}) is in mount namespace {daemon.mount_namespace}, which"
        f" shows {theirs.sight.identity} where PID 1 has {init.sight.identity}: it uses that {what}",
        remedy=_restart(daemon, name),
        evidence=tuple(
            f"{who}: {one.sight.mount}" for who, one in ((name, theirs), ("host", init)) if one.sight.mount
        ),
    )


def _restart(daemon: Daemon, name: str) -> str:
    if daemon.held_at:
        return (
            f"recommended: reboot, or restart the unit that holds {daemon.held_at} and then {name}: alone that would"
            " join the same mount namespace again"
        )
    return f"recommended: systemctl restart {name}: it then gets the host's mounts as they are"


def _of_bind(snapshot: Snapshot, container: Container, bind: Bind, theirs: Reference, init: Reference) -> Finding:
    who, remedy = _cure(snapshot, container, bind)
    if who:
        reason = _apart_text(who, theirs, init) + ": a new container would get that, so restarting it cures nothing"
        if bind.sight.identity == init.sight.identity:
            return rule.will_be_stale(
                container, bind, expected=init, because=f"it is fresh, but {reason}", remedy=remedy
            )
        return rule.unknown(container, bind, expected=init, because=reason, remedy=remedy)
    reason = _apart_text(_binder_of(snapshot, container), theirs, init)
    if bind.sight.identity == init.sight.identity:
        return rule.will_be_stale(container, bind, expected=init, because=f"it is fresh, but {reason}", remedy=remedy)
    owed, why = due(snapshot, bind, init)
    return rule.stale(
        container, bind, expected=init, owed=owed, because=f"{reason}, as the runtime has it too; {why}", remedy=remedy
    )


def _binder_of(snapshot: Snapshot, container: Container) -> str:
    return "the container's conmon" if snapshot.has_binder_of_its_own(container) else "the pod's shim"


def _apart_text(who: str, theirs: Reference, init: Reference) -> str:
    return (
        f"{who} is in mount namespace {theirs.mount_namespace}, which shows {theirs.sight.identity} where PID 1 has"
        f" {init.sight.identity}"
    )


def _cure(snapshot: Snapshot, container: Container, bind: Bind) -> tuple[str, str]:
    """Who makes the bind, unless it is the shim alone that is left behind; and what makes that one see the host's
    tree."""
    kubelets = [one for one in snapshot.daemons if one.kind == "kubelet" and one.mount_namespace == bind.made_in]
    stale = snapshot.stale_runtimes(bind.host_path)
    anew = "stop the container" if snapshot.has_binder_of_its_own(container) else _NEW_SHIM
    if kubelets:
        unit = kubelets[0].unit or kubelets[0].name
        return "kubelet, which binds this subPath,", f"{_restart(kubelets[0], unit)}; then stop the container"
    if stale:
        unit = stale[0].unit or stale[0].name
        return f"the runtime ({stale[0].name})", f"{_restart(stale[0], unit)}; then {anew}"
    if snapshot.runtimes:
        return "", f"{anew}; no unit has to be restarted"
    return f"the runtime or {_binder_of(snapshot, container)}", f"recommended: restart the runtime's unit; then {anew}"
