# SPDX-License-Identifier: Apache-2.0
"""The containers that run on a node, from what containerd keeps below /run: no client, no process started."""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

TASKS = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
KIND = "io.kubernetes.cri.container-type"


@dataclass(frozen=True)
class Container:
    """A running container of a pod."""

    id: str
    name: str
    pod: str  # as CRI names it: a static pod's ends in the node's name
    namespace: str
    pod_uid: str
    sandbox: str
    pid: int  # in the node's pid namespace
    attempt: Optional[int]  # how often it was started before in this pod; None when kubelet's log is gone


def running(root: str) -> list[Container]:
    """All running containers, without the pods' sandboxes; `root` is the node's root directory."""
    found = []
    tasks = Path(root, TASKS)
    with contextlib.suppress(FileNotFoundError):
        for task in sorted(tasks.iterdir()):
            # A container that ends meanwhile takes its folder along.
            with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
                annotations = json.loads((task / "config.json").read_text())["annotations"]
                pid = int((task / "init.pid").read_text())
                if annotations[KIND] != "container" or not Path(root, "proc", str(pid)).exists():
                    continue
                found.append(
                    Container(
                        id=task.name,
                        name=annotations["io.kubernetes.cri.container-name"],
                        pod=annotations["io.kubernetes.cri.sandbox-name"],
                        namespace=annotations["io.kubernetes.cri.sandbox-namespace"],
                        pod_uid=annotations["io.kubernetes.cri.sandbox-uid"],
                        sandbox=annotations["io.kubernetes.cri.sandbox-id"],
                        pid=pid,
                        attempt=_attempt(root, annotations, task.name),
                    )
                )
    return found


def _attempt(root: str, annotations: "dict[str, str]", container_id: str) -> Optional[int]:
    """kubelet's link to the log of that container names the attempt: …/<container>/<attempt>.log"""
    pod = annotations["io.kubernetes.cri.sandbox-name"]
    namespace = annotations["io.kubernetes.cri.sandbox-namespace"]
    name = annotations["io.kubernetes.cri.container-name"]
    link = Path(root, "var/log/containers", f"{pod}_{namespace}_{name}-{container_id}.log")
    try:
        return int(Path(os.readlink(link)).stem)
    except (FileNotFoundError, ValueError):
        return None
