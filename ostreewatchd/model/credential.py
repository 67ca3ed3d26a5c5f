# SPDX-License-Identifier: Apache-2.0
"""What a CNI plugin reaches the API server with, as one file has it: dates and names, never the secret itself
(DESIGN invariant 10)."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record
from ostreewatchd.model.sight import Identity

WriterName = Literal["", "calico", "multus", "multus-thick", "whereabouts", "istio-cni", "ovn4nfv"]
"""Who writes files of that name; empty: it is known by its shape alone."""
CredentialKind = Literal["", "token", "certificate", "other"]
"""Empty: it could not be read. `other`: a file, a program or a password, of which nothing is looked at."""


class Credential(Record, frozen=True, kw_only=True):
    """One file on the host, or in a container that has another directory than the host there."""

    path: str
    """On the host; of a container's: where the host has it."""
    writer: WriterName = ""
    container_id: str = ""
    """In whose tree it is; empty: the host's, as PID 1 sees it."""
    identity: Optional[Identity] = None
    modified_at: float = 0.0
    kind: CredentialKind = ""
    problem: str = ""
    """Why it could not be read; holds nothing of the file."""
    issued_at: Optional[float] = None
    """`iat`; of a certificate its beginning."""
    expires_at: Optional[float] = None
    """`exp`; of a certificate its end. None: it has none, or it cannot be told."""
    warn_after: Optional[float] = None
    """When the API server begins to warn: the end that was asked for, where the real one was put off."""
    subject: str = ""
    pod: str = ""
    """The name of the pod that the token is bound to; empty: to none."""
    pod_uid: str = ""
    pod_is_here: Optional[bool] = None
    """Whether kubelet has that pod on this node; None: bound to none, or not known."""
    projected: Optional[bool] = None
    """Of a token that is bound to a pod: whether it is the very one that kubelet has in that pod's volume now;
    compared in memory. None: bound to none, or there is none to compare it with."""
    accepted: Optional[bool] = None
    """Of the host's: whether the API server took it, when it was asked. None: it was not, or did not answer."""
    key_id: str = ""
    """Which key signed it."""
    same: Optional[bool] = None
    """Of a container's: whether it is the very secret that the host has; compared in memory. None: the host has none
    there, or one of them could not be read."""


class ClockStep(Record, frozen=True, kw_only=True):
    """The wall clock was set."""

    by: float
    """Seconds; positive: forward."""
    boottime: float
    """When, in seconds of CLOCK_BOOTTIME."""
