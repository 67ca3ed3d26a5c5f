# SPDX-License-Identifier: Apache-2.0
"""A mount inside a deployment's directory shows the live /etc or /usr: to undeploy that one empties the live tree.

`ostree admin undeploy` removes the directory with all that is in it and does not stop at a mount. After a second live
switch, /etc can be mounted inside the directory of the first one, because both were in one peer group. The booted
deployment libostree refuses to remove; and to remove the live one empties the live tree with or without such a mount.
Nor can the mount be taken away: in one peer group, umount of it takes the live tree's own with it.

Source: ostree-sysroot-cleanup.c (glnx_shutil_rm_rf_at); mount_namespaces(7) (peer groups); starlingx/update
ostree_utils.py (binds the new /etc into the old deployment's directory)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot, short_name

rule = HostRule("undeploy-danger")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each such mount that can be written: below a read-only one nothing can be removed."""
    names = snapshot.live.deployments
    for one in snapshot.ostree.inside:
        if one.writable and one.deployment not in (names.booted, names.etc if one.shows == "/etc" else names.usr):
            yield rule.wrong(
                one.point,
                because=f"`ostree admin undeploy` of {short_name(one.deployment)} would go down into {one.point},"
                f" which is the live {one.shows}, and remove what is in it",
                remedy="do not undeploy, prune or clean up that deployment before the next reboot (`ostree admin"
                " cleanup`, and a deploy without --retain, would do it too)",
            )
