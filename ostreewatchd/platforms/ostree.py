# SPDX-License-Identifier: Apache-2.0
"""Where libostree and rpm-ostree keep what they know of a host: the same on each platform. What is looked at and what
is said of it are named by one and the same path.

Sources: ostree-sysroot-private.h and otcore.h (paths), ostree-sysroot-deploy.c (finalize-failure.stamp), rpm-ostree
live.rs (stamp, references)."""

from __future__ import annotations

BOOTED = "/run/ostree-booted"
LINK = "/ostree"
SYSROOT = "/sysroot"
PREPARED = "/run/ostree/.private"
"""Made by ostree-prepare-root, which records the boot in BOOTED, too."""
NEXT_ROOT = "/run/nextroot"
NEXT_BOOTED = "/run/ostree/nextroot-booted"
STAGED = "/run/ostree/staged-deployment"
STAGED_LOCK = "/run/ostree/staged-deployment-locked"
FINALIZE_FAILED = "/boot/ostree/finalize-failure.stamp"
LIVE_APPLY = "/ostree/repo/refs/heads/rpmostree/live-apply"
LIVE_APPLY_IN_PROGRESS = "/ostree/repo/refs/heads/rpmostree/live-apply-inprogress"


def state_file(deployment: str, name: str) -> str:
    """A file that libostree or rpm-ostree keeps about a deployment until the next boot."""
    return f"/run/ostree/deployment-state/{deployment.rpartition('-')[2]}/{name}"


def live_stamp(deployment: str) -> str:
    """rpm-ostree's mark that another commit is live over that deployment's."""
    return state_file(deployment, "rpmostree-is-live.stamp")
