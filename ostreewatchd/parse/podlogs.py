# SPDX-License-Identifier: Apache-2.0
"""Names below /var/log/containers and /var/log/pods, by which kubelet says which container is whose.

Source: kubelet's log layout, `<pod>_<namespace>_<container>-<id>.log` linking to
`/var/log/pods/<namespace>_<pod>_<uid>/<container>/<attempt>.log`."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

# DNS names as the API allows them, in ASCII alone: a name with anything else was not made by kubelet.
_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_LINK = re.compile(rf"({_NAME})_({_NAME})_({_NAME})-([0-9a-f]{{64}})\.log", re.ASCII)
_TARGET = re.compile(rf"(?:.*/)?({_NAME})_({_NAME})_([0-9A-Za-z-]{{1,64}})/({_NAME})/(\d{{1,9}})\.log", re.ASCII)

_DIRECTORY = re.compile(rf"({_NAME})_({_NAME})_[0-9A-Za-z-]{{1,64}}", re.ASCII)


class LogLink(NamedTuple):
    """What the link's name tells."""

    pod: str
    namespace: str
    container: str
    container_id: str


class LogTarget(NamedTuple):
    """What the link's target tells."""

    namespace: str
    pod: str
    uid: str
    container: str
    attempt: int


def parse_link(name: str) -> Optional[LogLink]:
    match = _LINK.fullmatch(name)
    return LogLink(*match.groups()) if match else None


def parse_directory(name: str) -> Optional[tuple[str, str]]:
    """Namespace and name of the pod whose logs are in the directory."""
    match = _DIRECTORY.fullmatch(name)
    return (match.group(1), match.group(2)) if match else None


def parse_target(target: str) -> Optional[LogTarget]:
    match = _TARGET.fullmatch(target)
    if match is None:
        return None
    namespace, pod, uid, container, attempt = match.groups()
    return LogTarget(namespace, pod, uid, container, int(attempt))
