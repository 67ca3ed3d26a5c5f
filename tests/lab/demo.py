# SPDX-License-Identifier: Apache-2.0
"""The fault and its cure on a real node, told as it happens: `make demo`."""

from __future__ import annotations

import contextlib
import sys
import time

from tests.lab import pods
from tests.lab.errors import LabError, TimedOut
from tests.lab.node import Node

NET_D = "/etc/cni/net.d"
INSIDE = "/host/etc/cni/net.d"
WRITERS = ("calico-node", "kube-multus")
BYSTANDERS = ("host-root", "plain")

BOLD, DIM, RED, GREEN, PLAIN = (
    ("\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[0m") if sys.stdout.isatty() else [""] * 5
)


class DemoFailed(LabError):
    """The node did not do what the demo says that it does."""


def main() -> int:
    begun = time.monotonic()
    try:
        node = Node.create("demo")
        try:
            _show(node)
        finally:
            node.destroy()
    except LabError as error:
        print(f"{RED}demo: {error}{PLAIN}", file=sys.stderr)
        return 1
    print(f"\n{DIM}The node is gone; the demo took {time.monotonic() - begun:.0f} s.{PLAIN}")
    return 0


def _show(node: Node) -> None:
    _title("1. A node: a real OSTree deployment, systemd, containerd, kubelet, and ostreewatchd from its RPM")
    node.boot()
    for manifest in (pods.calico_node(), pods.kube_multus(), pods.host_root(), pods.plain()):
        node.apply_pod(manifest)
    for name in (*WRITERS, *BYSTANDERS):
        node.wait_pod(name)
    _say(f"live deployment   {_live(node)}")
    _identities(node)
    _require(_same(node), "before the switch host and pods show the same directory")

    _title("2. An in-service patch: a new deployment is bind-mounted over /usr and /etc, without a reboot")
    _say("(the daemon is stopped first, so that there is time to look at the fault)")
    node.sh("systemctl stop ostreewatchd.service ostreewatchd-remediate.path")
    node.in_service_patch()
    _say(f"live deployment   {_live(node)}")
    _identities(node)
    _require(not _same(node), "after the switch the pods still show the old directory")
    _say("a token that calico-node writes now:")
    written = _write(node, "calico-node", "token-after-the-patch")
    _say(f"  in the pod      {written}")
    seen = node.sh(["cat", f"{NET_D}/demo-token"], check=False)
    _say(f"  on the host     {RED}{seen.stderr.strip() or seen.stdout.strip()}{PLAIN}")
    _require(seen.returncode != 0, "the host does not see what the pod writes")
    _say("so in 12 to 24 hours the host's own token expires, and no pod starts on this node any more")
    restarts = {name: _restarts(node, name) for name in (*WRITERS, *BYSTANDERS)}

    _title("3. The daemon is started: nothing else is done")
    since = time.time()
    node.sh("systemctl start ostreewatchd.service")
    node.wait(lambda: _same(node), timeout=60, what="both writers show what the host has")
    node.wait(
        lambda: node.sh("ostreewatchctl status", check=False).returncode == 0, timeout=60, what="nothing is owed"
    )
    _identities(node)
    _say("a token that calico-node writes now:")
    written = _write(node, "calico-node", "token-after-the-cure")
    _say(f"  in the pod      {written}")
    _say(f"  on the host     {GREEN}{node.sh(['cat', f'{NET_D}/demo-token']).stdout.strip()}{PLAIN}")
    for name, before in restarts.items():
        expected = before + (1 if name in WRITERS else 0)
        now = _restarts_settled(node, name, expected)
        _say(f"restarts of {name:<12} {before} -> {now}")
        _require(now == expected, f"{name} was restarted {expected - before} times")

    _title("4. Why, and when: the journal")
    entries = node.journal(since=since, SYSLOG_IDENTIFIER="ostreewatchd")
    entries += node.journal(since=since, SYSLOG_IDENTIFIER="ostreewatchd-remediate")
    first = None
    for entry in sorted(entries, key=lambda one: int(one["__REALTIME_TIMESTAMP"])):
        if "OSTREEWATCHD_KIND" not in entry:
            continue
        moment = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
        first = first if first is not None else moment
        print(f"  {DIM}+{moment - first:6.2f} s{PLAIN}  {entry['OSTREEWATCHD_KIND']:<13} {_shorten(entry['MESSAGE'])}")
    _title("5. What an administrator sees")
    for line in node.sh("ostreewatchctl status").stdout.splitlines():
        print(f"  {_shorten(line)}")


def _identities(node: Node) -> None:
    print(f"  {'':<14}{'device:inode of ' + NET_D:<36}")
    dev, ino = node.identity(NET_D)
    print(f"  {'host':<14}{BOLD}{dev}:{ino}{PLAIN}")
    for name in WRITERS:
        mine = node.identity_in(node.container(name), INSIDE)
        color = GREEN if mine == (dev, ino) else RED
        print(f"  {name:<14}{color}{mine[0]}:{mine[1]}{PLAIN}")


def _same(node: Node) -> bool:
    host = node.identity(NET_D)
    return all(node.identity_in(node.container(name), INSIDE) == host for name in WRITERS)


def _write(node: Node, name: str, text: str) -> str:
    """Write a file as the pod would, by its own view."""
    path = f"/proc/{node.container(name).pid}/root{INSIDE}/demo-token"
    node.sh(f"echo {text} >{path}")
    return node.sh(["cat", path]).stdout.strip()


def _live(node: Node) -> str:
    return node.live("/etc")


def _restarts(node: Node, name: str) -> int:
    return node.wait_pod(name).containers[name].restarts


def _restarts_settled(node: Node, name: str, expected: int) -> int:
    """kubelet's own count; it learns of a new container within a second or two."""
    with contextlib.suppress(TimedOut):
        node.wait(lambda: _restarts(node, name) >= expected, timeout=10, what=f"kubelet counts {expected}")
    return _restarts(node, name)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise DemoFailed(f"this should hold and does not: {what}", hint="`make test` tells more")


def _shorten(text: str) -> str:
    """Checksums at a readable length."""
    words = []
    for word in text.split(" "):
        head, dash, rest = word.partition("-")
        if dash and len(rest) > 60 and rest[:40].isalnum():
            word = f"{head}-{rest[:10]}{rest[64:]}"
        words.append(word)
    return " ".join(words)


def _title(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}")


def _say(text: str) -> None:
    print(f"  {text}")


if __name__ == "__main__":
    sys.exit(main())
