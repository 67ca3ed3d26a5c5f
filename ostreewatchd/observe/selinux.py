# SPDX-License-Identifier: Apache-2.0
"""Types of the SELinux policy on disk that the loaded one lacks: a live-apply brings policy, and its scriptlets, which
would load it, do not run on the live system. A container of such a type does not start (keycreate: EINVAL).

Sources: rpm-ostree#962; containers/podman#9135; selinuxfs (/sys/fs/selinux/policy); selinux_config(5). Where there is
no SELinux nothing is said."""

from __future__ import annotations

import hashlib

from ostreewatchd.parse import sepolicy
from ostreewatchd.peers.paths import Root

_LOADED = "/sys/fs/selinux/policy"
_CONFIG = "/etc/selinux/config"
_MOST = 20
_MOST_KNOWN = 8


Known = dict[bytes, frozenset[str]]
"""Types by the digest of the policy that has them."""


def types_missing(root: Root, known: Known) -> tuple[str, ...]:
    """Empty also where it cannot be told. `known`: those of earlier looks; to find them in a policy of eight MiB takes
    nearly a second, and a proof looks each second."""
    try:
        loaded = _types(root.read(_LOADED, sepolicy.MAX_BYTES), known)
        on_disk = _types(root.read(_policy(root), sepolicy.MAX_BYTES), known)
    except OSError:
        return ()
    return tuple(sorted(on_disk - loaded))[:_MOST] if loaded else ()


def _types(policy: bytes, known: Known) -> frozenset[str]:
    digest = hashlib.sha256(policy).digest()
    if digest not in known:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[digest] = sepolicy.types(policy)
    return known[digest]


def _policy(root: Root) -> str:
    """The newest by its version. Raises OSError."""
    kind = "targeted"
    for line in root.read(_CONFIG, 1 << 16).decode("utf-8", "replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "SELINUXTYPE" and value.strip():
            kind = value.strip()
    directory = f"/etc/selinux/{kind}/policy"
    names = [one for one in root.names(directory) if one.startswith("policy.") and one[7:].isdecimal()]
    if not names:
        raise FileNotFoundError(2, "there is no compiled policy", directory)
    return f"{directory}/{max(names, key=lambda one: int(one[7:]))}"
