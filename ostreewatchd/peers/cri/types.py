# SPDX-License-Identifier: Apache-2.0
"""What a runtime says about itself, its sandboxes and its containers; loads no grpc.

A text that the runtime left out is empty. Labels, annotations and `info` are other people's text and may
hold secrets (a registry's password, an applied manifest): pick the keys that are needed, and never copy
a whole map into a snapshot or a log. Source of the meanings: Kubernetes CRI API, `runtime.v1`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal, Optional

import msgspec

ContainerState = Literal["created", "running", "exited", "unknown"]
"""`unknown` is also what a newer runtime's unheard-of state becomes."""

Propagation = Literal["private", "host-to-container", "bidirectional", "unknown"]
"""Whether mounts pass: not at all, from the host into the container, or both ways."""


class Version(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who answers, e.g. `containerd`, `1.6.20`, `v1`; the runtime's own words."""

    runtime: str
    version: str
    api: str


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One condition, e.g. `RuntimeReady`, and why it is (not) met.

    `NetworkReady` proves little: containerd says so from what it loaded once, also when the directory that
    it watches is no longer the one that its path leads to.
    """

    type: str
    met: bool
    reason: str
    message: str


class Status(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The runtime's health. `info` is empty unless asked for (verbose); its keys are the runtime's own."""

    conditions: tuple[Condition, ...]
    info: Mapping[str, str]

    def met(self, type: str) -> Optional[bool]:
        """Whether the condition of this type is met; None if the runtime does not name it."""
        return next((condition.met for condition in self.conditions if condition.type == type), None)

    def __repr__(self) -> str:
        # The values hold the runtime's whole configuration, registry passwords included.
        return f"Status(conditions={self.conditions!r}, info=<{', '.join(sorted(self.info))}>)"


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod's sandbox; a pod can have several, of which at most one is `ready`.

    `created_ns` is nanoseconds since 1970 by the host's wall clock. `uid` is the pod's: a static pod's has
    no dashes and is no UID of the API. `handler` is empty for the runtime's default one.
    """

    id: str
    name: str
    namespace: str
    uid: str
    attempt: int
    ready: bool
    created_ns: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    handler: str


class RuntimeContainer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container, also one that has exited; kubelet counts `attempt` up with each restart in place.

    `created_ns` is nanoseconds since 1970 by the host's wall clock; it is not when the container started.
    """

    id: str
    sandbox_id: str
    name: str
    attempt: int
    image: str
    state: ContainerState
    created_ns: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Mount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bind that was asked for at creation: paths as text. What is mounted now only mountinfo tells."""

    container_path: str
    host_path: str
    readonly: bool
    propagation: Propagation


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One container in detail; times are nanoseconds since 1970, None while they have not come.

    `exit_code` is None until it has finished. `pid` is the main process in the host's pid namespace,
    None unless asked for (verbose), and None if the runtime does not say or the process is gone.
    """

    id: str
    name: str
    attempt: int
    state: ContainerState
    created_ns: int
    started_ns: Optional[int]
    finished_ns: Optional[int]
    exit_code: Optional[int]
    mounts: tuple[Mount, ...]
    pid: Optional[int]


class Stopped(enum.Enum):
    """What the runtime said to a stop; proof is the next look, not this."""

    NOW = "now"
    """It does not run. It may have stopped earlier; containerd 1.7 (not 1.6) also says so of a container that
    it does not know, and all say so of one that is only `created`: that one can still start."""

    GONE = "gone"
    """The runtime has nothing with this id (any more): there was nothing to stop."""
