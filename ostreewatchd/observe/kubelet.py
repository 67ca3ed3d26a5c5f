# SPDX-License-Identifier: Apache-2.0
"""Which process is kubelet, what it was started with, and whether it would start a stopped container again now."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ostreewatchd.model import KubeletView, RuntimeView, StaticPod
from ostreewatchd.observe.host import Host
from ostreewatchd.parse import cgroup, kubeconfig, manifest, yamltext
from ostreewatchd.peers import http, proc
from ostreewatchd.platforms import Platform

_DEADLINE = 3.0
_HEALTHZ = "http://127.0.0.1:10248/healthz"
_MAX_MANIFESTS = 200
_MAX_CONFIG = 1 << 20


class Kubelet(NamedTuple):
    """The process, and the flags that matter. Empty strings: not given."""

    pid: int
    started_ticks: int
    kubeconfig: str
    runtime_socket: str


def find(host: Host, platform: Platform) -> Optional[Kubelet]:
    """The node's kubelet; None if none runs. A process in a container may call itself kubelet too, so it must be
    root's and in no container."""
    for pid in proc.named(*platform.kubelet_commands):
        try:
            if proc.user(pid) != 0 or cgroup.container_id(proc.read(pid, "cgroup") or b""):
                continue
            stat, flags = proc.stat(pid), _flags(proc.command_line(pid))
        except proc.Unreadable:
            continue
        if stat is not None:
            config = flags.get("kubeconfig") or flags.get("bootstrap-kubeconfig", "")
            return Kubelet(pid, stat.start_ticks, config, _runtime_socket(host, flags))
    return None


def view(kubelet: Optional[Kubelet], host: Host, platform: Platform, runtime: RuntimeView) -> KubeletView:
    """Whether it would start a stopped container again now: it runs, is healthy, and either needs no API server, or
    has talked to it since it was started, or has one that answers. (One that was restarted while its API server
    is away starts nothing, and says that it is healthy.)"""
    if kubelet is None:
        return KubeletView(refusal="kubelet-inactive", problem="no kubelet process is running")
    pods = _static_pods(host, platform)
    refusal = problem = ""
    try:
        status, body = http.get(_HEALTHZ, deadline=_DEADLINE)
        if status != 200:
            text = body.decode("utf-8", "replace").strip()[:200]
            refusal, problem = "kubelet-unhealthy", f"healthz: {text}"
    except http.NoAnswer as error:
        refusal, problem = "kubelet-not-answering", error.what
    if not refusal and kubelet.kubeconfig and not _has_talked(kubelet, runtime):
        problem = _api_server_problem(host, kubelet.kubeconfig)
        refusal = "api-server-out-of-reach" if problem else ""
    return KubeletView(pid=kubelet.pid, refusal=refusal, problem=problem, static_pods=pods)


def _flags(arguments: tuple[str, ...]) -> dict[str, str]:
    """`--name=value` and `--name value`."""
    found: dict[str, str] = {}
    for argument, following in zip(arguments, (*arguments[1:], "")):
        if argument.startswith("-"):
            name, equals, value = argument.lstrip("-").partition("=")
            found[name] = value if equals else following
    return found


def _runtime_socket(host: Host, flags: dict[str, str]) -> str:
    """The path of kubelet's own runtime endpoint: its flag, else its configuration file."""
    endpoint = flags.get("container-runtime-endpoint", "")
    if not endpoint and flags.get("config", "").startswith("/"):
        try:
            document = yamltext.load(host.root.read(flags["config"], _MAX_CONFIG))
        except (OSError, yamltext.NotYaml):
            document = None
        if isinstance(document, dict):
            endpoint = str(document.get("containerRuntimeEndpoint", ""))
    path = endpoint[len("unix://") :] if endpoint.startswith("unix://") else endpoint
    return path if path.startswith("/") else ""


def _has_talked(kubelet: Kubelet, runtime: RuntimeView) -> bool:
    """A container of a pod that kubelet knows from the API server alone was started after kubelet itself."""
    pods = {pod.sandbox_id for pod in runtime.pods if pod.annotations.get("kubernetes.io/config.source") == "api"}
    ids = {one.id for one in runtime.containers if one.running and one.sandbox_id in pods}
    for pid in proc.pids() if ids else ():
        try:
            groups = proc.read(pid, "cgroup")
            stat = proc.stat(pid) if groups and cgroup.container_id(groups) in ids else None
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


def _static_pods(host: Host, platform: Platform) -> tuple[StaticPod, ...]:
    """The manifests that can be read; a broken one is kubelet's to complain about."""
    found = []
    for directory in platform.manifests:
        try:
            names = host.root.names(directory)[:_MAX_MANIFESTS]
        except OSError:
            continue
        for name in names:
            path = f"{directory}/{name}"
            if name.startswith("."):
                continue
            try:
                pod = manifest.parse(host.root.read(path, manifest.MAX_BYTES))
            except (OSError, manifest.ManifestError):
                continue
            found.append(
                StaticPod(namespace=pod.namespace, name=pod.name, restart_policy=pod.restart_policy, manifest=path)
            )
    return tuple(found)
