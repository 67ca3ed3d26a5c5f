# SPDX-License-Identifier: Apache-2.0
"""A person may type the command in a PID namespace of its own, where PID 1 is a shell or the command itself: that is
not the host's, and "nothing stale" would be wrong."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from ostreewatchd.cli import main
from tests.host.fakehost import FakeHost
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root


def scanned() -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(["scan"])
    return status, out.getvalue()


@in_namespaces
def test_a_pid_1_that_is_no_systemd_hides_the_host(tmp_path: Path) -> None:
    main(["scan"])  # What is imported late is, before the root is another one.
    host = FakeHost(tmp_path)
    status, said = scanned()
    assert status == 3 and "PID 1" in said and "container without hostPID" in said, said
    host.join_init_scope()
    status, said = scanned()
    assert status == 0 and "PID 1" not in said, said
