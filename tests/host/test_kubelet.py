# SPDX-License-Identifier: Apache-2.0
"""Which process is kubelet on a real kernel, and when it would start a stopped container again."""

from __future__ import annotations

import contextlib
import http.server
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ostreewatchd.model import KubeletView, RuntimeContainer, RuntimePod, RuntimeView
from ostreewatchd.observe import daemons
from ostreewatchd.observe import kubelet as kubelets
from ostreewatchd.observe.host import Host
from ostreewatchd.peers import proc
from ostreewatchd.platforms import GENERIC, Platform
from tests.host.namespace import cgroup_roots, in_namespaces, needs_root, token

pytestmark = needs_root

ID = "ab" * 32
NOBODY = 65534


@contextlib.contextmanager
def process(name: str, *arguments: str, group: str = "", user: int = 0) -> Iterator[int]:
    """A process with this name and these flags, in a cgroup of its own if told; killed at the end."""
    code = f"import os, time; open('/proc/self/comm', 'w').write({name!r}); os.setuid({user}); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code, *arguments])
    try:
        for root in cgroup_roots() if group else ():
            (root / token() / group).mkdir(parents=True, exist_ok=True)
            (root / token() / group / "cgroup.procs").write_text(str(child.pid), encoding="ascii")
        deadline = time.monotonic() + 10
        while (proc.read(child.pid, "comm") or b"").strip() != name.encode():
            assert time.monotonic() < deadline, "the process did not take its name"
            time.sleep(0.01)
        yield child.pid
    finally:
        child.kill()
        child.wait(10)


def find(host: Host, platform: Platform) -> kubelets.Kubelet | None:
    helpers = ((pid, daemons.helper(pid)) for pid in proc.pids())
    return kubelets.find(host, platform, daemons.daemons(helpers, host, platform))


def found() -> kubelets.Kubelet | None:
    with Host() as host:
        return find(host, GENERIC)


def seen(runtime: RuntimeView) -> KubeletView:
    with Host() as host:
        return kubelets.view(find(host, GENERIC), host, GENERIC, runtime)


@contextlib.contextmanager
def healthz(status: int = 200, port: int = 10248) -> Iterator[None]:
    """What kubelet serves on loopback, in a network namespace of the test's own."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"ok" if status == 200 else b"[-]syncloop failed")

        def log_message(self, format: str, *arguments: object) -> None:
            return

    server = http.server.HTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def own_network() -> None:
    """Loopback of our own: the ports are kubelet's, and nobody else's traffic is here."""
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    assert libc.unshare(0x40000000) == 0, "CLONE_NEWNET"
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=10)


def running(source: str) -> RuntimeView:
    """One running container of a pod that kubelet has from `source`."""
    annotations = {"kubernetes.io/config.source": source}
    pod = RuntimePod(sandbox_id="s", namespace="n", name="p", uid="u", ready=True, labels={}, annotations=annotations)
    container = RuntimeContainer(id=ID, sandbox_id="s", name="c", attempt=0, running=True)
    return RuntimeView(socket="x", pods=(pod,), containers=(container,))


def kubeconfig(tmp_path: Path, url: str) -> str:
    """`.invalid` and a closed port of loopback are the only places that these name."""
    path = tmp_path / "kubeconfig"
    path.write_text(f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\ncontexts: []\n", encoding="ascii")
    return str(path)


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@in_namespaces
def test_kubelet_is_roots_and_in_no_container() -> None:
    """A pod's process may call itself kubelet, and have a lower pid."""
    assert found() is None
    with process("kubelet", "--kubeconfig=/dev/watchdog", group=ID), process("kubelet", user=NOBODY):
        assert found() is None
        with process("kubelet", "--kubeconfig", "/etc/k", "--container-runtime-endpoint=unix:///run/x.sock") as pid:
            one = found()
            assert one is not None and (one.pid, one.kubeconfig, one.runtime_socket) == (pid, "/etc/k", "/run/x.sock")


@in_namespaces
def test_a_host_that_is_in_a_container_itself() -> None:
    """A node of kind without a cgroup namespace: what it is in is no container of its own."""
    with process("kubelet", "--kubeconfig=/k", group=f"docker/{ID}/kubelet"):
        assert found() is None
        for root in cgroup_roots():
            (root / token() / "docker" / ID / "init").mkdir()
            (root / token() / "docker" / ID / "init" / "cgroup.procs").write_text("1", encoding="ascii")
        one = found()
        assert one is not None and one.kubeconfig == "/k"


@in_namespaces
def test_the_runtime_that_kubelets_configuration_names(tmp_path: Path) -> None:
    config = tmp_path / "kubelet.yaml"
    config.write_text("containerRuntimeEndpoint: unix:///run/crio/crio.sock\n", encoding="ascii")
    with process("kubelet", f"--config={config}"):
        one = found()
        assert one is not None and one.runtime_socket == "/run/crio/crio.sock"


@in_namespaces
def test_a_standalone_kubelet_needs_to_be_well_alone() -> None:
    own_network()
    nobody = RuntimeView(socket="x")
    assert seen(nobody).refusal == "kubelet-inactive"
    with process("kubelet"):
        assert seen(nobody).refusal == "kubelet-not-answering"
        with healthz(500):
            assert seen(nobody).refusal == "kubelet-unhealthy" and "syncloop" in seen(nobody).problem
        with healthz():
            assert (seen(nobody).refusal, seen(nobody).problem) == ("", "")


@in_namespaces
def test_a_kubelet_with_an_api_server_must_have_talked_to_it(tmp_path: Path) -> None:
    """One that was restarted while its API server is away says that it is healthy, and starts nothing: measured."""
    own_network()
    config = kubeconfig(tmp_path, f"https://127.0.0.1:{closed_port()}")
    with healthz(), process("older", group=ID), process("kubelet", "--kubeconfig", config):
        assert seen(running("api")).refusal == "api-server-out-of-reach", "the container is older than kubelet"
        with process("younger", group=ID):
            assert seen(running("api")).refusal == "", "kubelet started it: it has talked to the API server"
            assert seen(running("file")).refusal == "api-server-out-of-reach", "a static pod proves nothing"


@in_namespaces
def test_any_answer_of_the_api_server_will_do(tmp_path: Path) -> None:
    own_network()
    port = closed_port()
    with (
        healthz(),
        healthz(401, port),
        process("kubelet", f"--kubeconfig={kubeconfig(tmp_path, f'http://127.0.0.1:{port}')}"),
    ):
        assert seen(running("api")).refusal == ""


@in_namespaces
def test_its_health_is_asked_where_its_configuration_says(tmp_path: Path) -> None:
    """KubeletConfiguration v1beta1: healthzPort and healthzBindAddress, which flags and drop-ins go before."""
    own_network()
    nobody, port = RuntimeView(socket="x"), closed_port()
    config, more = tmp_path / "kubelet.yaml", tmp_path / "kubelet.conf.d"
    more.mkdir()
    config.write_text(f"healthzPort: {port}\n", encoding="ascii")
    with healthz(), process("kubelet", f"--config={config}"):
        assert seen(nobody).refusal == "kubelet-not-answering", "another's port is no answer"
        with healthz(200, port):
            assert seen(nobody).refusal == ""
    with healthz(), process("kubelet", f"--config={config}", "--healthz-port", "10248"):
        assert seen(nobody).refusal == ""
    (more / "10.conf").write_text("healthzPort: 1\n", encoding="ascii")
    (more / "20.conf").write_text("healthzPort: 10248\n", encoding="ascii")
    (more / "30.yaml").write_text("healthzPort: 2\n", encoding="ascii")
    with healthz(), process("kubelet", f"--config={config}", f"--config-dir={more}"):
        assert seen(nobody).refusal == "", "the last drop-in by name"
    config.write_text("healthzPort: 0\n", encoding="ascii")
    with healthz(), process("kubelet", f"--config={config}"):
        view = seen(nobody)
        assert view.refusal == "kubelet-not-answering" and "turned off" in view.problem


MANIFEST = "kind: Pod\nmetadata: {name: NAME, namespace: kube-system}\nspec: {}\n"


@in_namespaces
def test_static_pods_are_where_its_configuration_says(tmp_path: Path) -> None:
    """staticPodPath names a directory or one file; --pod-manifest-path goes before it."""
    own_network()
    config, elsewhere = tmp_path / "kubelet.yaml", tmp_path / "manifests"
    elsewhere.mkdir()
    for name in ("one", "two", ".hidden"):
        (elsewhere / f"{name}.yaml").write_text(MANIFEST.replace("NAME", name.strip(".")), encoding="ascii")
    (elsewhere / "broken").write_text("{", encoding="ascii")
    config.write_text(f"staticPodPath: {elsewhere}\n", encoding="ascii")
    nobody = RuntimeView(socket="x")
    with process("kubelet", f"--config={config}"):
        assert [one.name for one in seen(nobody).static_pods] == ["one", "two"]
    with process("kubelet", f"--config={config}", f"--pod-manifest-path={elsewhere}/two.yaml"):
        (pod,) = seen(nobody).static_pods
        assert (pod.name, pod.manifest, pod.restart_policy) == ("two", f"{elsewhere}/two.yaml", "Always")


@in_namespaces
def test_the_pods_that_kubelet_has_directories_of(tmp_path: Path) -> None:
    own_network()
    (tmp_path / "pods/uid-1").mkdir(parents=True)
    with process("kubelet", f"--root-dir={tmp_path}"):
        assert seen(RuntimeView(socket="x")).pods == ("uid-1",)
    with process("kubelet", "--root-dir=/none"):
        assert seen(RuntimeView(socket="x")).pods is None, "not known is not none"


@in_namespaces
def test_a_kubelet_inside_a_larger_program_needs_its_api_server(tmp_path: Path) -> None:
    """k3s gives its kubelet no flag: taken for a standalone one, it would be asked to start what it cannot."""
    own_network()
    config = kubeconfig(tmp_path, f"https://127.0.0.1:{closed_port()}")
    platform = GENERIC._replace(kubelet_commands=("k3s",), kubeconfigs=("/none", config))
    with healthz(), process("k3s", "server"), Host() as host:
        one = find(host, platform)
        assert one is not None and one.kubeconfig == config
        assert kubelets.view(one, host, platform, running("api")).refusal == "api-server-out-of-reach"
        alone = find(host, platform._replace(kubeconfigs=()))
        assert alone is not None and alone.kubeconfig == ""
