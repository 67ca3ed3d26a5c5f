# SPDX-License-Identifier: Apache-2.0
"""What kubelet was started with, and whether it would start a stopped container again now."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple, Optional

from ostreewatchd.model import Daemon, KubeletView, RuntimeView, StaticPod
from ostreewatchd.model.views import KubeletRefusal
from ostreewatchd.observe.host import Host
from ostreewatchd.parse import cgroup, kubeconfig, kubeletconfig, manifest
from ostreewatchd.parse.flags import flags
from ostreewatchd.parse.kubeletconfig import KubeletConfig
from ostreewatchd.peers import http, proc
from ostreewatchd.peers.paths import LIST_LIMIT
from ostreewatchd.platforms import Platform

_DEADLINE = 3.0
_MAX_MANIFESTS = 200
_MAX_DROP_INS = 100


class Kubelet(NamedTuple):
    """The process, and what it was told that matters here. `kubeconfig` empty: it needs no API server."""

    pid: int
    started_ticks: int
    kubeconfig: str
    config: KubeletConfig
    directory: str = "/var/lib/kubelet"
    """Its root directory, where it keeps what belongs to its pods."""
    certificates: str = "/var/lib/kubelet/pki"
    """The directory of the certificates that it has made or asked for itself."""

    @property
    def runtime_socket(self) -> str:
        """Empty: it does not say."""
        return self.config.runtime_socket()


def find(host: Host, platform: Platform, daemons: Iterable[Daemon]) -> Optional[Kubelet]:
    """The node's kubelet, and what it was started with; None if none of the daemons is one."""
    for daemon in daemons:
        if daemon.kind != "kubelet":
            continue
        try:
            stat, said = proc.stat(daemon.pid), flags(proc.command_line(daemon.pid))
        except proc.Unreadable:
            continue
        if stat is not None:
            access = said.get("kubeconfig") or said.get("bootstrap-kubeconfig") or _embedded(host, platform)
            directory = said.get("root-dir") or Kubelet._field_defaults["directory"]
            certificates = said.get("cert-dir") or Kubelet._field_defaults["certificates"]
            return Kubelet(daemon.pid, stat.start_ticks, access, _config(host, said), directory, certificates)
    return None


def view(kubelet: Optional[Kubelet], host: Host, platform: Platform, runtime: RuntimeView) -> KubeletView:
    """Whether it would start a stopped container again now: it runs, is healthy, and either needs no API server, or
    has talked to it since it was started, or has one that answers. (One that was restarted while its API server
    is away starts nothing, and says that it is healthy.)"""
    if kubelet is None:
        return KubeletView(refusal="kubelet-inactive", problem="no kubelet process is running")
    own = kubelet.config.static_pod_path
    pods = _static_pods(host, (own,) if own else platform.manifests)
    refusal: KubeletRefusal
    refusal, problem = health(kubelet.config.healthz())
    if not refusal and kubelet.kubeconfig and not _has_talked(host, kubelet, runtime):
        problem = _api_server_problem(host, kubelet.kubeconfig)
        refusal = "api-server-out-of-reach" if problem else ""
    return KubeletView(
        pid=kubelet.pid, refusal=refusal, problem=problem, static_pods=pods, pods=directories(host, kubelet.directory)
    )


def directories(host: Host, directory: str) -> Optional[tuple[str, ...]]:
    """UIDs of the pods that it keeps a directory for, below its root directory; None: not known."""
    try:
        names = host.root.names(f"{directory}/pods")
    except OSError:
        return None
    return tuple(names) if len(names) < LIST_LIMIT else None


def health(url: str) -> tuple[KubeletRefusal, str]:
    """The name of a refusal and its reason, or two empty strings. `url` empty: it is turned off."""
    if not url:
        return "kubelet-not-answering", "its healthz is turned off (healthzPort 0), so its health is not known"
    try:
        status, body = http.get(url, deadline=_DEADLINE)
    except http.NoAnswer as error:
        return "kubelet-not-answering", error.what
    if status != 200:
        return "kubelet-unhealthy", f"healthz: {body.decode('utf-8', 'replace').strip()[:200]}"
    return "", ""


def _embedded(host: Host, platform: Platform) -> str:
    """The kubeconfig of a kubelet that is a part of a larger program, which gives it no flag."""
    for path in platform.kubeconfigs:
        try:
            if host.root.exists(path):
                return path
        except OSError:
            return path
    return ""


def _config(host: Host, said: dict[str, str]) -> KubeletConfig:
    """What holds: flags, then drop-ins (the last by name first), then the file. One that cannot be read says
    nothing: kubelet itself would not have started with it."""
    config = kubeletconfig.from_flags(said)
    for path in (*reversed(_drop_ins(host, said.get("config-dir", ""))), said.get("config", "")):
        if path.startswith("/"):
            try:
                config = config.before(kubeletconfig.parse(host.root.read(path, kubeletconfig.MAX_BYTES)))
            except (OSError, kubeletconfig.KubeletConfigError):
                continue
    return config


def _drop_ins(host: Host, directory: str) -> list[str]:
    try:
        names = host.root.names(directory) if directory.startswith("/") else []
    except OSError:
        return []
    return [f"{directory}/{name}" for name in names if name.endswith(".conf")][:_MAX_DROP_INS]


def _has_talked(host: Host, kubelet: Kubelet, runtime: RuntimeView) -> bool:
    """A container of a pod that kubelet knows from the API server alone was started after kubelet itself."""
    pods = {pod.sandbox_id for pod in runtime.pods if pod.annotations.get("kubernetes.io/config.source") == "api"}
    ids = {one.id for one in runtime.containers if one.running and one.sandbox_id in pods}
    for pid in proc.pids() if ids else ():
        try:
            groups = proc.read(pid, "cgroup")
            stat = proc.stat(pid) if groups and cgroup.container_id(groups, host.around) in ids else None
        except proc.Unreadable:
            continue
        if stat is not None and stat.start_ticks > kubelet.started_ticks:
            return True
    return False


def _api_server_problem(host: Host, path: str) -> str:
    """Any HTTP answer will do: 401 too proves that the server is there."""
    try:
        url = kubeconfig.server(host.root.read(path, kubeconfig.MAX_BYTES))
        http.get(url.rstrip("/") + "/readyz", deadline=_DEADLINE)
    except (OSError, kubeconfig.KubeconfigError) as error:
        return f"kubelet's {path}: {error}"
    except http.NoAnswer as error:
        return (
            f"{error.what}, and kubelet has started no pod's container since it was itself started: it may have been"
            " restarted without its API server, and would then start nothing"
        )
    return ""


def _static_pods(host: Host, places: Iterable[str]) -> tuple[StaticPod, ...]:
    """The manifests that can be read; a broken one is kubelet's to complain about."""
    found = []
    for path in itertools.chain.from_iterable(_manifests(host, place) for place in places):
        try:
            pod = manifest.parse(host.root.read(path, manifest.MAX_BYTES))
        except (OSError, manifest.ManifestError):
            continue
        found.append(
            StaticPod(namespace=pod.namespace, name=pod.name, restart_policy=pod.restart_policy, manifest=path)
        )
    return tuple(found)


def _manifests(host: Host, place: str) -> list[str]:
    """The files in a directory; staticPodPath may name a single file, too."""
    try:
        if not host.root.what(place).is_directory:
            return [place]
        return [f"{place}/{name}" for name in host.root.names(place) if not name.startswith(".")][:_MAX_MANIFESTS]
    except OSError:
        return []
