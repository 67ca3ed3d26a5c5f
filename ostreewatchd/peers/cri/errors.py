# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a container runtime; loads no grpc."""

from __future__ import annotations

from ..errors import PeerError


class CriError(PeerError):
    """The base of all errors of this client."""


class RuntimeUnavailable(CriError):
    """There is no usable socket, or nobody listens on it: nothing was asked. Of `RuntimeLost` it is not so."""


class RuntimeLost(RuntimeUnavailable):
    """The connection broke after the call began. Whether the runtime did what was asked is not known."""


class RuntimeSilent(CriError):
    """The runtime did not answer in time. Whether it did what was asked is not known."""


class RuntimeRefused(CriError):
    """The runtime answered with an error; `code` is the gRPC status' name, e.g. `PERMISSION_DENIED`."""

    code: str

    def __init__(self, what: str, hint: str, code: str) -> None:
        super().__init__(what, hint)
        # All of them, so that copy and pickle can build it again.
        self.args = (what, hint, code)
        self.code = code


class NotFound(CriError):
    """The runtime has no container or sandbox with this id (any more)."""


class AnswerTooLarge(CriError):
    """The answer has more bytes or entries than this client takes; nothing of it was used."""


class AnswerUnclear(CriError):
    """The answer is no CRI message, or not an answer to what was asked."""


class BadId(CriError):
    """Not a full container or sandbox id, so it was not sent.

    Runtimes take any unambiguous *prefix* for an id (containerd: pkg/cri/store, a truncated-id index), so
    that a damaged id could stop a stranger.
    """
