# SPDX-License-Identifier: Apache-2.0
"""Files by which it is said that a switch is under way. They are looked for on every host, whatever its platform is
taken for: StarlingX is told by a mark below /etc, and just while a patch mounts a tree over /etc, when nothing may be
restarted, that may be missing. Elsewhere nobody makes these files, and one look each is all that they cost.

Sources: starlingx/update (software_agent.py, ostree_utils.py: /run/mount_pending, /run/software_run_post_install);
ostree-sysroot.c (/ostree/lock)."""

from __future__ import annotations

from typing import NamedTuple


class FlagFile(NamedTuple):
    """A file that says that a switch is under way."""

    path: str
    means: str
    always: bool
    """Blocks as long as it is there. Otherwise until the cap: it says only that a script is still to run."""


FLAGS: tuple[FlagFile, ...] = (
    FlagFile("/run/mount_pending", "the in-service patch is still mounting", always=True),
    FlagFile("/ostree/lock", "libostree holds the sysroot's lock", always=False),
    FlagFile("/run/software_run_post_install", "the patch's post-install script is still to run", always=False),
)
