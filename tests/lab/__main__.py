# SPDX-License-Identifier: Apache-2.0
"""The lab by hand: python -m tests.lab up | sh | patch | status | down | prune."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Optional

from tests.lab import cache, cgroups, cleanup, plan, pods, record
from tests.lab.errors import LabError
from tests.lab.node import Node

DEFAULT_NAME = "lab"


def up(name: str, product: plan.Choice) -> int:
    """Boot a node that stays, with two CNI writers and a bystander."""
    begun = time.monotonic()
    if name in record.names():
        node = Node.attach(name)
        if node.running:
            print(f"node {name} runs already (PID 1 is {node.leader})")
            return 0
    else:
        node = Node.create(name, product=product, stays=True)
    node.boot()
    for manifest in (pods.calico_node(), pods.kube_multus(), pods.plain()):
        node.apply_pod(manifest)
    for manifest in (pods.calico_node(), pods.kube_multus(), pods.plain()):
        node.wait_pod(manifest["metadata"]["name"])
    print(f"node {name} runs after {time.monotonic() - begun:.1f} s: PID 1 is {node.leader}")
    print("next: " + "    ".join(f"python -m tests.lab {verb} {name}" for verb in ("sh", "patch", "down")))
    return 0


def sh(name: str, command: list[str]) -> int:
    """A shell on a node, or the command that is given after --."""
    node = Node.attach(name)
    argv = node.command(command or ["/bin/bash", "-l"])
    os.execvpe(argv[0], argv, node.environment())


def patch(name: str) -> int:
    """Switch a node to a new deployment without a reboot."""
    done = Node.attach(name).in_service_patch()
    print(f"node {name}: /usr and /etc are {done.pending} now, booted is {done.active}")
    return 0


def status() -> int:
    """All nodes, with what is booted, what is live, and the pods."""
    names = record.names()
    if not names:
        print("no nodes")
    for name in names:
        try:
            _show(Node.attach(name))
        except LabError as error:
            print(f"{name}: {error.message}")
    return 0


def _show(node: Node) -> None:
    if not node.running:
        print(f"{node.name}: off")
    else:
        print(f"{node.name}: {node.state() or 'starting'}, PID 1 is {node.leader}")
        for path in ("/usr", "/etc"):
            print(f"  live {path}: {node.live(path)}")
    for deployment in node.deployments():
        mark = "booted" if deployment.booted else deployment.note
        print(f"  deployment {deployment.name[:12]}….{deployment.name.rpartition('.')[2]} {mark}".rstrip())
    if node.running:
        try:
            known = node.pods()
        except (LabError, OSError) as error:
            print(f"  pods: kubelet does not answer ({error})")
            return
        for pod in known:
            restarts = sum(one.restarts for one in pod.containers.values())
            print(f"  pod {pod.namespace}/{pod.name}: {pod.phase}, {restarts} restarts")


def down(name: Optional[str]) -> int:
    """Take a node away, or all nodes and whatever was left behind."""
    if name is not None:
        if name not in record.names() and name not in cgroups.names():
            raise LabError(f"there is no node {name}", hint="python -m tests.lab status lists them")
        cleanup.destroy(name)
        print(f"node {name} is gone")
        return 0
    for gone in cleanup.everything():
        print(f"node {gone} is gone")
    return 0


def prune() -> int:
    """Forget the results of stages that today's sources do not need."""
    gone = cache.prune({stage.key for stage in plan.current()})
    print(f"removed: {', '.join(gone) or 'nothing'}")
    return 0


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, function in (("up", up), ("sh", sh), ("patch", patch)):
        usage = "%(prog)s [-h] [NAME] [-- COMMAND ...]" if verb == "sh" else None
        one = verbs.add_parser(verb, help=function.__doc__, description=function.__doc__, usage=usage)
        one.add_argument("name", nargs="?", default=DEFAULT_NAME, metavar="NAME")
        if verb == "up":
            which = one.add_mutually_exclusive_group()
            which.add_argument("--bare", action="store_true", help="without the product")
            which.add_argument("--product", type=Path, metavar="RPM", help="with this one, not this tree's")
    verbs.add_parser("status", help=status.__doc__)
    verbs.add_parser("down", help=down.__doc__).add_argument("name", nargs="?", metavar="NAME")
    verbs.add_parser("prune", help=prune.__doc__)

    words = list(sys.argv[1:] if arguments is None else arguments)
    # All after -- is the command for `sh`, and none of argparse's business.
    command = words[words.index("--") + 1 :] if "--" in words else []
    asked = parser.parse_args(words[: words.index("--")] if "--" in words else words)
    try:
        if os.geteuid() != 0:
            raise LabError("the lab needs root", hint="it mounts, makes cgroups and namespaces")
        if asked.verb == "up":
            return up(asked.name, None if asked.bare else asked.product or plan.DEFAULT)
        if asked.verb == "sh":
            return sh(asked.name, command)
        if asked.verb == "patch":
            return patch(asked.name)
        if asked.verb == "down":
            return down(asked.name)
        return status() if asked.verb == "status" else prune()
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Who read the output has enough of it; nothing is left to flush to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
