# SPDX-License-Identifier: Apache-2.0
"""Waits for the death of a node's owner and then takes the node away: python -m tests.lab.reaper NAME."""

import sys

from tests.lab import cleanup
from tests.lab.errors import LabError


def main() -> int:
    # The owner holds the other end of this pipe: it closes however the owner ends, SIGKILL included.
    sys.stdin.buffer.read()
    try:
        cleanup.destroy(sys.argv[1])
    except (LabError, OSError) as error:
        print(f"node {sys.argv[1]} could not be removed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
