# SPDX-License-Identifier: Apache-2.0
"""kubelet, kube-apiserver and real CNI writers, built from pinned Go modules: no registry serves the binaries."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.lab import cache
from tests.lab.errors import MissingPrograms
from tests.lab.run import run
from tests.lab.stages import Build, Stage

_FILES = Path(__file__).resolve().parents[1] / "files"
KUBERNETES = _FILES / "kubelet"
MULTUS = _FILES / "multus"
COMMANDS = ("k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-apiserver", "./calico")
WHEREABOUTS = "github.com/k8snetworkplumbingwg/whereabouts"
_MULTUS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd"
WRITERS_COMMANDS = (f"{_MULTUS}/multus", f"{_MULTUS}/thin_entrypoint", f"{WHEREABOUTS}/cmd")
SCRIPTS = ("install-cni.sh", "lib.sh", "token-watcher.sh")

OLDEST = (1, 24)
TOOLCHAIN = "golang.org/toolchain"
TOOLCHAIN_VERSION = "v0.0.1-go1.24.9"


def go() -> str:
    """A Go command, of whatever age."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if found is None:
        raise MissingPrograms("no Go compiler", hint="apt-get install golang-go")
    return found


def compiler(build: Build) -> str:
    """A Go that can build kubelet: the one that is there, or, as Debian 12's is too old and does not know how to
    fetch a newer one by itself, the toolchain that the Go project publishes as a module."""
    found = go()
    said = run([found, "version"], timeout=30, env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    match = re.search(r"\bgo(\d+)\.(\d+)", said)
    if match is not None and (int(match.group(1)), int(match.group(2))) >= OLDEST:
        return found
    platform = run([found, "env", "GOOS", "GOARCH"], timeout=30).stdout.split()
    module = f"{TOOLCHAIN}@{TOOLCHAIN_VERSION}.{'-'.join(platform)}"
    modules = build.out / "toolchain"
    environment = {**os.environ, "GOMODCACHE": str(modules), "GOFLAGS": "-modcacherw"}
    build.run(found, "mod", "download", module, env=environment, timeout=600)
    toolchain = modules / module
    # A module's files are not executable.
    for folder in (toolchain / "bin", *toolchain.glob("pkg/tool/*")):
        for program in folder.iterdir():
            program.chmod(0o755)
    return str(toolchain / "bin/go")


def version(module: str, of: Path) -> str:
    """Which one a go.mod requires."""
    match = re.search(rf"^\s+{re.escape(module)} (v\S+)$", (of / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{of}/go.mod requires no {module}")
    return match.group(1)


def make(build: Build) -> None:
    """kubelet, the API server, and the stand-in for calico-node, which shares their client library."""
    whole = version("k8s.io/kubernetes", KUBERNETES)
    major, minor = whole[1:].split(".")[:2]
    stamps = {"gitVersion": whole, "gitMajor": major, "gitMinor": minor}
    flags = [f"-X k8s.io/component-base/version.{name}={stamps[name]}" for name in stamps]
    _build(build, KUBERNETES, COMMANDS, flags)


def make_multus(build: Build) -> None:
    """Multus thin and whereabouts: the plugins, and what their pods run. A module of their own, for Multus compiles
    with the Kubernetes of its own go.mod only."""
    _build(build, MULTUS, WRITERS_COMMANDS, [])
    os.rename(build.out / "cmd", build.out / "whereabouts")
    modules = run([go(), "env", "GOMODCACHE"], timeout=30).stdout.strip()
    for script in SCRIPTS:
        source = Path(modules, f"{WHEREABOUTS}@{version(WHEREABOUTS, MULTUS)}", "script", script)
        shutil.copyfile(source, build.out / script)
        (build.out / script).chmod(0o755)


def _build(build: Build, source: Path, commands: Sequence[str], flags: Sequence[str]) -> None:
    module = build.out / "module"
    shutil.copytree(source, module)
    build.run(
        compiler(build),
        "build",
        "-trimpath",
        "-mod=readonly",
        "-buildvcs=false",
        "-ldflags",
        " ".join(["-s", "-w", *flags]),
        "-o",
        f"{build.out}/",
        *commands,
        cwd=module,
        env=_environment(),
        timeout=2400,
    )
    shutil.rmtree(module)
    shutil.rmtree(build.out / "toolchain", ignore_errors=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}


def stage() -> Stage:
    return Stage(
        "kubernetes",
        make,
        material=(cache.digest([KUBERNETES], KUBERNETES),),
        estimate=600,
        hint="is a Go module proxy reachable (`go env GOPROXY`)?",
    )


def multus_stage() -> Stage:
    return Stage(
        "multus",
        make_multus,
        material=(cache.digest([MULTUS], MULTUS),),
        estimate=160,
        hint="is a Go module proxy reachable (`go env GOPROXY`)?",
    )
