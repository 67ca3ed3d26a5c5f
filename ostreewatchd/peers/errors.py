# SPDX-License-Identifier: Apache-2.0
"""What every client of this folder raises: an error that says what happened and what to do."""

from __future__ import annotations


class PeerError(Exception):
    """A peer could not be asked, did not answer, or refused.

    `what` says what happened, `hint` what a person can do about it. Both are meant for the journal: one
    line, bounded, no secret. Each client has its own subclasses; a caller that wants "this peer is not
    to be had, go on without it" catches this one.
    """

    what: str
    hint: str

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}"
