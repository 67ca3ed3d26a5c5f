# SPDX-License-Identifier: Apache-2.0
"""kubelet, built from pinned Go modules: no registry serves the binary."""

import os
import re
import shutil
from pathlib import Path

from tests.lab import cache
from tests.lab.errors import MissingPrograms
from tests.lab.run import run
from tests.lab.stages import Build, Stage

MODULE = Path(__file__).resolve().parents[1] / "files" / "kubelet"


NEWEST_TOO_OLD = (1, 23)


def go() -> str:
    """The Go compiler."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if found is None:
        raise MissingPrograms("no Go compiler", hint="install Go 1.24 or newer and put it on the PATH")
    said = run([found, "version"], timeout=30, env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    match = re.search(r"\bgo(\d+)\.(\d+)", said)
    if match is None or (int(match.group(1)), int(match.group(2))) <= NEWEST_TOO_OLD:
        raise MissingPrograms(f"{found} is too old: {said.strip()}", hint="install Go 1.24 or newer")
    return found


def version() -> str:
    match = re.search(r"^require k8s\.io/kubernetes (v\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{MODULE}/go.mod requires no k8s.io/kubernetes")
    return match.group(1)


def make(build: Build) -> None:
    module = build.out / "module"
    shutil.copytree(MODULE, module)
    major, minor = version()[1:].split(".")[:2]
    stamps = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s", "-w", *(f"-X k8s.io/component-base/version.{name}={stamps[name]}" for name in stamps)])
    build.run(
        go(),
        "build",
        "-trimpath",
        "-mod=readonly",
        "-buildvcs=false",
        "-ldflags",
        flags,
        "-o",
        str(build.out / "kubelet"),
        "k8s.io/kubernetes/cmd/kubelet",
        cwd=module,
        env={**os.environ, "CGO_ENABLED": "0"},
        timeout=2400,
    )
    shutil.rmtree(module)


def stage() -> Stage:
    return Stage(
        "kubelet",
        make,
        material=(cache.digest([MODULE], MODULE),),
        estimate=530,
        hint="Go 1.24 or newer, and a reachable Go module proxy (`go env GOPROXY`)?",
    )
