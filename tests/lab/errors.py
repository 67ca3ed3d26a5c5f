# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in the lab, each with a hint for the person who reads it."""

from pathlib import Path
from typing import Optional


class LabError(Exception):
    """One line of what went wrong; `hint` says what to do, `log` where there is more."""

    def __init__(self, message: str, hint: str = "", log: Optional[Path] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.log = log

    def __str__(self) -> str:
        lines = [self.message]
        if self.log is not None:
            lines.append(f"log: {self.log}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class MissingPrograms(LabError):
    """The machine lacks something that the lab is made with."""


class CommandFailed(LabError):
    """A command ended with another status than 0, or not in time."""

    def __init__(self, message: str, status: Optional[int], output: str, log: Optional[Path] = None) -> None:
        super().__init__(message, log=log)
        self.status = status
        self.output = output

    def __str__(self) -> str:
        tail = "\n".join(self.output.rstrip().splitlines()[-30:])
        return super().__str__() + (f"\n{tail}" if tail else "")


class StageFailed(LabError):
    """A stage's result could not be made."""


class NodeFailed(LabError):
    """A node did not do what it was told, or is not in a state to do it."""


class TimedOut(LabError):
    """A condition did not become true in time."""
