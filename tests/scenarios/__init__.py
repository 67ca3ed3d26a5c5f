# SPDX-License-Identifier: Apache-2.0
"""One module per reported fault: the world in which it happened, and what must be found and done there.

Beside each is the Snapshot that a look at that world gave: it replays without root. `python -m tests.scenarios`
records it anew."""
