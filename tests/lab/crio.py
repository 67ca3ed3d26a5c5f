# SPDX-License-Identifier: Apache-2.0
"""A node on which kubelet runs on CRI-O: the stand-in as crio.service, and the containerd that does its work out of
everybody's sight. The units are like upstream's and OpenShift's, so that systemd does what it does there.

Sources: cri-o contrib/systemd/crio.service (Type=notify, TimeoutStartSec=0, Restart=on-failure, WatchdogSec=60s, no
KillMode= up to 1.36); openshift/machine-config-operator templates/master/01-master-kubelet (Requires=crio.service, and
crio.service is Before=kubelet.service: an explicit restart of CRI-O takes kubelet along, systemd.unit(5))."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Optional

from tests.fakes.crio import wire
from tests.host.cri_creator import Creator
from tests.lab.node import Node
from tests.lab.run import REPOSITORY, run
from tests.lab.sysroot import Changes

SOCKET = "/run/crio/crio.sock"
DROP_INS = "/etc/crio/crio.conf.d"
MARKS = "/run/crio-stand-in"
_STAND_IN = "/usr/lib/lab/stand-in"
_BEHIND = "/run/lab/behind.sock"
_BUNDLE = "/usr/lib/ostreewatchd/python3.11"

_PROGRAM = f"""import os
import sys
sys.path[:0] = ["{_STAND_IN}", "{_BUNDLE}"]
from tests.fakes.crio.__main__ import main
sys.exit(main(version=os.environ["CRIO_VERSION"]))
"""
_UNIT = f"""[Unit]
Description=Container Runtime Interface for OCI (CRI-O), a stand-in
Before=kubelet.service
After=behind-crio.service lab-images.service
Requires=behind-crio.service

[Service]
Type=notify
NotifyAccess=all
Environment=CRIO_BEHIND={_BEHIND} CRIO_MARKS={MARKS} PYTHONDONTWRITEBYTECODE=1
EnvironmentFile=-/etc/sysconfig/crio
ExecStart=/usr/bin/crio $CRIO_CONFIG_OPTIONS $CRIO_RUNTIME_OPTIONS
ExecReload=/bin/kill -s HUP $MAINPID
TimeoutStartSec=0
Restart=on-failure
RestartSec=10
WatchdogSec=60s

[Install]
WantedBy=multi-user.target
Alias=cri-o.service
"""
# Under another name, so that nobody takes it for the runtime.
_BEHIND_UNIT = f"""[Unit]
Description=What does the stand-in's work

[Service]
Type=notify
ExecStartPre=/bin/mkdir -p /run/lab
ExecStartPre=/bin/ln -sfn /usr/bin/containerd /run/lab/behind-crio
ExecStart=/run/lab/behind-crio --address {_BEHIND}
Delegate=yes
KillMode=process
"""
_CONFIG = """[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
[crio.runtime.runtimes.runc]
runtime_path = "/usr/sbin/runc"
runtime_root = "/run/runc"
[crio.network]
plugin_dirs = ["/var/opt/cni/bin/"]
"""
_IMAGES = f"""[Unit]
After=behind-crio.service
Requires=behind-crio.service
[Service]
Environment=CONTAINERD_ADDRESS={_BEHIND}
"""
_KUBELET = f"""[Unit]
After=crio.service
{{coupling}}=crio.service
[Service]
ExecStart=
ExecStart=/usr/bin/kubelet --config /etc/kubernetes/kubelet.yaml --root-dir /var/lib/kubelet \\
    --cert-dir /var/lib/kubelet/pki --hostname-override %H --container-runtime-endpoint unix://{SOCKET}
RestartSec=10
"""


def changes(version: str = "1.37.0", coupled: bool = True) -> Changes:
    """What makes a node one with CRI-O. `coupled`: kubelet Requires= it, as on OpenShift; otherwise Wants=."""
    files = {
        f"{_STAND_IN}/{path.relative_to(REPOSITORY)}": path.read_text()
        for path in sorted((REPOSITORY / "tests/fakes/crio").glob("*.py"))
    }
    return {
        **files,
        f"{_STAND_IN}/crio.py": _PROGRAM,
        "/usr/bin/crio": _launcher(version),
        "/usr/lib/systemd/system/crio.service": _UNIT,
        "/usr/lib/systemd/system/behind-crio.service": _BEHIND_UNIT,
        "/usr/lib/systemd/system/lab-images.service.d/crio.conf": _IMAGES,
        "/usr/lib/systemd/system/kubelet.service.d/crio.conf": _KUBELET.format(
            coupling="Requires" if coupled else "Wants"
        ),
        # An empty unit file is a masked one (systemd.unit(5)).
        "/etc/systemd/system/containerd.service": "",
        f"{DROP_INS}/10-lab.conf": _CONFIG,
    }


@functools.cache
def _launcher(version: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        # A script would do, but for /proc/<pid>/exe: that would be Python.
        defined = (f'-DVERSION="{version}"', f'-DSTAND_IN="{_STAND_IN}/crio.py"')
        source = REPOSITORY / "tests/fakes/crio/launcher.c"
        run(["gcc", "-static", "-O1", "-Wall", "-Werror", *defined, "-o", f"{folder}/crio", str(source)], timeout=60)
        return Path(folder, "crio").read_bytes()


def create(coupled: bool = True, also: Optional[Changes] = None) -> Node:
    """Booted; kubelet runs on it. Destroy it. `also`: more that its first commit has."""
    made = Node.create()
    try:
        made.deploy(made.commit({**changes(coupled=coupled), **(also or {})}))
        made.boot()
    except BaseException:
        made.destroy()
        raise
    return made


def brought(name: str) -> Changes:
    """What a package with a runtime brings: its program, and a drop-in with its handler."""
    program = f"/usr/libexec/lab/{name}"
    drop_in = f'[crio.runtime.runtimes.{name}]\nruntime_path = "{program}"\n'
    return {program: "#!/bin/sh\n", f"{DROP_INS}/50-{name}.conf": drop_in}


def shown(node: Node) -> set[str]:
    """The handlers that CRI's Status shows."""
    with Creator(node.root + SOCKET, "unused") as creator:
        return {wire.text(each, 1) for each in wire.messages(creator.ask("Status"), 3)}


def probe(node: Node, name: str) -> str:
    """A real RunPodSandbox with the handler, by a name that is new; the sandbox is stopped and removed again. Its id.
    Raises RuntimeRefused."""
    with Creator(node.root + SOCKET, "lab-probe") as creator:
        id = creator.sandbox(f"probe-{name}", "lab", f"uid-{name}", handler=name)
        for verb in ("StopPodSandbox", "RemovePodSandbox"):
            creator.ask(verb, wire.field(1, id))
    return id


def marks(node: Node) -> list[str]:
    """What somebody did that nobody may do."""
    return node.sh(f"ls {MARKS} 2>/dev/null || true").stdout.split()
