# SPDX-License-Identifier: Apache-2.0
"""The evidence on the container runtime and kubelet: what each was started from, against what is there now. What it
means is judged. Only who may ask processes looks at it: the remediation, and a person's command.

Sources: org.freedesktop.systemd1(5); crio(8), containerd(8), kubelet (flags); proc_pid_stat(5) (start time)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

import msgspec

from ostreewatchd.model import ConfigFile, Daemon, Handler, History, InFlight, Live, Program, Runtime, Service
from ostreewatchd.model.runtimes import RuntimeKind
from ostreewatchd.observe import configfiles
from ostreewatchd.observe.configfiles import Moved, Read
from ostreewatchd.observe.contents import Contents, is_yet_to_come, since
from ostreewatchd.observe.host import Host, conf_names
from ostreewatchd.observe.kubeletfiles import kubelet_files
from ostreewatchd.observe.selinux import Known, types_missing
from ostreewatchd.parse import runtimeconfig
from ostreewatchd.parse.flags import flags
from ostreewatchd.parse.mountinfo import MountTable, parse
from ostreewatchd.peers import crio, proc
from ostreewatchd.peers.paths import Root
from ostreewatchd.peers.systemd import Systemd, SystemdError
from ostreewatchd.peers.units import Unit, unit
from ostreewatchd.platforms import Platform

_KINDS: tuple[tuple[str, RuntimeKind], ...] = (
    ("k3s", "k3s"), ("rke2", "rke2"), ("snap.microk8s", "microk8s"), ("k0s", "k0s"),
)  # fmt: skip
"""By how the unit's name begins."""
_REGISTRIES = ("/etc/containers/registries.conf", "/etc/containers/registries.conf.d", "/etc/containers/registries.d")
_POLICY = ("/etc/containers/policy.json",)
_HOOKS = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
_EMBEDDED = {"k3s": ("/etc/rancher/k3s",), "rke2": ("/etc/rancher/rke2",)}
"""What these read at their start, beside what they make of it for their containerd."""
_UNIT_PLACES = (
    "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
    "/run/systemd/system.control", "/etc/systemd/system.control", "/run/systemd/transient",
    "/run/systemd/generator", "/run/systemd/generator.early", "/run/systemd/generator.late",
)  # fmt: skip
_NOT_FOR_A_START = (
    "/run/systemd/generator/", "/run/systemd/generator.early/", "/run/systemd/generator.late/",
    "/run/systemd/system.control/", "/etc/systemd/system.control/",
)  # fmt: skip
"""Unit files whose times tell nothing of a start: generators write theirs anew at each daemon-reload, and what
`systemctl set-property` has written is in effect at once. Source: systemd.generator(7), systemctl(1)."""
_CRIO_FLAGS = frozenset({"config", "config-dir", "c", "d"})


class Said(NamedTuple):
    """What the runtime answered."""

    answers: bool = False
    version: str = ""
    configuration: str = ""
    """See peers.cri.client; not kept."""
    used: Optional[tuple[str, ...]] = None
    in_flight: Optional[InFlight] = None


class _Seen(NamedTuple):
    """Of one look."""

    host: Host
    live: Live
    moved: Moved
    systemd: Systemd


class RuntimeLook:
    """Remembers what it has read of programs and policies."""

    def __init__(self) -> None:
        self._contents = Contents()
        self._policies: Known = {}

    def look(
        self, host: Host, platform: Platform, daemons: Sequence[Daemon], live: Live, history: History, said: Said,
        socket: str,
    ) -> Optional[Runtime]:  # fmt: skip
        """None: there is none that is a unit's, or systemd does not answer."""
        daemon = _runtime(daemons, socket)
        if daemon is None:
            return None
        try:
            with Systemd() as systemd:
                seen = _Seen(host, live, _moved(live, history), systemd)
                return self._of(seen, platform, daemon, _kubelet(daemons, daemon), said)
        except (SystemdError, proc.Unreadable):
            return None

    def _of(
        self, seen: _Seen, platform: Platform, daemon: Daemon, kubelet: Optional[Daemon], said: Said
    ) -> Optional[Runtime]:
        kind = _kind(daemon)
        loaded = unit(seen.systemd, daemon.unit)
        words = proc.command_line(daemon.pid)
        with _root(seen.host, daemon) as root:
            reads = _config(root, kind, flags(words), seen.moved)
            config = [_compared(one, said.configuration if kind != "crio" else "") for one in reads]
            config += _beside(root, kind, seen.moved)
            service = self._service(seen, daemon, loaded, root, tuple(config), answers=said.answers)
            tables = [one.table for one in reads if one.table is not None]
            has = runtimeconfig.crio(tables) if kind == "crio" else runtimeconfig.containerd(tables)
            handlers = tuple(_is_there(root, one) for one in has.handlers)
        mine = runtimeconfig.running_containerd(said.configuration, tables) if kind != "crio" else None
        if mine is None and all(service.has_seen(one.changed_at) for one in config if one.of == "runtime"):
            mine = has
        runtime = Runtime(
            kind=kind,
            service=service,
            version=said.version,
            flags=tuple(f"--{name}" for name in sorted(flags(words).keys() - _CRIO_FLAGS)) if kind == "crio" else (),
            handlers=handlers,
            default_handler=has.default,
            loaded=mine.handlers if mine is not None else None,
            loaded_default=mine.default if mine is not None else "",
            used=said.used,
            in_flight=said.in_flight,
            cni_missing=_cni_missing(seen.host, platform),
            types_missing=types_missing(seen.host.root, self._policies),
            kubelet=self._kubelet(seen, kubelet) if kubelet is not None else None,
            kubelet_goes_along=kubelet is not None and _goes_along(seen.systemd, kubelet.unit, daemon.unit),
        )
        return _asked_crio(runtime) if kind == "crio" else runtime

    def _kubelet(self, seen: _Seen, daemon: Daemon) -> Service:
        loaded = unit(seen.systemd, daemon.unit)
        with _root(seen.host, daemon) as root:
            config = kubelet_files(root, daemon.pid, flags(proc.command_line(daemon.pid)), loaded, seen.moved)
            return self._service(seen, daemon, loaded, root, config, answers=True)

    def _service(
        self, seen: _Seen, daemon: Daemon, loaded: Unit, root: Root, config: tuple[ConfigFile, ...], *, answers: bool
    ) -> Service:
        stat = proc.stat(daemon.pid)
        started = proc.boot_epoch() + stat.start_ticks / proc.TICKS if stat is not None else None
        in_ostree = bool(seen.live.deployments.booted) and _is_checkout(seen.host.table)
        programs: tuple[Program, ...]
        try:
            programs = tuple(self._contents.programs(daemon.pid, root, in_ostree=in_ostree))
        except proc.Unreadable:
            programs = ()
        return Service(
            unit=daemon.unit,
            started_at=started,
            ready=loaded.active == "active" and answers,
            invocation=loaded.invocation,
            reloaded_at=_wall(loaded.changed_state) if loaded.changed_state > loaded.active_since + 1.0 else None,
            busy=loaded.job,
            needs_daemon_reload=loaded.needs_daemon_reload or _has_other_drop_ins(seen.host, loaded),
            unit_changed_at=_unit_changed_at(seen, loaded),
            config=config,
            programs=programs,
            sees_usr=_sees_usr(seen.host, root),
            held_at=daemon.held_at,
        )


def _runtime(daemons: Sequence[Daemon], socket: str) -> Optional[Daemon]:
    """Of several that whose name is in the path of the socket that answers."""
    units = [one for one in daemons if one.kind == "runtime" and one.unit]
    named = [one for one in units if one.name in socket]
    return next(iter(named or units), None)


def _kubelet(daemons: Sequence[Daemon], runtime: Daemon) -> Optional[Daemon]:
    return next((one for one in daemons if one.kind == "kubelet" and one.unit not in ("", runtime.unit)), None)


def _kind(daemon: Daemon) -> RuntimeKind:
    if daemon.name == "crio":
        return "crio"
    return next((kind for prefix, kind in _KINDS if daemon.unit.startswith(prefix)), "containerd")


def _root(host: Host, daemon: Daemon) -> Root:
    """The process's own. Raises Unreadable."""
    table = host.table if daemon.mount_namespace == host.namespace else MountTable(
        parse(proc.read(daemon.pid, "mountinfo") or b"")
    )  # fmt: skip
    root = proc.root(daemon.pid, table)
    if root is None:
        raise proc.Unreadable(f"/proc/{daemon.pid}/root: it has ended")
    return root


def _moved(live: Live, history: History) -> Moved:
    """Whether /etc is another deployment's than was booted, and since when."""
    names, switch = live.deployments, history.switch
    if not names.booted or names.etc in ("", names.booted):
        return Moved(None)
    known = switch is not None and switch.fingerprint == live.fingerprint
    return Moved(switch.seen_at if switch is not None and known else proc.boot_epoch() + proc.boottime())


def _config(root: Root, kind: RuntimeKind, said: dict[str, str], moved: Moved) -> list[Read]:
    if kind == "crio":
        main = said.get("config") or said.get("c") or "/etc/crio/crio.conf"
        directory = said.get("config-dir") or said.get("d") or "/etc/crio/crio.conf.d"
        return configfiles.crio(root, main, directory, moved)
    main = said.get("config") or said.get("c") or "/etc/containerd/config.toml"
    return configfiles.containerd(root, main, moved)


def _beside(root: Root, kind: RuntimeKind, moved: Moved) -> list[ConfigFile]:
    if kind == "crio":
        return [
            *configfiles.others(root, "registries", _REGISTRIES, moved),
            *configfiles.others(root, "policy", _POLICY, moved),
            *configfiles.others(root, "hooks", _HOOKS, moved),
        ]
    return list(configfiles.others(root, "runtime", _EMBEDDED.get(kind, ()), moved))


def _compared(read: Read, configuration: str) -> ConfigFile:
    """With the settings that a running containerd has otherwise."""
    if not configuration or read.file.problem:
        return read.file
    if read.table is None:
        # A directory: what came into it is told by that; what a file that went had set, only as far as handlers go.
        return msgspec.structs.replace(read.file, settings=(), partly=True)
    settings, partly = runtimeconfig.other_settings(configuration, read.table)
    return msgspec.structs.replace(read.file, settings=settings, partly=partly)


def _is_there(root: Root, handler: Handler) -> Handler:
    if not handler.path.startswith("/"):
        return handler
    try:
        found: Optional[bool] = root.exists(handler.path)
    except OSError:
        found = None
    return msgspec.structs.replace(handler, is_there=found)


def _unit_changed_at(seen: _Seen, loaded: Unit) -> Optional[float]:
    """Of the newest of its files; None: it has none that can be looked at. Of another tree's each is newer, whatever
    is in it: there what wrote it last tells."""
    moments = []
    for path in loaded.files:
        if path.startswith(_NOT_FOR_A_START):
            continue
        try:
            what = seen.host.root.what(path)
        except OSError:
            continue
        elsewhere = seen.moved.at is not None and path.startswith("/etc/")
        when = what.modified[0] + what.modified[1] / 1e9 if elsewhere else since(path, what)
        if when is not None and not is_yet_to_come(when):
            moments.append(when)
    return max(moments, default=None)


def _is_checkout(table: MountTable) -> bool:
    """Whether `/` is a checkout of hard links, where the same content is the same inode. Of composefs (an overlay over
    EROFS) each image numbers its files itself, and older kernels have in `maps` the number of the object behind it.
    Source: ostree-prepare-root.c; fs/proc/task_mmu.c (file_user_inode)."""
    root = table.visible("/")
    return root is not None and root.fstype != "overlay"


def _has_other_drop_ins(host: Host, loaded: Unit) -> bool:
    """Whether the directories of its drop-ins have others by name than systemd has loaded: of a directory that was
    made since it last read unit files it does not know (systemd, unit_path_cache)."""
    directories = [f"{place}/{loaded.name}.d" for place in _UNIT_PLACES]
    there: set[str] = set()
    for directory in directories:
        try:
            there |= {name for name in host.root.names(directory) if name.endswith(".conf")}
        except FileNotFoundError:
            continue
        except OSError:
            return False
    folders = {os.path.basename(directory) for directory in directories}
    has = {os.path.split(path) for path in loaded.files[1:]}
    return there != {name for folder, name in has if os.path.basename(folder) in folders}


def _wall(monotonic: float) -> float:
    """As the wall clock is set now."""
    return time.time() - (time.monotonic() - monotonic)


def _sees_usr(host: Host, root: Root) -> Optional[bool]:
    try:
        return root.what("/usr").identity == host.root.what("/usr").identity
    except OSError:
        return None


def _goes_along(systemd: Systemd, kubelet: str, runtime: str) -> bool:
    return runtime in unit(systemd, kubelet).goes_along_with


def _cni_missing(host: Host, platform: Platform) -> str:
    for directory in platform.cni_directories[:1]:
        try:
            if not conf_names(host.root.names(directory)):
                return f"there is no CNI configuration in {directory}"
        except FileNotFoundError:
            return f"there is no {directory}"
        except OSError:
            continue
    return ""


def _asked_crio(runtime: Runtime) -> Runtime:
    """What the program on disk says of itself and of its configuration, where a restart may be due: each is a start
    of a program, and of one that may be broken."""
    service = runtime.service
    if all(service.has_seen(one.changed_at) for one in service.config) and all(one.same for one in service.programs):
        return runtime
    program = next((one.path for one in service.programs if one.role == "itself"), "") or "/usr/bin/crio"
    found = crio.ask(os.path.normpath(program))
    config = service.config
    if found.problem and not any(one.problem for one in config):
        place = next((at for at, one in enumerate(config) if one.of == "runtime"), None)
        broken = ConfigFile(
            path=config[place].path if place is not None else program, of="runtime",
            changed_at=config[place].changed_at if place is not None else None, problem=found.problem,
        )  # fmt: skip
        config = (*config[:place], broken, *config[place + 1 :]) if place is not None else (broken, *config)
    return _replaced(runtime, config, found.version)


def _replaced(runtime: Runtime, config: tuple[ConfigFile, ...], version: str) -> Runtime:
    service = msgspec.structs.replace(runtime.service, config=config)
    return msgspec.structs.replace(runtime, service=service, version_on_disk=version)
