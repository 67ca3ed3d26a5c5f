# SPDX-License-Identifier: Apache-2.0
"""The tokens that kubelet has in a pod's volumes, and makes anew there: to be compared, and kept nowhere.

Source: kubernetes pkg/volume/projected (kubernetes.io~projected, a tmpfs; ..data is a link to the newest directory),
pkg/kubelet/token/token_manager.go."""

from __future__ import annotations

from ostreewatchd.parse import credential as files
from ostreewatchd.parse import jwt
from ostreewatchd.peers.paths import Root

_MAX_VOLUMES = 16
_MAX_FILES = 16


def projected(root: Root, pods: str, uid: str) -> tuple[bytes, ...]:
    """Those of the pod; none where it is gone, or has none."""
    if "/" in uid or uid in (".", ".."):
        return ()
    place, found = f"{pods}/{uid}/volumes/kubernetes.io~projected", []
    for volume in _names(root, place)[:_MAX_VOLUMES]:
        for name in _names(root, f"{place}/{volume}")[:_MAX_FILES]:
            try:
                data = root.read(f"{place}/{volume}/{name}", files.MAX_BYTES).strip()
            except OSError:
                continue
            if jwt.is_like_one(data) and len(data) <= jwt.MAX_BYTES and data.count(b".") == 2:
                found.append(data)
    return tuple(found)


def _names(root: Root, place: str) -> list[str]:
    try:
        return [name for name in root.names(place) if not name.startswith("..")]
    except OSError:
        return []
