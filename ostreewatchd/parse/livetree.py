# SPDX-License-Identifier: Apache-2.0
"""What the mount of /usr, of /etc or of / says about the live tree.

Sources: ostree-sysroot.c (ostree_sysroot_deployment_unlock: the overlay of each kind of unlock),
ostree-prepare-root.c (composefs, transient /etc), bootc crates/initramfs (`overlay_transient`, `composefs:`),
systemd-sysext(8)."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ostreewatchd.model.host import UsrClassName, UsrOverlay
from ostreewatchd.parse.mountinfo import Mount, covers, deployment_of

_UNLOCKED = ("lowerdir=usr,", "ostree-unlock-ovl.", "usr-transient", ".usr-ovl-upper")
_TRANSIENT_ETC = "/transient-etc."
_NATIVE = ("composefs:", "transient:composefs=")


class UsrClass(NamedTuple):
    """The class, and of an ostree-overlay its kind."""

    name: UsrClassName
    overlay: UsrOverlay = ""


def usr_class(mount: Optional[Mount], booted: str) -> UsrClass:
    """What the visible mount of /usr makes of it."""
    if mount is None:
        return UsrClass("foreign")
    if mount.deleted:
        return UsrClass("deleted")
    if mount.point == "/usr" and mount.fstype == "overlay":
        return _overlay(mount)
    deployment, _ = deployment_of(mount.root)
    if deployment:
        return UsrClass("self" if deployment == booted else "other-deployment")
    return UsrClass("self" if mount.point == "/" else "foreign")


def _overlay(mount: Mount) -> UsrClass:
    if mount.source == "sysext":
        return UsrClass("sysext")
    if mount.source == "transient":
        return UsrClass("ostree-overlay", "bootc")
    if not any(mark in mount.super_options for mark in _UNLOCKED):
        return UsrClass("foreign")
    if ".usr-ovl-upper" in mount.super_options:
        return UsrClass("ostree-overlay", "hotfix")
    # A transient one is mounted read-only; who writes remounts it in a namespace of his own.
    return UsrClass("ostree-overlay", "development" if mount.writable else "transient")


def etc_deployment(mount: Optional[Mount], booted: str) -> str:
    """Whose /etc it is: of the deployment in the mount's root, or of the booted one if it is that one's own root or
    its transient /etc. Empty if that cannot be told."""
    if mount is None:
        return ""
    deployment, _ = deployment_of(mount.root)
    if deployment:
        return deployment
    transient = mount.fstype == "overlay" and _TRANSIENT_ETC in mount.super_options
    return booted if mount.point == "/" or transient else ""


def is_composefs_native(root: Optional[Mount]) -> bool:
    """Whether `/` is one of bootc's own composefs images, which have no OSTree deployment."""
    return root is not None and root.source.startswith(_NATIVE)


def is_writable(mount: Mount) -> bool:
    """Whether the mount and its filesystem can be written."""
    return mount.writable and "ro" not in mount.super_options.split(",")


def shows(mount: Mount, live: Mount, path: str) -> bool:
    """Whether what is below `mount` is, or has in it, or is a part of the tree at `path`, whose visible mount is
    `live`. By device and root, which one and the same tree has equal."""
    if mount.device != live.device:
        return False
    tree = live.root.rstrip("/") + path[len(live.point.rstrip("/")) :] or "/"
    return covers(tree, mount.root) or covers(mount.root, tree)
