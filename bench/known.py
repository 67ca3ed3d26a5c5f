# SPDX-License-Identifier: Apache-2.0
"""Run inside the node: python -m bench.known. Its ledger then knows its state, as it does where a remediation has run:
else a watcher goes on asking for one, and a node where nobody takes that up is not at rest."""

from __future__ import annotations

from ostreewatchd import settings
from ostreewatchd.ledger.writing import Ledger
from ostreewatchd.model import History
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.look import look

if __name__ == "__main__":
    snapshot = look(settings.load(())[0], ContainerLooker(remember=False), History())
    live = snapshot.live
    with Ledger(boot_id=snapshot.node.boot_id) as ledger:
        ledger.record_switch(
            live.fingerprint,
            snapshot.node.boot_id,
            live.deployments.etc or live.deployments.booted,
            snapshot.taken_boottime,
            str(snapshot.ostree.root or ""),
        )
