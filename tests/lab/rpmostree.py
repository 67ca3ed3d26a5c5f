# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree on a node: its name on the node's own bus, by its own policy, and a live-apply step by step.

The daemon is a stand-in (tests/fakes/rpmostreed.py), which the test starts itself: the bus would start a unit that
leaves a mark. The unit that mounts the overlay, `ostree admin unlock`, the overlay and the references are real.
Sources: rpm-ostree rust/src/live.rs, rust/src/isolation.rs, src/daemon/org.projectatomic.rpmostree1.conf."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Optional

from tests.lab.errors import NodeFailed
from tests.lab.node import Node
from tests.lab.run import REPOSITORY
from tests.lab.sysroot import OS, Changes

NAME = "org.projectatomic.rpmostree1"
MARK = "/run/somebody-started-rpm-ostree"
READING = ["org.freedesktop.DBus.Properties", "Get", f"{NAME}.Sysroot", "ActiveTransaction"]
_ROOT = "/usr/lib/lab/stand-in"
_BUNDLE = "/usr/lib/ostreewatchd/python3.11"
_POLICY = f"""<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <policy user="root">
    <allow own="{NAME}"/>
    <allow send_destination="{NAME}"/>
  </policy>
  <policy context="default">
    <deny send_destination="{NAME}"/>
    <allow send_destination="{NAME}" send_interface="org.freedesktop.DBus.Introspectable"/>
    <allow send_destination="{NAME}" send_interface="org.freedesktop.DBus.Properties" send_member="Get"/>
    <allow send_destination="{NAME}" send_interface="org.freedesktop.DBus.Properties" send_member="GetAll"/>
    <allow send_destination="{NAME}" send_interface="{NAME}.Sysroot"/>
    <allow send_destination="{NAME}" send_interface="{NAME}.OS"/>
  </policy>
</busconfig>
"""
_SERVICE = f"[D-BUS Service]\nName={NAME}\nExec=/bin/false\nUser=root\nSystemdService=rpm-ostreed.service\n"
_UNIT = f"[Unit]\nDescription=Nobody may start it\n\n[Service]\nType=oneshot\nExecStart=/bin/touch {MARK}\n"
# Standard input is a file's content. The mount namespace is the writer's own, as rpm-ostreed's is: everybody else has
# the overlay read-only.
_WRITE = """
mount -o remount,rw /usr
mkdir -p "$(dirname "$0")"
cat >"$0.new"
chmod "$1" "$0.new"
mv "$0.new" "$0"
"""


def changes() -> Changes:
    """What installs it on a node."""
    fakes = ("messagebus.py", "rpmostreed.py", "rpmostreed_process.py")
    return {
        **{f"{_ROOT}/tests/fakes/{name}": (REPOSITORY / "tests/fakes" / name).read_text() for name in fakes},
        f"/usr/share/dbus-1/system.d/{NAME}.conf": _POLICY,
        f"/usr/share/dbus-1/system-services/{NAME}.service": _SERVICE,
        "/usr/lib/systemd/system/rpm-ostreed.service": _UNIT,
    }


class RpmOstree:
    """Used in a `with`, at whose end nobody may have touched what nobody may touch."""

    def __init__(self, node: Node) -> None:
        self.node = node
        argv = ["env", f"PYTHONPATH={_ROOT}:{_BUNDLE}", "PYTHONDONTWRITEBYTECODE=1", "python3", "-m",
                "tests.fakes.rpmostreed_process", OS]  # fmt: skip
        self._process = subprocess.Popen(
            node.command(argv), env=node.environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> RpmOstree:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        calls = self.do("calls") if self._process.poll() is None else []
        _, said = self._process.communicate("end\n", timeout=30)
        if kind is None:
            assert self._process.returncode == 0, said[-2000:]
            assert all(call == READING for call in calls), f"it was called: {calls}"
            assert self.node.sh(["test", "-e", MARK], check=False).returncode == 1, "it was started by the bus"

    def do(self, *words: str) -> Any:
        """start, transaction METHOD, finish, exit, calls."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{' '.join(words)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise NodeFailed(f"rpm-ostreed ended: {self._process.communicate(timeout=10)[1][-2000:]}")
        return json.loads(answer)

    def begin(self, target: str) -> None:
        """In a transaction: up to where the references say that the commit is being applied."""
        if not self._is_live():
            self.node.sh(
                ["systemd-run", "--unit=rpm-ostree-unlock", "--collect", "--wait", "--pipe", "--quiet",
                 "ostree", "admin", "unlock", "--transient"]
            )  # fmt: skip
        self._reference("live-apply-inprogress", target)
        self.node.sh(f": >{self._stamp}.new && mv {self._stamp}.new {self._stamp}")

    def write(self, files: Changes) -> None:
        """What the commit changes: in the overlay, which is writable for nobody else, and in /etc."""
        for path, content in files.items():
            mode = "755" if path.startswith(("/usr/bin/", "/usr/libexec/")) else "644"
            if content is None:
                script = f"mount -o remount,rw /usr && rm {path}"
                self.node.sh(["unshare", "--mount", "--propagation", "slave", "sh", "-ec", script])
                continue
            argv = ["unshare", "--mount", "--propagation", "slave", "sh", "-ec", _WRITE, path, mode]
            self.node.sh(argv, input=content if isinstance(content, str) else content.decode())

    def end(self, target: str, method: str = "LiveFs") -> None:
        """With an installation (`install -A`), /ostree/deploy is not touched."""
        self._reference("live-apply", target)
        self.node.sh(["ostree", "refs", "--delete", "rpmostree/live-apply-inprogress"])
        if method == "LiveFs":
            self.node.sh("touch /ostree/deploy")
        self.do("finish")

    def apply_live(self, files: Changes, method: str = "LiveFs", target: Optional[str] = None) -> str:
        """A whole one; the commit that is live then, which is deployed for the next boot."""
        target = target or self.node.commit(files)
        self.node.deploy(target)
        self.do("transaction", method)
        self.begin(target)
        self.write(files)
        self.end(target, method)
        return target

    @property
    def _stamp(self) -> str:
        booted = next(one.name for one in self.node.deployments() if one.booted)
        return f"/run/ostree/deployment-state/{booted}/rpmostree-is-live.stamp"

    def _is_live(self) -> bool:
        return Path(self.node.root + self._stamp).exists()

    def _reference(self, name: str, commit: str) -> None:
        self.node.sh(["ostree", "refs", f"--create=rpmostree/{name}", "--force", commit])
