# SPDX-License-Identifier: Apache-2.0
"""Evidence on whether a container runtime and kubelet run what the live tree has, and what follows from it.

A time is when the thing became what it is for whoever looks: the latest of its mtime, its ctime and the making of the
mount through which it is seen (a checkout is older than the switch that brings it)."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record
from ostreewatchd.model.verdicts import Change, Refusal, RuntimeAction

RuntimeKind = Literal["crio", "containerd", "k3s", "rke2", "microk8s", "k0s"]
"""Beside the two runtimes the programs that have one as a part of them."""
ConfigOf = Literal["runtime", "registries", "policy", "cni", "hooks", "kubelet"]


CLOCKS_APART = 1.0
"""Seconds. A start is known to a tick, in another clock than a file's change: closer than this is no order, and a
restart too many is the smaller harm."""


class Handler(Record, frozen=True, kw_only=True):
    """A runtime handler, as a configuration has it."""

    name: str
    path: str = ""
    """Of its program."""
    root: str = ""
    """Where its program keeps the state of its containers."""
    rest: str = ""
    """A digest of its other settings: allowed annotations, monitor, type, …"""
    is_there: Optional[bool] = None
    """Whether its program is there, as the runtime sees it; None: not known."""


class ConfigFile(Record, frozen=True, kw_only=True):
    """A file that is read for configuration, or one that was and is gone."""

    path: str
    of: ConfigOf
    changed_at: Optional[float]
    """None: not known."""
    settings: Optional[tuple[str, ...]] = None
    """Settings in it that are others than the running process has read (`crio.runtime.log_level`); empty: none. None:
    what it has read is not known."""
    partly: bool = False
    """It has settings of which it is not known whether the process has them so; `settings` has the others."""
    other_tree: bool = False
    """It is seen through a mount that was made over it since the boot: another file, whatever is in it."""
    problem: str = ""
    """Why a start would end at this file, with its line."""


class Program(Record, frozen=True, kw_only=True):
    """A file that the process executes, maps, or starts by its path."""

    path: str
    role: Literal["itself", "library", "monitor", "handler"]
    """`monitor`: conmon, pinns, a shim; `handler`: runc, crun, …: both are started anew for each container."""
    same: Optional[bool]
    """Whether its content is what the process has of it. By identity all differ behind an overlay, and none is marked
    as deleted. None: not known."""
    changed_at: Optional[float] = None
    """When what the path has now came to be."""


class Service(Record, frozen=True, kw_only=True):
    """A process and the unit that it is of."""

    unit: str
    started_at: Optional[float]
    """None: not known."""
    ready: bool
    """It has said READY=1 and answers."""
    invocation: str = ""
    """systemd's InvocationID, in hexadecimal: another one with each start, whoever asked for it. Empty: not known."""
    reloaded_at: Optional[float] = None
    """When it was told last to read its configuration anew, if that was after its start; None: it was not."""
    busy: bool = False
    """systemd has a job for its unit, which is somebody else's."""
    needs_daemon_reload: bool = False
    """systemd's NeedDaemonReload: unit file or drop-ins are newer than what it has loaded."""
    unit_changed_at: Optional[float] = None
    """The newest of unit file and drop-ins."""
    config: tuple[ConfigFile, ...] = ()
    programs: tuple[Program, ...] = ()
    sees_usr: Optional[bool] = None
    """Whether its mount namespace has the host's /usr; None: not known."""
    held_at: str = ""
    """The file at which its mount namespace is held for whoever joins it (kubens): a restart joins it again."""

    def has_seen(self, changed_at: Optional[float]) -> Optional[bool]:
        """Whether what is so since then was so when the process was started; None: not known."""
        if changed_at is None or self.started_at is None:
            return None
        return changed_at + CLOCKS_APART <= self.started_at

    @property
    def changed_at(self) -> Optional[float]:
        """When anything of what it was started from became what it is, for the last time; None: of some it is not
        known."""
        config = [one.changed_at for one in self.config]
        programs = [one.changed_at for one in self.programs if one.same is False]
        moments = [*config, *programs, *([self.unit_changed_at] if self.unit_changed_at is not None else [])]
        known = [one for one in moments if one is not None]
        return max(known, default=0.0) if len(known) == len(moments) else None


class InFlight(Record, frozen=True, kw_only=True):
    """What a restart of the runtime would break off."""

    creating: tuple[str, ...] = ()
    """Pods of which a sandbox or a container is being created."""
    terminating: tuple[str, ...] = ()
    pulls: int = 0
    """Images that are being pulled."""


class Runtime(Record, frozen=True, kw_only=True):
    """A container runtime, and the kubelet that uses it."""

    kind: RuntimeKind
    service: Service
    version: str = ""
    """Of the running process."""
    version_on_disk: str = ""
    """Of the program that a restart would start."""
    flags: tuple[str, ...] = ()
    """Of its command line, those that set what a file may set, too: CRI-O loses them with a reload."""
    usr_mounted_at: Optional[float] = None
    """When the visible mount of /usr was made; None: not known, or none is beside the boot's."""
    handlers: tuple[Handler, ...] = ()
    """As the files have them now, and those that it has without a file (CRI-O: crun)."""
    default_handler: str = ""
    loaded: Optional[tuple[Handler, ...]] = None
    """Those that *this process* can have: as the files had them when it started. What it displays is no evidence:
    CRI-O shows what it has read since, and serves what it had at its start. None: not known."""
    loaded_default: str = ""
    used: Optional[tuple[str, ...]] = None
    """Handlers of pods that run; None: not known."""
    in_flight: Optional[InFlight] = None
    """None: not known."""
    cni_missing: str = ""
    """What of the CNI configuration the live tree lacks: pods would lose their addresses. Empty: nothing."""
    types_missing: tuple[str, ...] = ()
    """SELinux types that the configuration needs and the loaded policy lacks."""
    kubelet: Optional[Service] = None
    """None: it is a part of the same program, or there is none."""
    kubelet_goes_along: bool = False
    """Its unit Requires= the runtime's, BindsTo= it or is PartOf= it: a restart is propagated (systemd.unit(5))."""


class Decision(Record, frozen=True, kw_only=True):
    """What one unit needs. Refusals hold whatever is not `nothing`."""

    unit: str
    action: RuntimeAction
    daemon_reload: bool = False
    because: tuple[Change, ...] = ()
    """Those that ask for the action."""
    beside: tuple[Change, ...] = ()
    """Those that ask for less, or for nothing, or are not known."""
    along: tuple[str, ...] = ()
    """What ends and starts with it."""
    refusals: tuple[Refusal, ...] = ()
    smaller: str = ""
    """Why nothing smaller does."""
    larger: str = ""
    """Why nothing larger is needed."""
