# SPDX-License-Identifier: Apache-2.0
"""Why a runtime is not reloaded or restarted now: what it would break that works. Each is known before anything stops.

Sources: cri-o#10343 and containerd#10437, #12600 (a restart while containers are created or stopped); cri-o
pkg/config (each file of the drop-in directory is read, whatever its name; a malformed one ends each start),
server/server.go (SIGHUP's default is to end the process, until a start is done), ocicni (addresses are restored by
the network's name), internal/oci (the state of a container is asked for by its handler); kata-containers#12761."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ostreewatchd.model import Refusal, Runtime, RuntimeAction, Service

_SHOWN = 5
_WHEN_GONE = "when those pods are gone, or it is put back"


def of_runtime(runtime: Runtime, action: RuntimeAction) -> Iterator[Refusal]:
    """All of them at once."""
    yield from _moment(runtime.service)
    if action == "drain-and-reboot":
        return  # A person's, who looks at the rest.
    yield from _configuration(runtime.service)
    yield from _default_handler(runtime)
    if action == "reload":
        return
    yield from _in_flight(runtime)
    yield from _handlers_in_use(runtime)
    if runtime.cni_missing:
        because = f"{runtime.cni_missing}: pods would lose their addresses"
        yield Refusal(name="cni-configuration-missing", because=because, ends="when it is there", alarm=True)
    if runtime.types_missing:
        because = f"the loaded SELinux policy has no {_some(runtime.types_missing)}: containers of it would not start"
        yield Refusal(
            name="selinux-policy-not-loaded", because=because, ends="when the policy on disk is loaded", alarm=True
        )


def of_kubelet(kubelet: Service) -> Iterator[Refusal]:
    """Containers run on without it."""
    yield from _moment(kubelet)
    yield from _configuration(kubelet)


def _moment(service: Service) -> Iterator[Refusal]:
    if service.busy:
        because = f"systemd is at work on {service.unit}: somebody else starts, stops or reloads it"
        yield Refusal(name="unit-has-a-job", because=because, ends="when that has ended")
    if not service.ready:
        because = f"{service.unit} is starting, or does not answer: a SIGHUP now would end it"
        yield Refusal(name="runtime-is-starting", because=because, ends="when it answers")


def _configuration(service: Service) -> Iterator[Refusal]:
    broken = [f"{file.path}: {file.problem}" for file in service.config if file.problem]
    if broken:
        because = f"with its configuration {service.unit} would not start: {_some(broken)}"
        yield Refusal(name="configuration-would-not-start", because=because, ends="when it is put right", alarm=True)


def _default_handler(runtime: Runtime) -> Iterator[Refusal]:
    """Any other handler whose program is missing is only ignored."""
    name = runtime.default_handler
    handler = next((one for one in runtime.handlers if one.name == name), None)
    why = ""
    if name and handler is None:
        why = f"there is no default handler {name}"
    elif handler is not None and handler.is_there is False:
        why = f"the default handler's {handler.path} is not there"
    if why:
        because = f"with its configuration {runtime.service.unit} would not start: {why}"
        yield Refusal(name="configuration-would-not-start", because=because, ends="when it is put right", alarm=True)


def _in_flight(runtime: Runtime) -> Iterator[Refusal]:
    now = runtime.in_flight
    if now is None:
        because = "whether containers are being created or stopped is not known"
        yield Refusal(name="containers-in-flight", because=because, ends="when the runtime tells")
        return
    for what, pods in (("created", now.creating), ("stopped", now.terminating)):
        if pods:
            because = f"containers are being {what}, and would be lost: {_some(pods)}"
            yield Refusal(name="containers-in-flight", because=because, ends="when they run, or are gone")
    if now.pulls:
        because = f"images are being pulled ({now.pulls}), and a stop would wait for them and then break them off"
        yield Refusal(name="image-pulls", because=because, ends="when they are there")


def _handlers_in_use(runtime: Runtime) -> Iterator[Refusal]:
    """Its containers could not be stopped or removed any more, and would count as running when they have ended."""
    has = {one.name: one for one in runtime.handlers}
    had = {one.name: one for one in runtime.loaded or ()}
    if runtime.used is None:
        lost = sorted(had.keys() - has.keys())
        if lost:
            because = f"whether pods run with {_some(lost)}, which was removed, is not known"
            yield Refusal(name="handler-in-use", because=because, ends="when the runtime tells")
        return
    for name in sorted(set(runtime.used)):
        if name and name not in has:
            because = f"pods run with handler {name}, which the files have no more: it could not stop them"
            yield Refusal(name="handler-in-use", because=because, ends=_WHEN_GONE, alarm=True)
        elif name in had and name in has and had[name].root != has[name].root:
            roots = f"{had[name].root or 'its default'}, and is {has[name].root or 'its default'} in the files"
            because = f"pods run with handler {name}, whose root is {roots}: it would not find them there"
            yield Refusal(name="handler-root-changed", because=because, ends=_WHEN_GONE, alarm=True)


def _some(names: Iterable[str]) -> str:
    names = tuple(names)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
