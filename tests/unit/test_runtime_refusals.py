# SPDX-License-Identifier: Apache-2.0
"""Why a runtime is not reloaded or restarted now: one test a reason, and none where nothing would be done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ostreewatchd.model import InFlight, Program, Runtime
from tests.unit.test_runtime_decision import (
    BEFORE,
    KATA,
    RUNC,
    WANTED,
    action,
    crio,
    decided,
    file,
    of_kubelet,
    of_runtime,
    service,
)
from tests.unit.worlds import names


def refused(runtime: Runtime) -> list[str]:
    one = of_runtime(runtime)
    assert one.action != "nothing" and all(refusal.because and refusal.ends for refusal in one.refusals)
    return names(one.refusals)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"in_flight": InFlight(creating=("a/b",))}, "containers-in-flight"),
        ({"in_flight": InFlight(terminating=("a/b",))}, "containers-in-flight"),
        ({"in_flight": None}, "containers-in-flight"),
        ({"in_flight": InFlight(pulls=1)}, "image-pulls"),
        ({"cni_missing": "/etc/cni/net.d has no *.conflist"}, "cni-configuration-missing"),
        ({"types_missing": ("container_kvm_t",)}, "selinux-policy-not-loaded"),
        ({"own": {"ready": False}}, "runtime-is-starting"),
        ({"default_handler": "gone"}, "configuration-would-not-start"),
        ({"handlers": (msgspec.structs.replace(RUNC, is_there=False), KATA)}, "configuration-would-not-start"),
    ],
)
def test_what_a_restart_would_break(parts: dict[str, Any], name: str) -> None:
    assert refused(crio(**{**WANTED, **parts})) == [name]


def test_a_drop_in_that_is_malformed_names_file_and_line() -> None:
    """Each start would end there; each file below the directory is read, an editor's too."""
    broken = file("/etc/crio/crio.conf.d/.60.conf.swp", problem="line 2: expected =", changed_at=BEFORE)
    one = of_runtime(crio(broken, **WANTED))
    assert names(one.refusals) == ["configuration-would-not-start"] and one.refusals[0].alarm
    assert "/etc/crio/crio.conf.d/.60.conf.swp: line 2: expected =" in one.refusals[0].because


def test_a_handler_that_is_missing_and_is_not_the_default_is_ignored() -> None:
    assert action(crio(handlers=(RUNC, msgspec.structs.replace(KATA, is_there=False)))) == "restart"


def test_a_handler_in_use_that_was_removed() -> None:
    """kata-containers#12761: its pods could be neither stopped nor removed."""
    one = of_runtime(crio(loaded=(RUNC, KATA), used=("runc", "kata")))
    assert names(one.refusals) == ["handler-in-use"] and "kata" in one.refusals[0].because
    assert refused(crio(loaded=(RUNC, KATA), used=None)) == ["handler-in-use"]
    assert action(crio(**WANTED, used=None)) == "restart", "none was removed"


def test_the_root_of_a_handler_in_use() -> None:
    moved = msgspec.structs.replace(RUNC, root="/run/other")
    assert refused(crio(handlers=(moved,))) == ["handler-root-changed"]
    assert action(crio(handlers=(moved,), used=())) == "restart"


def test_a_reload_is_refused_for_less() -> None:
    """It breaks nothing off; but while CRI-O starts it would end it."""
    registries = file("/etc/containers/registries.conf", "registries")
    busy = {"in_flight": InFlight(creating=("a/b",), pulls=3), "cni_missing": "x", "types_missing": ("t",)}
    assert action(crio(registries, **busy)) == "reload"
    assert refused(crio(registries, own={"ready": False})) == ["runtime-is-starting"]
    assert refused(crio(registries, file(problem="line 1", settings=()))) == ["configuration-would-not-start"]


def test_nothing_is_refused_where_nothing_is_needed() -> None:
    runtime = crio(own={"ready": False}, in_flight=None, cni_missing="x")
    assert [one.refusals for one in decided(runtime)] == [(), ()]


def test_kubelet_alone_breaks_off_no_container() -> None:
    changed = service("kubelet.service", programs=(Program(path="/usr/bin/kubelet", role="itself", same=False),))
    runtime = crio(in_flight=InFlight(creating=("a/b",)), kubelet=changed)
    assert of_kubelet(runtime).refusals == ()
    starting = msgspec.structs.replace(changed, ready=False)
    assert names(of_kubelet(crio(kubelet=starting)).refusals) == ["runtime-is-starting"]
