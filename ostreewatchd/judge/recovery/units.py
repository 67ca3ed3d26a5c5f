# SPDX-License-Identifier: Apache-2.0
"""The units of runtime and kubelet run, since the restart, and stay up.

READY=1 comes a few milliseconds before the runtime serves, and of kubelet before it is registered: this row alone
proves little. An unchanged NRestarts and InvocationID are what tells a unit that flaps (microshift#4410).

Sources: org.freedesktop.systemd1(5); kata-deploy (a runtime that started before its configuration was written has not
read it); machine-config-operator#6545, bottlerocket#4721 (kubelet down for good after its runtime's restart)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.judge.recovery.row import Moment, absent, bad, good, old
from ostreewatchd.model import Row, UnitSeen

RUNTIME = "runtime-unit"
KUBELET = "kubelet-unit"


def runtime(moment: Moment) -> Iterator[Row]:
    """Active since the restart, and started after its configuration was changed last."""
    sample, unit = moment.sample, moment.sample.runtime
    before = moment.before.runtime.invocation if moment.before is not None else ""
    down = _down(RUNTIME, unit, moment.last.runtime if moment.last is not None else None)
    if down is not None:
        yield down
    elif before and before == unit.invocation or unit.active_since < moment.recovery.since:
        yield old(RUNTIME, f"{unit.unit} runs, and was not started since the restart")
    elif sample.config_wall is not None and sample.moment(sample.config_wall) > unit.began:
        yield old(RUNTIME, f"{unit.unit} was started before {sample.config_path} was changed")
    else:
        yield good(RUNTIME, f"{unit.unit} is active, since {sample.at - unit.active_since:.0f} s")


def kubelet(moment: Moment) -> Iterator[Row]:
    """Active. Whether the restart took it along depends on the units, so it may have been up for long."""
    unit = moment.sample.kubelet
    down = _down(KUBELET, unit, moment.last.kubelet if moment.last is not None else None)
    if down is not None:
        yield down
    else:
        yield good(KUBELET, f"{unit.unit} is active, since {moment.sample.at - unit.active_since:.0f} s")


def _down(name: str, unit: UnitSeen, last: Optional[UnitSeen]) -> Optional[Row]:
    if unit.problem or not unit.unit:
        return absent(name, unit.problem or "none of the units that it might be is there")
    if (unit.active, unit.sub) != ("active", "running"):
        return bad(name, f"{unit.unit} is {unit.active} ({unit.sub})")
    if unit.result not in ("", "success"):
        return bad(name, f"{unit.unit}: its last result is {unit.result}")
    if last is not None and (last.invocation, last.restarts) != (unit.invocation, unit.restarts):
        return bad(name, f"{unit.unit} was started again meanwhile ({unit.restarts} automatic restarts)")
    return None
