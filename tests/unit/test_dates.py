# SPDX-License-Identifier: Apache-2.0
"""The next date that matters: a look right after it finds what one right before it did not."""

from __future__ import annotations

import msgspec

from ostreewatchd.dates import next_date
from ostreewatchd.judge import judge
from ostreewatchd.model import Credential, Snapshot
from tests.unit.worlds import CNI, NEW, NOW, world

HOUR = 3600.0


def at(moment: float, *credentials: Credential) -> Snapshot:
    still = world().host(CNI, NEW).snapshot()
    return msgspec.structs.replace(still, taken_at=moment, credentials=credentials)


def test_each_date_of_a_token_in_turn() -> None:
    token = Credential(path=f"{CNI}/calico-kubeconfig", writer="calico", kind="token", issued_at=NOW,
                       expires_at=NOW + 24 * HOUR, modified_at=NOW)  # fmt: skip
    seen, now = [], NOW
    for _ in range(3):
        date = next_date(at(now, token))
        assert date is not None and judge(at(date - 2, token)) == judge(at(now, token))
        seen.append((date - 1 - NOW, [one.rule for one in judge(at(date, token))]))
        now = date
    # Half of its time and an eighth of that more; the last twentieth; a minute of leeway.
    assert seen == [(13.5 * HOUR, ["writer-silent"]), (22.8 * HOUR, ["token-expiring"]),
                    (24 * HOUR + 60, ["token-expired"])]  # fmt: skip
    assert next_date(at(now, token)) is None


def test_the_first_of_several_and_only_the_hosts() -> None:
    soon = Credential(path="/a", kind="token", expires_at=NOW + HOUR)
    later = Credential(path="/b", kind="token", expires_at=NOW + 2 * HOUR)
    mine = Credential(path="/c", kind="token", expires_at=NOW + 60, container_id="c" * 64)
    endless = Credential(path="/d", kind="token")
    assert next_date(at(NOW, later, soon, mine, endless)) == NOW + HOUR + 1
    assert next_date(at(NOW, mine, endless)) is None
