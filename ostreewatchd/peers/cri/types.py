# SPDX-License-Identifier: Apache-2.0
"""What a runtime says about itself, its sandboxes and its containers; loads no grpc.

A text that the runtime left out is empty. Labels and annotations are other people's text and may hold
secrets (an applied manifest): pick the keys that are needed, and never copy a whole map into a snapshot or
a log. Source of the meanings: Kubernetes CRI API, `runtime.v1`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal, Optional

import msgspec

ContainerState = Literal["created", "running", "exited", "unknown"]
"""`unknown` is also what a newer runtime's unheard-of state becomes."""


class Version(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who answers, e.g. `containerd`, `1.6.20`, `v1`; the runtime's own words."""

    runtime: str
    version: str
    api: str


class RuntimeStatus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the runtime thinks of itself. A condition that it leaves out is None; others than these two are not read.

    CRI-O's RuntimeReady is always true, and its NetworkReady stays true once it was. `handlers` are those that it
    shows, which with CRI-O after a SIGHUP are not those that it serves (cri-o#10202); containerd below 2.0 shows none.
    """

    runtime_ready: Optional[bool]
    network_ready: Optional[bool]
    why: str
    """Reason and message of those that are not true."""
    handlers: tuple[str, ...]


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod's sandbox; a pod can have several, of which at most one is `ready`.

    `uid` is the pod's: a static pod's has no dashes and is no UID of the API.
    """

    id: str
    name: str
    namespace: str
    uid: str
    ready: bool
    created_ns: int
    """As of a container."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    handler: str = ""
    """Empty: the default one, or it does not say (CRI-O says it of some alone)."""


class RuntimeContainer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container, also one that has exited; kubelet counts `attempt` up with each restart in place.

    `created_ns` is nanoseconds since 1970 by the host's wall clock; it is not when the container started.
    """

    id: str
    sandbox_id: str
    name: str
    attempt: int
    state: ContainerState
    created_ns: int


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One container in detail; times are nanoseconds since 1970, None while they have not come.

    `exit_code` is None until it has finished.
    """

    id: str
    name: str
    attempt: int
    state: ContainerState
    created_ns: int
    started_ns: Optional[int]
    finished_ns: Optional[int]
    exit_code: Optional[int]


class Stopped(enum.Enum):
    """What the runtime said to a stop; proof is the next look, not this."""

    NOW = "now"
    """It does not run. It may have stopped earlier; containerd 1.7 (not 1.6) also says so of a container that
    it does not know, and all say so of one that is only `created`: that one can still start."""

    GONE = "gone"
    """The runtime has nothing with this id (any more): there was nothing to stop."""
