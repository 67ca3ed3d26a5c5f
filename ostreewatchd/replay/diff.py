# SPDX-License-Identifier: Apache-2.0
"""What changed between two snapshots, in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Optional

from ostreewatchd.judge import judge
from ostreewatchd.model import Bind, Container, Finding, Problem, Snapshot
from ostreewatchd.report import words

Key = tuple[str, ...]


def diff(before: Snapshot, after: Snapshot) -> list[str]:
    """One change a line; what belongs to a line is indented below it. The first line says what is compared."""
    lines = [*_frame(before, after)]
    if before.anonymized != after.anonymized:
        return lines  # Each name would have come or gone.
    changes = [
        *_live(before, after),
        *_flags(before, after),
        *_containers(before, after),
        *_findings(before, after),
        *_processes(before, after),
        *_acts(before, after),
        *_problems(before, after),
    ]
    return lines + (changes or ["nothing changed"])


def _frame(before: Snapshot, after: Snapshot) -> Iterator[str]:
    one, two = (f"{it.node.name} at {words.when(it.taken_at)}" for it in (before, after))
    yield f"from {one} to {two}, {after.taken_at - before.taken_at:.0f} s later"
    if after.taken_at < before.taken_at:
        yield "the first is the younger one: what follows goes back in time"
    if before.anonymized != after.anonymized:
        which = "first" if before.anonymized else "second"
        yield f"not compared: the {which} is anonymized and the other is not; take the originals of both"
        return
    if before.anonymized:
        yield "anonymized: each snapshot has names of its own, so the same name need not be the same thing"
    if before.node.name != after.node.name:
        yield "these are different nodes"
    elif before.node.boot_id != after.node.boot_id:
        yield "the node was rebooted in between: no container and no mount of the first is left"
    if before.node.kernel != after.node.kernel:
        yield f"kernel: {before.node.kernel} became {after.node.kernel}"
    if before.product != after.product:
        yield f"ostreewatchd: {before.product} became {after.product}"


def _became(what: str, one: object, two: object) -> Iterator[str]:
    if one != two:
        yield f"{what}: {_shown(one)} became {_shown(two)}"


def _shown(thing: object) -> str:
    if isinstance(thing, bool):
        return "yes" if thing else "no"
    if isinstance(thing, tuple):
        return ", ".join(map(str, thing)) or "none"
    return "not known" if thing is None else str(thing) or "none"


def _live(before: Snapshot, after: Snapshot) -> Iterator[str]:
    one, two = before.live, after.live
    names = (("booted deployment", "booted"), ("live /usr", "usr"), ("live /etc", "etc"), ("pending", "pending"),
             ("next boot", "next_boot"), ("staged", "staged"))  # fmt: skip
    for what, name in names:
        yield from _became(what, getattr(one.deployments, name), getattr(two.deployments, name))
    yield from _became("class of /usr", one.usr_class, two.usr_class)
    yield from _became("mount of /usr", one.usr_mount, two.usr_mount)
    yield from _became("mount of /etc", one.etc_mount, two.etc_mount)
    yield from _became("contradiction", one.partial, two.partial)
    if one.fingerprint != two.fingerprint and one.deployments == two.deployments:
        yield "/usr, /etc or a watched directory is another mount or directory, of the same deployments"
    for name in before.ostree.__struct_fields__:
        if name != "inside":
            yield from _became(
                f"ostree: {name.replace('_', ' ')}", getattr(before.ostree, name), getattr(after.ostree, name)
            )
    inside = [{f"{it.point} shows {it.shows}" for it in snapshot.ostree.inside} for snapshot in (before, after)]
    yield from (f"new mount inside a deployment: {it}" for it in sorted(inside[1] - inside[0]))
    yield from (f"gone mount inside a deployment: {it}" for it in sorted(inside[0] - inside[1]))
    yield from _became("CNI directories", before.cni_directories, after.cni_directories)
    yield from _became("torn look", before.torn, after.torn)
    yield from _references(before, after)


def _references(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """The host's own paths, as PID 1 sees them: what a new container would get."""
    old = {one.host_path: one.sight for one in before.references if one.mount_namespace == before.init_mount_namespace}
    for one in after.references:
        was, now = old.get(one.host_path), one.sight
        if one.mount_namespace != after.init_mount_namespace or was is None:
            continue
        if was.identity != now.identity:
            yield f"host's {one.host_path}: {was.identity or was.problem} became {now.identity or now.problem}"
        elif was.mount != now.mount:
            yield f"host's {one.host_path} is on another mount: {was.mount or 'none'} became {now.mount or 'none'}"
        for name in sorted(set(now.names) - set(was.names)):
            yield f"host's {one.host_path}: new file {name}"
        for name in sorted(set(was.names) - set(now.names)):
            yield f"host's {one.host_path}: file {name} is gone"


def _flags(before: Snapshot, after: Snapshot) -> Iterator[str]:
    one, two = ({flag.path: flag for flag in it.flags} for it in (before, after))
    yield from (f"flag came: {path}: {two[path].means}" for path in two if path not in one)
    yield from (f"flag went: {path}: {one[path].means}" for path in one if path not in two)


def _key(container: Container) -> Key:
    """Whose it is; a container that nobody knows the name of is only itself."""
    if container.pod.uid and container.name:
        return (container.pod.uid, container.name)
    return (container.id,)


def _name(container: Container) -> str:
    return f"{container.pod.namespace}/{container.pod.name}/{container.name} ({container.id[:12]})"


def _grouped(containers: Iterable[Container]) -> dict[Key, list[Container]]:
    found: dict[Key, list[Container]] = {}
    for one in containers:
        found.setdefault(_key(one), []).append(one)
    return found


def _containers(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Of those that hold a piece of the host's tree."""
    one, two = _grouped(before.containers), _grouped(after.containers)
    yield from _became("running containers", before.container_count, after.container_count)
    for key in sorted({*one, *two}, key=lambda key: _name((one.get(key) or two[key])[0])):
        old = {it.id: it for it in one.get(key, ())}
        new = {it.id: it for it in two.get(key, ())}
        came = [it for id, it in new.items() if id not in old]
        went = [it for id, it in old.items() if id not in new]
        for was, now in zip(went, came):
            attempt = f", attempt {now.attempt}" if now.attempt is not None else ""
            yield f"restarted: {_name(was)} is {now.id[:12]} now{attempt}, started {words.when(now.started_at)}"
        yield from (f"came: {_name(it)}, started {words.when(it.started_at)}" for it in came[len(went) :])
        yield from (f"gone: {_name(it)}" for it in went[len(came) :])
        for was, now in ((old[id], new[id]) for id in new if id in old):
            yield from _binds(was, now)


def _binds(was: Container, now: Container) -> Iterator[str]:
    """Of one and the same container: it can get mounts only from outside."""
    one, two = ({(bind.path, bind.host_path): bind for bind in it.binds} for it in (was, now))
    yield from (f"{_name(now)}: new bind {_bind(two[key])}" for key in two if key not in one)
    yield from (f"{_name(now)}: bind {_bind(one[key])} is gone" for key in one if key not in two)
    for key in two:
        if key in one and one[key].sight.identity != two[key].sight.identity:
            old, new = (it.sight.identity or it.sight.problem for it in (one[key], two[key]))
            yield f"{_name(now)}: bind {_bind(two[key])}: {old} became {new}"


def _bind(bind: Bind) -> str:
    return bind.path if bind.path == bind.host_path else f"{bind.host_path} as {bind.path}"


def _findings(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """New ones and ended ones; of those about a bind that is in both, what it became."""
    one, two = _found(judge(before)), _found(judge(after))
    binds = [{(*_key(it), bind.host_path, bind.path) for it in snapshot.containers for bind in it.binds}
             for snapshot in (before, after)]  # fmt: skip
    for key in one:
        if key in two:
            continue
        old = one[key]
        place = _place(old)
        if place not in binds[1]:
            yield f"finding ended with its subject: {words.finding(old)}"
        elif not any(_place(it) == place for it in two.values()):
            word = "fresh" if old.verdict == "stale" else "known, and fresh"
            yield f"became {word}: {old.subject}: {old.path} as {old.inside}; it was {words.finding(old)}"
    for key in two:
        if key in one:
            continue
        new = two[key]
        place = _place(new)
        was: Optional[Finding] = next((it for it in one.values() if _place(it) == place), None)
        if was is not None:
            yield f"finding changed: {words.finding(new)}; it was {words.finding(was)}"
        elif place in binds[0]:
            yield f"became {new.verdict}: {words.finding(new)}"
        else:
            yield f"new finding: {words.finding(new)}"


def _place(finding: Finding) -> Key:
    subject = finding.subject
    key = subject.key if all(subject.key) else (subject.container_id or str(subject),)
    return (*key, finding.path, finding.inside)


def _found(findings: Sequence[Finding]) -> dict[Key, Finding]:
    return {(*_place(it), it.rule, it.verdict, str(it.owed)): it for it in findings}


def _processes(before: Snapshot, after: Snapshot) -> Iterator[str]:
    one, two = ({(it.kind, it.name): it for it in snapshot.daemons} for snapshot in (before, after))
    for key in sorted({*one, *two}):
        old, new = one.get(key), two.get(key)
        if old is None or new is None:
            yield f"{key[0]} {key[1]}: {'came' if old is None else 'is gone'}"
        else:
            yield from _became(f"{key[0]} {key[1]}: process", old.pid, new.pid)
            yield from _became(f"{key[0]} {key[1]}: mount namespace", old.mount_namespace, new.mount_namespace)
    for what, view in _VIEWS:
        yield from _became(what, view(before), view(after))
    machines = [{it.sandbox_id: it.pod for it in snapshot.vm_sandboxes} for snapshot in (before, after)]
    for word, here, there in (("came", machines[1], machines[0]), ("gone", machines[0], machines[1])):
        yield from (f"pod in a virtual machine {word}: {pod.namespace}/{pod.name}"
                    for id, pod in here.items() if id not in there)  # fmt: skip


def _answer(view: object, state: str) -> str:
    if view is None:
        return "not asked"
    return getattr(view, "problem", "") or state


_VIEWS: tuple[tuple[str, Callable[[Snapshot], str]], ...] = (
    ("systemd", lambda it: _answer(it.system, it.system.state if it.system else "")),
    ("runtime", lambda it: _answer(it.runtime, "answers")),
    ("kubelet", lambda it: _answer(it.kubelet, f"well, process {it.kubelet.pid}" if it.kubelet else "")),
    ("mode", lambda it: it.settings.mode if it.settings else "not known"),
)


def _acts(before: Snapshot, after: Snapshot) -> Iterator[str]:
    old = {act.id: act for act in before.history.acts}
    for act in after.history.acts:
        if act.id not in old:
            yield f"act: {words.act(act)}"
        elif old[act.id] != act:
            yield f"act ended: {words.act(act)}"
    yield from _became("ledger", before.history.problem or "readable", after.history.problem or "readable")


def _problems(before: Snapshot, after: Snapshot) -> Iterator[str]:
    one, two = ([_problem(it) for it in snapshot.problems] for snapshot in (before, after))
    yield from (f"not read any more: {it}" for it in two if it not in one)
    yield from (f"was not read, and is now: {it}" for it in one if it not in two)


def _problem(problem: Problem) -> str:
    return f"{problem.where}: {problem.what}"
