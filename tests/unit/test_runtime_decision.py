# SPDX-License-Identifier: Apache-2.0
"""What a runtime needs after a switch: one test a row of what may have changed, and one a reason to refuse.

Expected values are the upstreams' own behaviour: cri-o pkg/config/reload.go, server/server.go and internal/version;
containerd#13285; systemd.unit(5)."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.judge import runtime as rules
from ostreewatchd.model import (
    Change,
    Decision,
    Handler,
    InFlight,
    Program,
    Runtime,
    RuntimeKind,
)
from ostreewatchd.plan.runtime import decide
from ostreewatchd.platforms.runtimes import HABITS, is_one_of
from tests.unit.runtimes import AFTER, BEFORE, KATA, RUNC, WANTED, crio, file, service
from tests.unit.worlds import NOW


def decided(runtime: Runtime) -> tuple[Decision, ...]:
    kubelets = rules.kubelet_changes(runtime.kubelet) if runtime.kubelet is not None else ()
    return decide(runtime, rules.changes(runtime), kubelets)


def of_runtime(runtime: Runtime) -> Decision:
    return decided(runtime)[0]


def of_kubelet(runtime: Runtime) -> Decision:
    return decided(runtime)[1]


def action(runtime: Runtime) -> str:
    """Which is not refused."""
    one = of_runtime(runtime)
    assert one.refusals == (), one.refusals
    if one.action != "nothing":
        assert one.because and one.smaller
    return one.action


# --- nothing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(HABITS))
def test_nothing_has_changed(kind: str) -> None:
    runtime = msgspec.structs.replace(crio(file(changed_at=BEFORE)), kind=kind)
    assert [(one.action, one.because, one.beside) for one in decided(runtime)] == [("nothing", (), ())] * 2


def test_a_program_that_is_started_by_its_path() -> None:
    """crun, runc, a shim, conmon: each new container executes the new file."""
    programs = (
        Program(path="/usr/bin/crun", role="handler", same=False),
        Program(path="/usr/bin/conmon", role="monitor", same=False),
    )
    assert action(crio(programs=programs)) == "nothing"
    assert len(of_runtime(crio(programs=programs)).beside) == 2


def test_cni_configuration_is_watched() -> None:
    assert action(crio(file("/etc/cni/net.d/10-x.conflist", "cni"))) == "nothing"


def test_a_file_that_was_written_anew_with_the_same_settings() -> None:
    assert action(crio(file(settings=()))) == "nothing"
    kubelet = service("kubelet.service", config=(file("/etc/kubernetes/kubelet.conf", "kubelet", settings=()),))
    assert of_kubelet(crio(kubelet=kubelet)).action == "nothing"


def test_other_identities_behind_an_overlay_are_no_other_content() -> None:
    """As after each unlock: all of st_dev are others, and nothing is said to be deleted."""
    same = Program(path="/usr/bin/crio", role="itself", same=True)
    assert action(crio(programs=(same,), usr_mounted_at=AFTER)) == "nothing"


# --- reload -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/etc/containers/registries.conf", "/etc/containers/registries.conf.d/50-x.conf"])
def test_registries(path: str) -> None:
    assert action(crio(file(path, "registries"))) == "reload"


def test_the_trust_policy_as_the_machine_config_daemon_does_it() -> None:
    assert action(crio(file("/etc/containers/policy.json", "policy"))) == "reload"


@pytest.mark.parametrize("setting", HABITS["crio"].on_reload)
def test_a_setting_that_is_effective_after_a_reload(setting: str) -> None:
    assert action(crio(file(settings=(setting,)))) == "reload"


def test_a_reload_that_would_lose_the_flags_of_the_command_line() -> None:
    """cri-o#7586."""
    one = of_runtime(crio(file(settings=("crio.runtime.log_level",)), flags=("--log-level=debug",)))
    assert one.action == "restart" and one.because[0].rule == "command-line"


# --- restart ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handlers", "said"),
    [
        ((RUNC, KATA), "handler kata was added to the files: it is not served, whatever is displayed"),
        ((msgspec.structs.replace(RUNC, rest="annotations"),), "handler runc is another one in the files"),
        ((msgspec.structs.replace(RUNC, path="/usr/bin/crun"),), "handler runc is another one in the files"),
    ],
)
def test_a_handler(handlers: tuple[Handler, ...], said: str) -> None:
    """cri-o#10202: a reload is not enough, in no release."""
    one = of_runtime(crio(file(settings=("crio.runtime.runtimes.kata",)), handlers=handlers))
    assert (one.action, one.refusals) == ("restart", ()) and one.because[0].because.startswith(said)
    assert "changes what is displayed and not what is served" in one.smaller and "no reboot" in one.larger


def test_a_handler_that_was_removed_and_is_not_used() -> None:
    assert action(crio(loaded=(RUNC, KATA))) == "restart"


def test_the_default_handler() -> None:
    assert action(crio(handlers=(RUNC, KATA), loaded=(RUNC, KATA), default_handler="kata")) == "restart"


def test_which_handlers_the_process_has_is_not_known() -> None:
    """Then the change of the file against the process's start tells."""
    for settings in (None, ("crio.runtime.runtimes.kata",), ("crio.runtime.default_runtime",)):
        assert action(crio(file(settings=settings), loaded=None)) == "restart"
    assert action(crio(file(changed_at=BEFORE), loaded=None)) == "nothing"


@pytest.mark.parametrize(
    "setting",
    [
        "crio.network.network_dir", "crio.runtime.cgroup_manager", "crio.metrics.enable_metrics",
        "crio.runtime.hooks_dir", "crio.runtime.conmon", "crio.api.stream_port", "crio.runtime.pids_limit",
    ],
)  # fmt: skip
def test_a_setting_that_is_read_at_the_start_alone(setting: str) -> None:
    assert action(crio(file(settings=(setting, "crio.runtime.log_level")))) == "restart"


@pytest.mark.parametrize(
    ("path", "role"), [("/usr/bin/crio", "itself"), ("/usr/lib64/libgpgme.so.11", "library")]
)  # fmt: skip
def test_its_program_or_a_library_that_it_maps(path: str, role: Any) -> None:
    assert action(crio(programs=(Program(path=path, role=role, same=False),))) == "restart"


def test_hooks_that_came_with_the_first_live_apply() -> None:
    """Its watch is on the directory below the overlay, and hears nothing. After a restart it is above."""
    hook = file("/usr/share/containers/oci/hooks.d/x.json", "hooks")
    assert action(crio(hook, usr_mounted_at=AFTER)) == "restart"
    assert action(crio(hook, usr_mounted_at=BEFORE)) == "nothing"
    assert action(crio(hook)) == "nothing"
    assert action(crio(file("/etc/containers/oci/hooks.d/x.json", "hooks"), usr_mounted_at=AFTER)) == "nothing"
    assert action(msgspec.structs.replace(crio(hook, usr_mounted_at=AFTER), kind="containerd")) == "nothing"


def test_an_overlay_that_it_does_not_see() -> None:
    """ostree#2653: it would go on with the old programs, for new containers too."""
    new = Program(path="/usr/bin/crun", role="handler", same=False)
    assert action(crio(programs=(new,), own={"sees_usr": False})) == "restart"


def test_containerd_has_no_reload() -> None:
    """containerd#13285: a SIGHUP ends it. Registries' hosts.toml is read at each pull."""
    for kind in sorted(HABITS.keys() - {"crio"}):
        runtime = msgspec.structs.replace(
            crio(file("/etc/containerd/config.toml", settings=("debug.level",))), kind=kind
        )
        one = of_runtime(runtime)
        assert one.action == "restart" and one.smaller == f"{kind} has no reload: a SIGHUP ends it"
        hosts = msgspec.structs.replace(crio(file("/etc/containerd/certs.d/x/hosts.toml", "registries")), kind=kind)
        assert action(hosts) == ("restart" if kind in ("k3s", "rke2") else "nothing")


# --- units and kubelet --------------------------------------------------------------------------------------------


def test_a_unit_file_that_systemd_has_not_loaded() -> None:
    """rpm-ostree#962, #3992: for pure additions it reloads nothing."""
    one = of_runtime(crio(own={"needs_daemon_reload": True}))
    assert (one.action, one.daemon_reload, one.refusals) == ("restart", True, ())


def test_a_unit_file_that_systemd_has_and_the_process_not() -> None:
    one = of_runtime(crio(own={"unit_changed_at": AFTER}))
    assert (one.action, one.daemon_reload) == ("restart", False)
    assert action(crio(own={"unit_changed_at": BEFORE})) == "nothing"


@pytest.mark.parametrize(
    "parts",
    [
        {"config": (file("/etc/kubernetes/kubelet.conf", "kubelet"),)},
        {"programs": (Program(path="/usr/bin/kubelet", role="itself", same=False),)},
        {"needs_daemon_reload": True},
    ],
)
def test_what_is_kubelets_alone(parts: dict[str, Any]) -> None:
    runtime, kubelet = decided(crio(kubelet=service("kubelet.service", **parts)))
    assert (runtime.action, kubelet.action, kubelet.unit) == ("nothing", "restart", "kubelet.service")
    assert kubelet.daemon_reload == ("needs_daemon_reload" in parts) and kubelet.refusals == ()


def test_what_goes_along() -> None:
    added = {"handlers": (RUNC, KATA)}
    assert of_runtime(crio(**added)).along == ()
    assert of_runtime(crio(**added, kubelet_goes_along=True)).along == ("kubelet.service",)
    embedded = Runtime(kind="rke2", service=service("rke2-server.service", config=(file(),)), in_flight=InFlight())
    (one,) = decided(embedded)
    assert one.action == "restart" and one.along == ("kubelet", "on a server the API server")


# --- drain and reboot ---------------------------------------------------------------------------------------------


def test_another_minor_version() -> None:
    """Its start would remove all pods. A patch level removes none."""
    new = Program(path="/usr/bin/crio", role="itself", same=False)
    one = of_runtime(crio(programs=(new,), version_on_disk="1.37.0+unknown"))
    assert (one.action, [change.rule for change in one.because]) == ("drain-and-reboot", ["runtime-minor-version"])
    assert [change.action for change in one.beside] == ["restart"]
    assert action(crio(programs=(new,), version_on_disk="1.36.4")) == "restart"
    assert action(crio(programs=(new,), version_on_disk="")) == "restart"
    assert (
        action(msgspec.structs.replace(crio(programs=(new,), version_on_disk="2.0.0"), kind="containerd")) == "restart"
    )


def test_of_what_a_restart_would_break_nothing_is_asked_before_a_reboot() -> None:
    """It is a person's, and pods are drained first."""
    runtime = crio(version_on_disk="1.37.0", in_flight=None, cni_missing="x", own={"needs_daemon_reload": True})
    one = of_runtime(runtime)
    assert (one.action, one.daemon_reload, one.refusals) == ("drain-and-reboot", False, ())


@pytest.mark.parametrize("setting", ["crio.root", "crio.storage_driver", "storage.driver"])
def test_storage(setting: str) -> None:
    """cri-o#8322."""
    assert action(crio(file(settings=(setting,)))) == "drain-and-reboot"


def test_a_held_namespace_that_does_not_follow() -> None:
    """kubens: a restart joins it again."""
    own = {"sees_usr": False, "held_at": "/run/kubens/mnt"}
    assert action(crio(own=own)) == "drain-and-reboot"


# --- not known ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "runtime",
    [
        crio(programs=(Program(path="/usr/bin/crio", role="itself", same=None),)),
        crio(programs=(Program(path="/usr/bin/crun", role="handler", same=False),), own={"sees_usr": None}),
        crio(file(changed_at=None)),
        crio(file(), own={"started_at": None}),
        crio(kubelet=service("kubelet.service", config=(file("/etc/kubernetes/kubelet.conf", "kubelet", None),))),
    ],
)
def test_what_is_not_known_restarts_nothing(runtime: Runtime) -> None:
    """Invariant 4; it is said."""
    both = decided(runtime)
    assert [one.action for one in both] == ["nothing", "nothing"]
    assert sum(change.unknown for one in both for change in one.beside) == 1


def test_twice_on_the_same_state() -> None:
    """After the restart the process has what the files have, and nothing is asked again (gpu-operator#712)."""
    before = crio(file(), **WANTED, own={"unit_changed_at": AFTER})
    assert action(before) == "restart"
    started = msgspec.structs.replace(before.service, started_at=NOW)
    assert action(msgspec.structs.replace(before, service=started, loaded=before.handlers)) == "nothing"


def test_the_largest_of_all_is_taken_once() -> None:
    one = of_runtime(
        crio(
            file("/etc/containers/registries.conf", "registries"),
            file(settings=("crio.runtime.log_level",)),
            own={"needs_daemon_reload": True},
            **WANTED,
        )
    )
    assert (one.action, one.daemon_reload) == ("restart", True)
    assert [change.action for change in one.beside] == ["reload", "reload"]


SIZE = ("nothing", "reload", "restart", "drain-and-reboot")


@given(
    st.lists(
        st.builds(
            Change,
            rule=st.just("x"),
            action=st.sampled_from(SIZE),
            because=st.just("y"),
            daemon_reload=st.booleans(),
            unknown=st.booleans(),
        ),
        max_size=6,
    )
)
def test_any_changes_in_any_order_give_the_largest_that_is_known(changes: list[Change]) -> None:
    expected = max((SIZE.index(one.action) for one in changes if not one.unknown), default=0)
    for order in itertools.islice(itertools.permutations(changes), 6):
        one = decide(crio(), order, ())[0]
        assert one.action == SIZE[expected]
        assert sorted(map(str, (*one.because, *one.beside))) == sorted(map(str, changes)), "each is told"


def test_settings_are_named_whole_or_by_their_table() -> None:
    assert is_one_of("storage.driver", ("storage.",)) and not is_one_of("storage", ("storage.",))
    assert not is_one_of("crio.rootless", ("crio.root",))


def test_each_kind_has_its_habits() -> None:
    assert set(HABITS) == set(get_args(RuntimeKind))
    assert [kind for kind, habits in HABITS.items() if habits.reloads] == ["crio"]
