# SPDX-License-Identifier: Apache-2.0
"""`ostreewatchctl tokens`: on a terminal with bars, elsewhere without, and for machines; from a saved look."""

from __future__ import annotations

import json

import msgspec
import pytest

from ostreewatchd.cli import main as ostreewatchctl
from ostreewatchd.cli.tokens import table
from ostreewatchd.model import ClockStep, Credential, Snapshot
from tests.scenarios.kit.catalogue import FOLDER, scenario
from tests.scenarios.kit.recorded import load
from tests.unit.worlds import CNI, NEW, NOW, world

HOUR, DAY = 3600.0, 86400.0


def of(*credentials: Credential) -> Snapshot:
    return msgspec.structs.replace(world().host(CNI, NEW).snapshot(), credentials=credentials)


def calico(age: float, **more: object) -> Credential:
    one = Credential(path=f"{CNI}/calico-kubeconfig", writer="calico", kind="token", modified_at=NOW - age,
                     issued_at=NOW - age, expires_at=NOW - age + DAY)  # fmt: skip
    return msgspec.structs.replace(one, **more)


@pytest.mark.parametrize(("age", "bar", "says"), [
    # 24 characters are 24 hours; a new one is due after 12, and half of a quarter more.
    (6 * HOUR, "[######-------|----------]", "6 h old, ends in 18 h, renewal due by 2027-01-15 15:30:00 UTC"),
    (14 * HOUR, "[#############|----------]", "14 h old, ends in 10 h, renewal due by 2027-01-15 07:30:00 UTC: late"),
    (23.5 * HOUR, "[#############|#########-]", "30 min, renewal due by 2027-01-14 22:00:00 UTC: about to end"),
    (3 * DAY, "[#############|##########]", "3 d old, ended 2 d ago, renewal due by 2027-01-12 21:30:00 UTC: EXPIRED"),
    (-60.0, "[-------------|----------]", "-1 min old"),
])  # fmt: skip
def test_a_bar_is_the_time_that_is_gone(age: float, bar: str, says: str) -> None:
    first, line = table(of(calico(age)), bars=True)
    assert first == f"calico: {CNI}/calico-kubeconfig"
    assert line.startswith(f"  host           {bar}, ") and says in line
    assert "[" not in list(table(of(calico(age)), bars=False))[1]


def test_what_else_can_be_said_of_one() -> None:
    lines = "\n".join(table(of(
        calico(HOUR, problem="is empty", kind=""),
        Credential(path="/a", kind="other"),
        Credential(path="/b", kind="token"),
        Credential(path="/c", kind="token", container_id="c" * 64, same=True, issued_at=NOW, pod="p",
                   pod_is_here=True),
    ), bars=True))  # fmt: skip
    for text in ("cannot be told: it is empty", "unknown writer: /a", "neither a token nor a certificate",
                 "of unknown age, without an end", "cccccccccccc   0 s old", "bound to p, which is here",
                 "the same as the host's", "host           has none"):  # fmt: skip
        assert text in lines, text
    assert list(table(of(), bars=True)) == [f"no credential of a CNI plugin in {CNI}"]
    steps = (ClockStep(by=90000.0, boottime=5.0), ClockStep(by=-3600.0, boottime=9.0))
    set_by = msgspec.structs.replace(of(), clock_steps=steps)
    assert "set 2 times, by +86400 s in all" in list(table(set_by, bars=True))[-1]


def test_from_a_saved_look(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(FOLDER / "tokens_that_the_old_tree_has.json")
    assert ostreewatchctl(["tokens", "--from", file]) == 1
    out = capsys.readouterr().out
    assert "  calico-node    2 h old" in out and "another than the host's" in out
    assert "noted: kube-system/calico-node-x1/calico-node: /etc/cni/net.d/calico-kubeconfig as /host" in out
    assert "stale-mount" not in out and "[" not in out
    assert ostreewatchctl(["tokens", "--json", "--from", file]) == 1
    got = json.loads(capsys.readouterr().out)
    states = {(one["path"], one["container"]): (one["state"], one["renewal_due"]) for one in got["credentials"]}
    issued = got["taken_at"] - 14 * HOUR
    assert states[f"{CNI}/calico-kubeconfig", None] == ("late", issued + 13.5 * HOUR)
    assert states[f"{CNI}/calico-kubeconfig", "calico-node"][0] == ""
    assert states[f"{CNI}/third.kubeconfig", None] == ("", None), "nobody is known to renew it"
    assert {one["rule"] for one in got["findings"]} == {"token-diverged"}


def test_an_end_in_the_future_is_never_called_good() -> None:
    """projectcalico/calico#12595: after a rotation of keys an API server refuses it all the same."""
    text = "\n".join(table(load(scenario("the_signing_key_was_rotated").saved), bars=True))
    assert "ends in" in text and not any(word in text for word in ("valid", "good", "ok", "fresh"))
