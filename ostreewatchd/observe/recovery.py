# SPDX-License-Identifier: Apache-2.0
"""One sample of all evidence on whether the node has recovered: asked of systemd, the runtime and kubelet, each within
its deadline, and told with the time of CLOCK_MONOTONIC at which it was asked."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Sequence
from typing import Optional

from msgspec.structs import replace

from ostreewatchd.model import Daemon, FailedUnit, KubeletSeen, Sample, Settings, UnitSeen
from ostreewatchd.observe import kubelet as kubelets
from ostreewatchd.observe import recoverycri
from ostreewatchd.observe.daemons import daemons, helper
from ostreewatchd.observe.host import Host, boot_id, platform_of
from ostreewatchd.observe.kubelet import Kubelet
from ostreewatchd.observe.owners import Owners
from ostreewatchd.observe.recoverycri import Answer
from ostreewatchd.parse import cgroup
from ostreewatchd.peers import proc
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.peers.kubeletapi import MAX_FILE, Access, KubeletApi, KubeletDenies, KubeletNotTrusted
from ostreewatchd.peers.systemd import Systemd, SystemdError
from ostreewatchd.platforms import Platform
from ostreewatchd.platforms.units import CONFIGURATION, KUBELET_UNITS, MONITORS, RUNTIME_UNITS

_DEADLINE = 3.0
_MAX_ORPHANS = 1000


class Sampler:
    """Takes samples; remembers which units and sockets the processes had, for when they are down."""

    def __init__(self, settings: Settings) -> None:
        self._access = Access(
            token=settings.kubelet_token,
            certificate=settings.kubelet_certificate,
            key=settings.kubelet_key,
            authority=settings.kubelet_authority,
        )
        self._units = {"runtime": "", "kubelet": ""}
        self._kubelet: Optional[Kubelet] = None

    def sample(self) -> Sample:
        """Raises HostGone."""
        with Host() as host:
            platform = platform_of(host.root)
            here = _daemons(host, platform)
            self._kubelet = kubelets.find(host, platform, here) or self._kubelet
            own = self._kubelet.runtime_socket if self._kubelet is not None else ""
            runtime = _runtime_of(own, here)
            for one in here:
                if one.kind == "kubelet" or one is runtime:
                    self._units[one.kind] = one.unit or self._units[one.kind]
            at, wall = time.monotonic(), time.time()
            units, failed = self._ask_systemd(crio=runtime is None or runtime.name == "crio")
            sockets = (own,) if own else platform.runtime_sockets
            cri = recoverycri.ask(sockets)
            config_path, config_wall = _configuration(host, runtime)
            orphans, cri = _orphans(host, platform, cri, sockets)
            return Sample(
                at=at,
                wall=wall,
                boot_id=boot_id(host.root),
                runtime=units["runtime"],
                kubelet=units["kubelet"],
                cri=cri.seen,
                api=self._ask_kubelet(host),
                config_path=config_path,
                config_wall=config_wall,
                orphans=orphans,
                failed_monitors=failed,
            )

    def _ask_systemd(self, *, crio: bool) -> tuple[dict[str, UnitSeen], Optional[tuple[FailedUnit, ...]]]:
        candidates = {"runtime": RUNTIME_UNITS, "kubelet": KUBELET_UNITS}
        try:
            with Systemd() as systemd:
                for kind, unit in self._units.items():
                    self._units[kind] = unit or _loaded(systemd, candidates[kind])
                units = {kind: _unit(systemd, unit) for kind, unit in self._units.items()}
                failed = systemd.failed(MONITORS) if crio else []
        except SystemdError as error:
            units = {kind: UnitSeen(unit=unit, problem=error.what) for kind, unit in self._units.items()}
            return units, None
        return units, tuple(FailedUnit(unit=unit, at=at) for unit, at in failed)

    def _ask_kubelet(self, host: Host) -> KubeletSeen:
        kubelet, asked = self._kubelet, time.monotonic()
        if kubelet is None:
            return KubeletSeen(asked=asked, healthy=False, health_problem="no kubelet process is running",
                               unseen="no kubelet process is running")  # fmt: skip
        url = kubelet.config.healthz()
        _, problem = kubelets.health(url) if url else ("", "")
        seen = KubeletSeen(
            asked=asked,
            healthy=not problem if url else None,
            health_problem=problem,
            directories=kubelets.directories(host, kubelet.directory),
        )
        where = kubelet.config.api()
        if where is None:
            return replace(seen, unseen="its API is turned off (port 0)")
        return _ask_api(seen, KubeletApi(*where, self._access, _serving(host, kubelet), deadline=_DEADLINE))


def _ask_api(seen: KubeletSeen, api: KubeletApi) -> KubeletSeen:
    """Each question by itself: a credential may allow some and not others."""
    try:
        seen = replace(seen, pods=api.pods(), running=api.running())
    except (KubeletDenies, KubeletNotTrusted) as error:
        seen = replace(seen, unseen=str(error))
    except PeerError as error:
        return replace(seen, problem=error.what)
    # Without these two the pods tell, and why those may not be seen is said already.
    with contextlib.suppress(PeerError):
        seen = replace(seen, pleg_wall=api.pleg())
    with contextlib.suppress(PeerError):
        seen = replace(seen, api_healthy=api.healthy())
    return seen


def _daemons(host: Host, platform: Platform) -> list[Daemon]:
    found = [(pid, helper(pid)) for pid in proc.pids()]
    return daemons(sorted((pid, name) for pid, name in found if name), host, platform)


def _runtime_of(socket: str, here: Sequence[Daemon]) -> Optional[Daemon]:
    """The one that kubelet uses: a containerd may be there for Docker beside a CRI-O."""
    mine = [one for one in here if one.kind == "runtime"]
    return min(mine, key=lambda one: one.name not in socket, default=None)


def _loaded(systemd: Systemd, units: Sequence[str]) -> str:
    """The first that is there; empty if none is. Raises SystemdError."""
    return next((unit for unit in units if systemd.unit_state(unit) != "not-found"), "")


def _unit(systemd: Systemd, unit: str) -> UnitSeen:
    if not unit:
        return UnitSeen()
    state = systemd.service(unit)
    return UnitSeen(
        unit=unit,
        active=state.active,
        sub=state.sub,
        result=state.result,
        invocation=state.invocation,
        main_pid=state.main_pid,
        restarts=state.restarts,
        began=state.began_at,
        active_since=state.active_at,
    )


def _configuration(host: Host, runtime: Optional[Daemon]) -> tuple[str, Optional[float]]:
    """Of the runtime's files and directories of configuration the one that was changed last, and when."""
    found = []
    for path in CONFIGURATION.get(runtime.name, ()) if runtime is not None else ():
        try:
            found.append((host.root.modified_at(path), path))
        except OSError:
            continue
    if not found:
        return "", None
    changed, path = max(found)
    return path, changed


def _orphans(
    host: Host, platform: Platform, cri: Answer, sockets: Sequence[str]
) -> tuple[Optional[tuple[str, ...]], Answer]:
    """Containers of pods with processes of which the runtime knows nothing. What came between its list and the look
    at the processes is told by a second list, which is what counts then."""
    running = _running(host) if not cri.seen.problem else None
    if running is None:
        return None, cri
    owners = Owners(host, platform, [])
    strange = {one for one in running.keys() - cri.ids if running[one] or _is_of_pod(owners, one)}
    if not strange:
        return (), cri
    again = recoverycri.ask(sockets)
    still = _running(host) if not again.seen.problem else None
    if still is None:
        return None, again
    return tuple(sorted((strange & still.keys()) - again.ids)[:_MAX_ORPHANS]), again


def _running(host: Host) -> Optional[dict[str, bool]]:
    """IDs of the containers that have a process, and whether its path says that it is of a pod (which it does not with
    `cgroupsPerQOS: false`); None where processes may not be looked at."""
    found = {}
    for pid in proc.pids():
        try:
            groups = proc.read(pid, "cgroup") or b""
        except proc.Unreadable:
            return None
        container = cgroup.container_id(groups, host.around)
        if container and container not in found:
            found[container] = bool(cgroup.pod_uid(groups, host.around))
    return found


def _is_of_pod(owners: Owners, container: str) -> bool:
    """By its bundle: Podman's and Docker's containers are of none."""
    spec = owners.bundle(container)
    return spec is not None and bool(spec.pod)


def _serving(host: Host, kubelet: Kubelet) -> list[bytes]:
    """DER of the certificates that it may serve with: the first of each file."""
    names = (f"{kubelet.certificates}/kubelet.crt", f"{kubelet.certificates}/kubelet-server-current.pem")
    found = []
    for path in (kubelet.config.certificate,) if kubelet.config.certificate else names:
        try:
            text = host.root.read(path, MAX_FILE).decode("ascii", "replace")
            begin = text.index("-----BEGIN CERTIFICATE-----")
            end = text.index("-----END CERTIFICATE-----", begin) + len("-----END CERTIFICATE-----")
            found.append(ssl.PEM_cert_to_DER_cert(text[begin:end]))
        except (OSError, ValueError):
            continue
    return found
