# SPDX-License-Identifier: Apache-2.0
"""What a process has read of its configuration at its start, against what is in the files now.

`runtime-handlers`: CRI-O's SIGHUP replaces the handlers in a copy of its configuration, which it displays (Status,
`crio status config`, the node's status) and does not serve. So neither a reload nor what is displayed proves anything:
the process's start against the change of its files does.

Sources: cri-o#10202, server/server.go (the value copy), pkg/config/reload.go; containerd#13285."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Optional

from ostreewatchd.judge.runtime.moment import came_after
from ostreewatchd.model import Change, ConfigFile, Handler, Runtime, RuntimeAction, Service
from ostreewatchd.platforms.runtimes import HABITS, Habits, Takes, is_one_of

_HANDLERS = ("crio.runtime.runtimes.", "crio.runtime.default_runtime")
_ACTIONS: Mapping[Takes, RuntimeAction] = {"at-use": "nothing", "reload": "reload", "restart": "restart"}
_SAID: Mapping[Takes, str] = {
    "at-use": "it is read when it is used",
    "reload": "a reload reads it",
    "restart": "it is read at the start",
}


def of_runtime(runtime: Runtime) -> Iterator[Change]:
    """Handlers, settings, registries, trust policy, CNI, hooks."""
    habits = HABITS[runtime.kind]
    yield from _handlers(runtime)
    for file in runtime.service.config:
        after = came_after(runtime.service, file.changed_at)
        if after is None:
            yield _unknown(file)
        elif not after or (_is_reloads(habits, file) and _was_reloaded(runtime.service, file)):
            continue
        elif file.other_tree and file.settings is None:
            yield _of_another_tree(file)
        elif file.of == "runtime":
            yield from _settings(runtime, habits, file)
        elif file.of == "hooks":
            yield from _hooks(runtime, habits, file)
        else:
            yield _of_its_own(habits, file)


def of_kubelet(kubelet: Service) -> Iterator[Change]:
    """It reads its configuration at its start alone."""
    for file in kubelet.config:
        after = came_after(kubelet, file.changed_at)
        if after is None:
            yield _unknown(file)
        elif after and file.other_tree and file.settings is None:
            yield _of_another_tree(file)
        elif after and file.settings != ():
            yield Change(rule="kubelet-configuration", action="restart", because=f"{file.path} is newer than kubelet")


def _handlers(runtime: Runtime) -> Iterator[Change]:
    if runtime.loaded is None:
        return  # Then the change of the files tells.
    had, has = _by_name(runtime.loaded), _by_name(runtime.handlers)
    for name in sorted(had.keys() | has.keys()):
        said = _difference(had.get(name), has.get(name))
        if said:
            yield Change(rule="runtime-handlers", action="restart", because=f"handler {name} {said}")
    if runtime.default_handler != runtime.loaded_default:
        because = f"the default handler is {runtime.default_handler or 'none'}, was {runtime.loaded_default or 'none'}"
        yield Change(rule="runtime-handlers", action="restart", because=because)


def _by_name(handlers: Iterable[Handler]) -> dict[str, Handler]:
    return {one.name: one for one in handlers}


def _difference(had: Optional[Handler], has: Optional[Handler]) -> str:
    if had is None:
        return "was added to the files: it is not served, whatever is displayed"
    if has is None:
        return "was removed from the files, and is served all the same"
    same = (had.path, had.root, had.rest) == (has.path, has.root, has.rest)
    return "" if same else "is another one in the files than the one that is served"


def _settings(runtime: Runtime, habits: Habits, file: ConfigFile) -> Iterator[Change]:
    if file.settings is None:
        because = f"{file.path} is newer than the process, and which settings are others is not known"
        yield Change(rule="runtime-configuration", action="restart", because=because)
        return
    if file.partly:
        because = f"{file.path} is newer, and has settings of which the process does not say how it has them"
        yield Change(rule="runtime-configuration", action="nothing", because=because, unknown=True)
    for setting in file.settings:
        if runtime.loaded is not None and is_one_of(setting, _HANDLERS):
            continue  # Told of each handler.
        if is_one_of(setting, habits.needs_reboot):
            action: RuntimeAction = "drain-and-reboot"
            why = "with it a restarted runtime would not know what runs"
        elif is_one_of(setting, habits.on_reload):
            action, why = "reload", "it is effective after a reload"
        else:
            action, why = "restart", "it is read at the start alone"
        rule = "storage-configuration" if action == "drain-and-reboot" else "runtime-configuration"
        yield Change(rule=rule, action=action, because=f"{file.path}: {setting} is another one: {why}")


def _of_its_own(habits: Habits, file: ConfigFile) -> Change:
    """Files of which it is no matter what is in them."""
    if file.of == "cni":
        return Change(rule="cni-configuration", action="nothing", because=f"{file.path}: the directory is watched")
    takes = habits.registries if file.of == "registries" else habits.policy
    return Change(rule=file.of, action=_ACTIONS[takes], because=f"{file.path} is newer: {_SAID[takes]}")


def _hooks(runtime: Runtime, habits: Habits, file: ConfigFile) -> Iterator[Change]:
    """A watch that was made before the overlay came sits on the directory that it covers, and is silent for ever."""
    if not habits.watches_hooks:
        return
    later = came_after(runtime.service, runtime.usr_mounted_at)
    if later and file.path.startswith("/usr/"):
        because = f"{file.path} came with a mount over /usr that is younger than the process: its watch is below it"
        yield Change(rule="oci-hooks", action="restart", because=because)
    else:
        yield Change(rule="oci-hooks", action="nothing", because=f"{file.path}: the directory is watched")


def _is_reloads(habits: Habits, file: ConfigFile) -> bool:
    return {"registries": habits.registries, "policy": habits.policy}.get(file.of) == "reload"


def _was_reloaded(service: Service, file: ConfigFile) -> bool:
    """What a reload reads; what else is in a file that is not effective then, it does not prove."""
    return service.reloaded_at is not None and (file.changed_at or 0.0) < service.reloaded_at


def _unknown(file: ConfigFile) -> Change:
    return _not_known(file, "it is not known whether it is newer than the process")


def _of_another_tree(file: ConfigFile) -> Change:
    """Each file of a tree that was mounted over it is another one; mostly with the same content."""
    return _not_known(file, "it is another tree's than at the process's start; whether it says the same is not known")


def _not_known(file: ConfigFile, why: str) -> Change:
    rule = "kubelet-configuration" if file.of == "kubelet" else "runtime-configuration"
    return Change(rule=rule, action="nothing", because=f"{file.path}: {why}", unknown=True)
