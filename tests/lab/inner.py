# SPDX-License-Identifier: Apache-2.0
"""Becomes a node's systemd-nspawn: joins its cgroups, lays out its root as ostree-prepare-root does.

python -m tests.lab.inner NAME DEPLOYMENT [NETWORK-NAMESPACE]"""

import os
import sys
from pathlib import Path

from tests.lab import cgroups, kernel, record


def main() -> None:
    name, deployment = sys.argv[1], Path(sys.argv[2])
    network = sys.argv[3] if len(sys.argv) > 3 else ""
    home = record.folder(name)
    cgroups.join(name)
    if (home / record.DOOMED).exists() or not home.exists():
        sys.exit("the node is being taken down")
    root, phys = home / "root", home / "phys"
    kernel.own_mounts()
    # nspawn's own --pivot-root= moves mounts, which fails on some kernels (MS_MOVE, EINVAL).
    kernel.bind(deployment, root)
    kernel.bind(deployment / "usr", root / "usr", read_only=True)
    kernel.bind(phys, root / "sysroot")
    kernel.bind(phys / "boot", root / "boot")
    kernel.bind(deployment.parents[1] / "var", root / "var")
    # nspawn's system call filter blocks keyctl, which runc needs.
    os.environ["SYSTEMD_SECCOMP"] = "0"
    argv = [
        "systemd-nspawn", "--boot", f"--directory={root}", f"--machine={name}", f"--hostname={name}",
        "--register=no", "--keep-unit", "--console=pipe", "--capability=all", "--resolv-conf=off",
        "--timezone=off", "--link-journal=no", "--settings=no",
        f"--network-namespace-path={network}" if network else "--private-network",
    ]  # fmt: skip
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
