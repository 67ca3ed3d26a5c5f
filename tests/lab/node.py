# SPDX-License-Identifier: Apache-2.0
"""A node, with the verbs of an operator. Everything else about it is asked by looking at it."""

import http.client
import itertools
import json
import os
import re
import shlex
import signal as signals
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

from tests.lab import cache, cgroups, cleanup, containers, kernel, kubelet, plan, power, record, switch
from tests.lab.containers import Container
from tests.lab.errors import CommandFailed, LabError, NodeFailed, TimedOut
from tests.lab.kubelet import PodStatus
from tests.lab.plan import DEFAULT, KEEP, Choice
from tests.lab.record import Process, Record
from tests.lab.run import run, start_module
from tests.lab.switch import Switch
from tests.lab.sysroot import Changes, Deployment, Sysroot, parse_status

T = TypeVar("T")
MANIFESTS = "/etc/kubernetes/manifests"
_counter = itertools.count(1)

_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")


class Node:
    """One machine. Make it with create() or find one that stays with attach()."""

    def __init__(self, known: Record, reaper: "Optional[subprocess.Popen[bytes]]" = None) -> None:
        self._known = known
        self._reaper = reaper
        self.disk = Sysroot(known.folder)
        self._netns: Optional[Path] = None
        self._releases = itertools.count(1)

    # -- existence ------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        name: Optional[str] = None,
        product: Choice = DEFAULT,
        *,
        stays: bool = False,
        netns: Optional[Path] = None,
    ) -> "Node":
        """Install a machine, powered off. Unless it `stays` it is gone at the latest when this process is.

        `netns` is a network namespace to boot in, to connect nodes; without it a node has a loopback only."""
        if name is not None and not _NAME.fullmatch(name):
            raise NodeFailed(f"{name!r} is no node's name", hint="up to 20 of a-z, 0-9 and -, a letter first")
        repo, branch = plan.ready(product)
        cleanup.sweep()
        name = name or f"t{os.getpid()}-{next(_counter)}"
        home = record.folder(name)
        try:
            home.mkdir()
        except FileExistsError:
            raise NodeFailed(f"there is a node {name}", hint=f"python -m tests.lab down {name}") from None
        reaper = None
        if not stays:
            reaper = start_module("tests.lab.reaper", [name], cache.folder("logs") / "reaper.log", pipe=True)
        known = Record(name, None if stays else Process.of(os.getpid()))
        known.write()
        node = cls(known, reaper)
        node._netns = netns
        try:
            node.disk.create(repo, branch)
        except BaseException:
            node.destroy()
            raise
        return node

    @classmethod
    def attach(cls, name: str) -> "Node":
        """A node that exists already."""
        return cls(record.read(name))

    def destroy(self) -> None:
        """Take the node away, in whatever state it is."""
        cleanup.destroy(self.name)
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.stdin.close()
            self._reaper.wait(timeout=30)
            self._reaper = None
        power.forget(self._known)

    @property
    def name(self) -> str:
        return self._known.name

    @property
    def leader(self) -> int:
        """The node's PID 1, as the machine sees it."""
        if self._known.leader is None or not self._known.leader.alive():
            raise NodeFailed(f"node {self.name} is off")
        return self._known.leader.pid

    @property
    def root(self) -> str:
        """The node's root directory, for reading. Absolute links lead out of it: identity() does not follow them."""
        return f"/proc/{self.leader}/root"

    @property
    def running(self) -> bool:
        return self._known.running()

    # -- power ----------------------------------------------------------------------------------------------

    def boot(self, expect: str = "running", timeout: float = 60.0) -> None:
        """Boot the newest deployment and wait until systemd is done; `expect` is what it is to say."""
        self._known = power.on(self._known, self.disk, self._netns)
        state = self.wait(self.state, timeout, "systemd has started everything")
        if state != expect:
            failed = self.sh("systemctl --failed --no-legend --plain", check=False).stdout
            raise NodeFailed(f"node {self.name} is {state}, not {expect}. Failed units:\n{failed}")
        # A unit that fails and is to be restarted counts as done for systemd.
        self.wait(self._serving, timeout, "containerd and kubelet run")

    def _serving(self) -> bool:
        units = self.sh("systemctl is-enabled containerd kubelet; systemctl is-active containerd kubelet", check=False)
        enabled, active = units.stdout.split()[:2], units.stdout.split()[2:]
        return all(one == "active" for one, wanted in zip(active, enabled) if wanted == "enabled")

    def state(self) -> str:
        """What systemd says of the whole; nothing while it is still starting."""
        state = self.sh("systemctl is-system-running", check=False).stdout.strip()
        return "" if state in ("initializing", "starting", "unknown", "offline", "") else state

    def power_off(self) -> None:
        """Shut down in order."""
        self._known = power.off(self._known)

    def power_cut(self) -> None:
        """Everything stops where it is; the disk keeps what was written."""
        self._known = power.cut(self._known)

    def reboot(self) -> None:
        """Power off, boot the newest deployment."""
        self.power_off()
        self.boot()

    # -- software -------------------------------------------------------------------------------------------

    def commit(self, changes: Optional[Changes] = None, product: Choice = KEEP) -> str:
        """A new commit on the node's branch: all earlier changes and these (None deletes a file).

        With `product` it is built on that version of the product, or on none, instead of the one before."""
        if product is not KEEP:
            self.disk.pull(*plan.ready(product))
        return self.disk.commit(changes or {})

    def deploy(self, commit: str) -> None:
        """Make a deployment of a commit; it is what the next boot takes. OSTree copies /etc while pods write into it,
        and gives up where a file is renamed meanwhile: then once more, as an operator would."""
        if not self.running:
            self.disk.deploy(commit)
            return
        for left in (2, 1, 0):
            try:
                self.sh(["ostree", "admin", "deploy", "--os=debian", "--no-prune", "--retain", commit], timeout=120)
                return
            except CommandFailed as error:
                if not left or "During /etc merge" not in error.output:
                    raise

    def deployments(self) -> list[Deployment]:
        """`ostree admin status`, newest first."""
        return parse_status(self.sh("ostree admin status").stdout) if self.running else self.disk.status()

    def in_service_patch(self, commit: Optional[str] = None, stop_after: Optional[int] = None) -> Switch:
        """Deploy a commit (by default one with a new release file) and switch to it without a reboot.

        `stop_after` binds leaves the switch half done, as a failure would; resume() of the result goes on."""
        begun = switch.begin(self, commit or self.commit(self._release()))
        return begun.resume(stop_after)

    def reboot_required_patch(self, commit: Optional[str] = None) -> str:
        """Deploy a commit that only a reboot will switch to, flagged as StarlingX flags it."""
        commit = commit or self.commit(self._release())
        self.sh(f"mkdir -p {os.path.dirname(switch.REBOOT_FLAG)} && : >{switch.REBOOT_FLAG}")
        self.deploy(commit)
        return commit

    def live(self, path: str) -> str:
        """Which deployment /usr or /etc is now: the root of the topmost mount there."""
        shown = self.sh(["findmnt", "--noheadings", "--output=FSROOT", "--target", path]).stdout.splitlines()
        found = re.search(r"/deploy/([0-9a-f]{64}\.\d+)(/|$)", shown[-1] if shown else "")
        return found.group(1) if found else "no deployment"

    def _release(self) -> dict[str, str]:
        return {"/usr/share/lab/release": f"{time.time_ns()}\n"}

    # -- pods -----------------------------------------------------------------------------------------------

    def apply_pod(self, manifest: dict[str, Any]) -> str:
        """Give kubelet a static pod; returns its name as kubelet will have it.

        The manifest goes to the directory that kubelet's configuration names, on the live /etc, as on StarlingX.
        kubelet lists that directory by path every second, so this works after a live switch too, when its
        inotify watch is still on the old one. What is applied between deploy and switch is not in the new /etc:
        so it is on a real node."""
        name = str(manifest["metadata"]["name"])
        text = json.dumps(manifest, indent=1)
        # kubelet ignores names that begin with a dot: it never reads half a manifest.
        self.sh(f"cat >{MANIFESTS}/.{name}.new && mv {MANIFESTS}/.{name}.new {MANIFESTS}/{name}.json", input=text)
        return f"{name}-{self.name}"

    def remove_pod(self, name: str) -> None:
        """Take a static pod's manifest away; kubelet ends the pod."""
        self.sh(["rm", "-f", f"{MANIFESTS}/{name}.json"])

    def pods(self) -> list[PodStatus]:
        """All pods, by kubelet's own account."""
        return [kubelet.parse_pod(pod) for pod in kubelet.pods(self.leader)]

    def pod_status(self, name: str) -> PodStatus:
        """kubelet's own numbers about a pod, named as in its manifest or as kubelet names it."""
        known = self.pods()
        for pod in known:
            if pod.name in (name, f"{name}-{self.name}"):
                return pod
        raise NodeFailed(f"kubelet knows no pod {name}, only {[pod.name for pod in known]}")

    def wait_pod(self, name: str, timeout: float = 30.0) -> PodStatus:
        """Wait until a pod's containers all run."""

        def check() -> Optional[PodStatus]:
            status = self.pod_status(name)
            return status if status.running() else None

        return self.wait(check, timeout, f"pod {name} runs")

    def containers(self, pod: Optional[str] = None) -> list[Container]:
        """The running containers as containerd has them, all or one pod's."""
        names = {pod, f"{pod}-{self.name}"}
        return [one for one in containers.running(self.root) if pod is None or one.pod in names]

    def container(self, pod: str, name: Optional[str] = None) -> Container:
        """The one running container of a pod, or the one of that name."""
        found = [one for one in self.containers(pod) if name is None or one.name == name]
        if len(found) != 1:
            raise NodeFailed(f"pod {pod} has {len(found)} running containers {name or ''}")
        return found[0]

    # -- looking and doing ----------------------------------------------------------------------------------

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argv that runs a program inside all of the node's namespaces and its cgroups."""
        enter = ["nsenter", "--all", "--target", str(self.leader), "--root", "--wdns=/", "--", *argv]
        join = [f"echo $$ >{shlex.quote(str(group))}/cgroup.procs" for group in cgroups.entries(self.leader)]
        return ["/bin/sh", "-ec", "; ".join([*join, f"exec {shlex.join(enter)}"])]

    def environment(self) -> dict[str, str]:
        """A login's, not this process's. A lab has no use for libostree's syncs, which wait for the whole disk."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "TERM": os.environ.get("TERM", "dumb"),
            "OSTREE_SYSROOT_OPTS": "skip-sync",
        }

    def sh(
        self,
        command: Union[str, Sequence[str]],
        check: bool = True,
        timeout: float = 60.0,
        input: Optional[str] = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a shell command, or a program with arguments, on the node."""
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        shown = f"{command if isinstance(command, str) else shlex.join(command)} (on node {self.name})"
        whole = self.command(argv)
        return run(whole, timeout=timeout, check=check, input=input, env=self.environment(), shown=shown)

    def journal(self, unit: Optional[str] = None, since: Optional[float] = None, **match: str) -> list[dict[str, Any]]:
        """The journal's entries, also of a node that is off; `since` as time.time() gives it."""
        argv = ["journalctl", "--output=json", "--no-pager", "--quiet", "--all"]
        argv += [f"--unit={unit}"] if unit else []
        argv += [f"--since=@{since:.6f}"] if since is not None else []
        argv += [f"{field}={value}" for field, value in match.items()]
        if self.running:
            self.sh("journalctl --sync", check=False)
            text = self.sh(argv).stdout
        else:
            argv.append(f"--directory={self.disk.var / 'log/journal'}")
            text = run(argv, timeout=60).stdout
        return [json.loads(line) for line in text.splitlines()]

    def wait(self, condition: Callable[[], Optional[T]], timeout: float, what: str, every: float = 0.05) -> T:
        """Ask until the answer is true; the answer. Errors of a node that is not ready yet count as no."""
        deadline = time.monotonic() + timeout
        last: object = None
        while True:
            try:
                answer = condition()
                if answer:
                    return answer
                last = answer
            except (LabError, OSError, ValueError, http.client.HTTPException) as error:
                last = error
            if time.monotonic() >= deadline:
                raise TimedOut(
                    f"node {self.name}: not within {timeout:g} s: {what}. Last answer: {last!s}",
                    hint=f"journal: {self.disk.var / 'log/journal'}",
                    log=self._known.folder / "console.log",
                )
            time.sleep(every)

    def identity(self, path: str) -> tuple[int, int]:
        """(st_dev, st_ino) of a path as PID 1 sees it."""
        return self._identity(self.root, path)

    def identity_in(self, container: Container, path: str) -> tuple[int, int]:
        """(st_dev, st_ino) of a path as a container sees it."""
        return self._identity(f"{self.root}/proc/{container.pid}/root", path)

    def _identity(self, root: str, path: str) -> tuple[int, int]:
        descriptor = kernel.open_in(root, path)
        try:
            seen = os.fstat(descriptor)
            return seen.st_dev, seen.st_ino
        finally:
            os.close(descriptor)

    def kill(self, target: Union[int, str], signal: int = signals.SIGKILL) -> None:
        """Send a signal to a pid (as the node counts), or to the main process of a unit."""
        if isinstance(target, int):
            self.sh(["kill", f"-{int(signal)}", str(target)])
        else:
            self.sh(["systemctl", "kill", "--kill-who=main", f"--signal={int(signal)}", target])
