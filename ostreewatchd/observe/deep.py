# SPDX-License-Identifier: Apache-2.0
"""What only the remediation and a person's command ask, because it means to talk to a process: the runtime,
kubelet, systemd. Each answers within its deadline or is a problem with its reason."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import KubeletView, RuntimeContainer, RuntimePod, RuntimeView, StaticPod, SystemView
from ostreewatchd.observe.host import Host
from ostreewatchd.parse import kubeconfig, manifest
from ostreewatchd.peers import http, proc
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.peers.systemd import Systemd, SystemdError
from ostreewatchd.platforms import Platform

_DEADLINE = 3.0
_HEALTHZ = "http://127.0.0.1:10248/healthz"
_MAX_MANIFESTS = 200

# Of other people's labels and annotations only these are kept: the rest may hold anything.
_LABELS = (
    "controller-revision-hash",
    "pod-template-generation",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_ANNOTATIONS = ("kubernetes.io/config.source", "io.kubernetes.pod.terminationGracePeriod")


class DeepLook:
    """Asks the processes. `Deep` of observe.look."""

    def system(self) -> SystemView:
        try:
            with Systemd() as systemd:
                return SystemView(state=systemd.state())
        except SystemdError as error:
            return SystemView(problem=str(error))

    def runtime(self, platform: Platform) -> RuntimeView:
        """The first of the platform's sockets that is there is the runtime."""
        problems = []
        for socket in platform.runtime_sockets:
            try:
                with Runtime.connect(socket, deadline=_DEADLINE) as runtime:
                    sandboxes, containers = runtime.sandboxes(), runtime.containers()
            except PeerError as error:
                problems.append(str(error))
                continue
            grace = {one.sandbox_id: one.annotations for one in containers if one.state == "running"}
            return RuntimeView(
                socket=socket,
                pods=tuple(
                    RuntimePod(
                        sandbox_id=one.id,
                        namespace=one.namespace,
                        name=one.name,
                        uid=one.uid,
                        ready=one.ready,
                        labels={key: one.labels[key] for key in _LABELS if key in one.labels},
                        annotations={
                            key: source[key]
                            for source in (grace.get(one.id, {}), one.annotations)
                            for key in _ANNOTATIONS
                            if key in source
                        },
                    )
                    for one in sandboxes
                ),
                containers=tuple(
                    RuntimeContainer(
                        id=one.id,
                        sandbox_id=one.sandbox_id,
                        name=one.name,
                        attempt=one.attempt,
                        running=one.state == "running",
                    )
                    for one in containers
                ),
            )
        return RuntimeView(socket="", problem="; ".join(problems))

    def kubelet(self, host: Host, platform: Platform) -> KubeletView:
        """Whether kubelet would start a stopped container again now: it runs, is healthy, and either needs no
        API server or has one that answers (after a restart of its own it would wait for that)."""
        pid = next(iter(proc.named(*platform.kubelet_commands)), None)
        if pid is None:
            return KubeletView(refusal="kubelet-inactive", problem="no kubelet process is running")
        pods = _static_pods(host, platform)
        try:
            status, body = http.get(_HEALTHZ, deadline=_DEADLINE)
        except http.NoAnswer as error:
            return KubeletView(pid=pid, refusal="kubelet-not-answering", problem=error.what, static_pods=pods)
        if status != 200:
            text = body.decode("utf-8", "replace").strip()[:200]
            return KubeletView(pid=pid, refusal="kubelet-unhealthy", problem=f"healthz: {text}", static_pods=pods)
        config = _kubeconfig(pid)
        if not config:
            return KubeletView(pid=pid, standalone=True, static_pods=pods)
        problem = _api_server_problem(host, config)
        return KubeletView(
            pid=pid,
            refusal="api-server-out-of-reach" if problem else "",
            problem=problem,
            static_pods=pods,
        )


def _kubeconfig(pid: int) -> str:
    """The kubeconfig that this kubelet was started with; empty if it is standalone."""
    arguments = proc.command_line(pid)
    for number, argument in enumerate(arguments):
        name, equals, value = argument.lstrip("-").partition("=")
        if name in ("kubeconfig", "bootstrap-kubeconfig"):
            following: Optional[str] = arguments[number + 1] if number + 1 < len(arguments) else None
            chosen = value if equals else following
            if chosen:
                return chosen
    return ""


def _api_server_problem(host: Host, path: str) -> str:
    """Any HTTP answer will do: 401 too proves that the server is there."""
    try:
        url = kubeconfig.server(host.root.read(path, kubeconfig.MAX_BYTES))
        http.get(url.rstrip("/") + "/readyz", deadline=_DEADLINE)
    except (OSError, kubeconfig.KubeconfigError) as error:
        return f"kubelet's {path}: {error}"
    except http.NoAnswer as error:
        return f"{error.what}: a kubelet that restarted would not start the container again"
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
