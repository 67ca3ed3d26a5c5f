# SPDX-License-Identifier: Apache-2.0
"""What may be the case with a container runtime, each row with the plan for it. By its rows it is also shown that no
clause of the rules is there without need (test_switched_off.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ostreewatchd.model import (
    ConfigFile,
    Handler,
    InFlight,
    PastAct,
    Program,
    RpmOstreeView,
    Runtime,
    RuntimeKind,
    Settings,
    Snapshot,
    Subject,
)
from tests.unit.runtimes import AFTER, BEFORE, INVOCATION, KATA, RUNC, STARTED, WANTED, crio, file, service
from tests.unit.worlds import BOOT, NOW, world


class Row(NamedTuple):
    """`plan`: steps as `restart-unit crio.service`, refusals as `no-lock crio.service`."""

    tells: str
    runtime: Runtime
    plan: tuple[str, ...] = ()
    unknown: bool = False
    """Something of it is said to be unknown."""
    settings: Settings = Settings(lock="none")
    snapshot: Snapshot | None = None

    def look(self) -> Snapshot:
        return msgspec.structs.replace(self.snapshot or world().snapshot(), node_runtime=self.runtime)


CRIO, KUBELET = "restart-unit crio.service", "restart-unit kubelet.service"
RELOAD, REBOOT = "reload-unit crio.service", "needs-drain-and-reboot crio.service"
REGISTRIES = "/etc/containers/registries.conf"
HOOK = "/usr/share/containers/oci/hooks.d/x.json"
_LOADING = {"kubelet": service("kubelet.service", needs_daemon_reload=True)}
_OTHER = Program(path="/usr/bin/crio", role="itself", same=False, changed_at=AFTER)


def containerd(*config: ConfigFile, **parts: Any) -> Runtime:
    """The same with another one."""
    return _of("containerd", *config, **parts)


def _of(kind: RuntimeKind, *config: ConfigFile, **parts: Any) -> Runtime:
    return msgspec.structs.replace(crio(*config, **parts), kind=kind)


def kubelet(**parts: Any) -> Runtime:
    """A change of kubelet's alone."""
    return crio(kubelet=service("kubelet.service", **parts))


def acted(**parts: Any) -> PastAct:
    """A restart of CRI-O that was done half an hour after what has changed since its start."""
    whole: dict[str, Any] = {
        "id": 7, "switch_id": "s1", "step": "restart-unit", "subject": Subject(kind="unit", unit="crio.service"),
        "because": "x", "intent_at": AFTER + 1800, "outcome": "cured", "proof": "y", "boot_id": BOOT,
        "invocation": "b" * 32,
    }  # fmt: skip
    return PastAct(**{**whole, **parts})


def remembering(**parts: Any) -> Snapshot:
    """With that act in the ledger."""
    return world().switch().history(acts=(acted(**parts),)).snapshot()


def _runc(**parts: Any) -> tuple[Handler, ...]:
    return (msgspec.structs.replace(RUNC, **parts),)


def _many(number: int) -> tuple[Handler, ...]:
    return tuple(Handler(name=f"h{place}") for place in range(number))


def _program(**parts: Any) -> tuple[Program, ...]:
    return (msgspec.structs.replace(_OTHER, **parts),)


def _busy(title: str) -> Snapshot:
    view = RpmOstreeView(installed=True, owned=True, transaction=True, title=title)
    return msgspec.structs.replace(world().snapshot(), rpm_ostree=view)


ROWS: tuple[Row, ...] = (
    # Handlers: cri-o#10202, containerd#13285.
    Row("all is as it was", crio(file(changed_at=BEFORE))),
    Row("there is nothing of it", crio()),
    Row("a handler was added", crio(**WANTED), (CRIO,)),
    Row("a handler was removed that nobody uses", crio(loaded=(RUNC, KATA)), (CRIO,)),
    Row("a handler has another program", crio(handlers=_runc(path="/x")), (CRIO,)),
    Row("a handler has other settings", crio(handlers=_runc(rest="x")), (CRIO,)),
    Row("an unused handler has another root", crio(handlers=_runc(root="/x"), used=()), (CRIO,)),
    Row("all handlers are gone", crio(loaded=_many(5), used=()), (CRIO,)),
    Row("its program was found", crio(loaded=_runc(is_there=None))),
    Row("the default is another one", crio(**WANTED, loaded=(RUNC, KATA), default_handler="kata"), (CRIO,)),
    Row("there was no default", crio(loaded_default=""), (CRIO,)),
    Row("what it has loaded is not known, and a file is newer", crio(file(), loaded=None), (CRIO,)),
    Row("what it has loaded is not known, and no file is newer", crio(loaded=None, handlers=(RUNC, KATA))),
    Row("a handler's setting in a file whose handlers are known", crio(file(settings=("crio.runtime.runtimes.x.y",)))),
    Row("and where they are not", crio(file(settings=("crio.runtime.runtimes.x.y",)), loaded=None), (CRIO,)),
    # Settings: cri-o pkg/config/reload.go; cri-o#8322, #7586.
    Row("the same settings, written anew", crio(file(settings=()))),
    Row("a setting that a reload reads", crio(file(settings=("crio.runtime.log_level",))), (RELOAD,)),
    Row(
        "the same with a flag that it would lose",
        crio(file(settings=("crio.runtime.log_level",)), flags=("--log",)),
        (CRIO,),
    ),
    Row("a setting that a reload does not read", crio(file(settings=("crio.network.plugin_dirs",))), (CRIO,)),
    Row("both", crio(file(settings=("crio.runtime.log_level", "crio.api.listen"))), (CRIO,)),
    Row("of the storage", crio(file(settings=("crio.storage_driver",))), (REBOOT,)),
    Row("registries", crio(file(REGISTRIES, "registries")), (RELOAD,)),
    Row(
        "registries, and it was reloaded since",
        crio(file(REGISTRIES, "registries"), own={"reloaded_at": NOW - 60}),
        (),
    ),
    Row("and before", crio(file(REGISTRIES, "registries"), own={"reloaded_at": STARTED + 60}), (RELOAD,)),
    Row("what a reload does not read", crio(file(), loaded=None, own={"reloaded_at": NOW - 60}), (CRIO,)),
    Row("the trust policy", crio(file("/etc/containers/policy.json", "policy")), (RELOAD,)),
    Row("registries of containerd", containerd(file("/etc/containerd/certs.d", "registries"))),
    Row("registries of k3s", _of("k3s", file("/etc/rancher/k3s/registries.yaml", "registries")), (CRIO,)),
    Row("the trust policy of k3s", _of("k3s", file("/etc/containers/policy.json", "policy"))),
    Row("CNI", crio(file("/etc/cni/net.d/x.conf", "cni"))),
    Row("hooks", crio(file(HOOK, "hooks"))),
    Row("hooks below a younger mount", crio(file(HOOK, "hooks"), usr_mounted_at=AFTER), (CRIO,)),
    Row("hooks below an older mount", crio(file(HOOK, "hooks"), usr_mounted_at=BEFORE)),
    Row("hooks beside a younger mount", crio(file("/etc/containers/oci/hooks.d/x", "hooks"), usr_mounted_at=AFTER)),
    Row("hooks of containerd", containerd(file(HOOK, "hooks"), usr_mounted_at=AFTER)),
    Row("a time that is not known", crio(file(changed_at=None), loaded=None), unknown=True),
    Row("a start that is not known", crio(file(), loaded=None, own={"started_at": None}), unknown=True),
    Row("another tree, whose content is not known", crio(file(other_tree=True), loaded=None), unknown=True),
    Row("another tree with the same content", crio(file(other_tree=True, settings=()))),
    Row("another tree with another content", crio(file(other_tree=True, settings=("crio.x",))), (CRIO,)),
    Row("some settings are not told", containerd(file(settings=(), partly=True)), unknown=True),
    # Kubelet.
    Row("kubelet's configuration", kubelet(config=(file("/k.yaml", "kubelet"),)), (KUBELET,)),
    Row("kubelet's, from before", kubelet(config=(file("/k.yaml", "kubelet", BEFORE),))),
    Row("kubelet's, with the same variables", kubelet(config=(file("/k.env", "kubelet", settings=()),))),
    Row("kubelet's, of which no time is known", kubelet(config=(file("/k.yaml", "kubelet", None),)), unknown=True),
    Row("kubelet's, of another tree", kubelet(config=(file("/k.yaml", "kubelet", other_tree=True),)), unknown=True),
    Row(
        "kubelet's, of another tree and different",
        kubelet(config=(file("/k", "kubelet", other_tree=True, settings=("X",)),)),
        (KUBELET,),
    ),
    Row(
        "kubelet's, of another tree and from before", kubelet(config=(file("/k", "kubelet", BEFORE, other_tree=True),))
    ),
    Row("kubelet's program", kubelet(programs=_program(path="/usr/bin/kubelet")), (KUBELET,)),
    Row("no kubelet", crio(kubelet=None, **WANTED), (CRIO,)),
    Row("kubelet goes along", crio(**_LOADING, kubelet_goes_along=True, **WANTED), (CRIO,)),
    Row("kubelet does not", crio(**_LOADING, **WANTED), (CRIO, KUBELET)),
    Row("kubelet goes along with a runtime that stays", crio(**_LOADING, kubelet_goes_along=True), (KUBELET,)),
    # Programs.
    Row("its program is another one", crio(programs=(_OTHER,)), (CRIO,)),
    Row("its program is the same behind an overlay", crio(programs=_program(same=True))),
    Row("its program cannot be compared", crio(programs=_program(same=None)), unknown=True),
    Row("a library is another one", crio(programs=_program(role="library")), (CRIO,)),
    Row("a shim is another one", crio(programs=_program(role="handler"))),
    Row("a shim, which it may not see", crio(programs=_program(role="handler"), own={"sees_usr": None}), unknown=True),
    Row("another minor version", crio(programs=(_OTHER,), version_on_disk="1.37.0"), (REBOOT,)),
    Row("another major version", crio(programs=(_OTHER,), version_on_disk="v2.36.0"), (REBOOT,)),
    Row("another patch level", crio(programs=(_OTHER,), version_on_disk="1.36.9"), (CRIO,)),
    Row("a version that is not known", crio(programs=(_OTHER,), version_on_disk=""), (CRIO,)),
    Row("a version that was not known", crio(programs=(_OTHER,), version=""), (CRIO,)),
    Row("a version that is none", crio(programs=(_OTHER,), version_on_disk="x.37"), (CRIO,)),
    Row("a version that is a number", crio(programs=(_OTHER,), version_on_disk="1"), (CRIO,)),
    Row("a version that is half of one", crio(programs=(_OTHER,), version_on_disk="1.x"), (CRIO,)),
    Row("another minor version of containerd", containerd(programs=(_OTHER,), version_on_disk="1.37.0"), (CRIO,)),
    Row("it does not see the overlay", crio(own={"sees_usr": False}), (CRIO,)),
    Row("and would not", crio(own={"sees_usr": False, "held_at": "/run/kubens/mnt"}), (REBOOT,)),
    Row("it is held, and sees it", crio(own={"held_at": "/run/kubens/mnt"})),
    # Units.
    Row("systemd has not loaded the unit", crio(own={"needs_daemon_reload": True}), (CRIO,)),
    Row("the unit is newer", crio(own={"unit_changed_at": AFTER}), (CRIO,)),
    Row("the unit is older", crio(own={"unit_changed_at": BEFORE})),
    # Refusals.
    Row("without a lock", crio(**WANTED), ("no-lock crio.service",), settings=Settings()),
    Row("a reload without one", crio(file(REGISTRIES, "registries")), ("no-lock crio.service",), settings=Settings()),
    Row("observed", crio(**WANTED), ("mode-observe crio.service",), settings=Settings(lock="none", mode="observe")),
    Row("somebody else is at it", crio(own={"busy": True}, **WANTED), ("unit-has-a-job crio.service",)),
    Row("it starts", crio(own={"ready": False}, **WANTED), ("runtime-is-starting crio.service",)),
    Row(
        "a container is being made",
        crio(in_flight=InFlight(creating=("a/b",)), **WANTED),
        ("containers-in-flight crio.service",),
    ),
    Row("an image is pulled", crio(in_flight=InFlight(pulls=1), **WANTED), ("image-pulls crio.service",)),
    Row("a handler in use was removed", crio(loaded=(RUNC, KATA), used=("kata",)), ("handler-in-use crio.service",)),
    Row("one in use has another root", crio(handlers=_runc(root="/x")), ("handler-root-changed crio.service",)),
    Row("no CNI configuration", crio(cni_missing="x", **WANTED), ("cni-configuration-missing crio.service",)),
    Row(
        "a type that is not loaded",
        crio(types_missing=("x_t",), **WANTED),
        ("selinux-policy-not-loaded crio.service",),
    ),
    Row(
        "a malformed drop-in",
        crio(file(problem="line 2: x"), **WANTED),
        ("configuration-would-not-start crio.service",),
    ),
    Row("no default handler", crio(default_handler="x", **WANTED), ("configuration-would-not-start crio.service",)),
    Row("a switch is under way", crio(**WANTED), ("switch-in-progress",), snapshot=world().flag().snapshot()),
    Row("a transaction is under way", crio(**WANTED), ("transaction-under-way",), snapshot=_busy("LiveFs of x")),
    Row("what repositories offer is being read", crio(**WANTED), (CRIO,), snapshot=_busy("RefreshMd of x")),
    Row(
        "types that are not loaded, and nothing is due", crio(types_missing=("a_t", "b_t", "c_t", "d_t", "e_t", "f_t"))
    ),
    # Once.
    Row(
        "systemd does not say which start it is",
        crio(own={"invocation": ""}, **WANTED),
        ("unit-unknown crio.service",),
    ),
    Row(
        "an act is open for this start",
        crio(file(), **WANTED),
        (CRIO,),
        snapshot=remembering(outcome="", invocation=INVOCATION),
    ),
    Row(
        "this start was to end",
        crio(file(), **WANTED),
        ("already-restarted crio.service",),
        snapshot=remembering(outcome="superseded", invocation=INVOCATION),
    ),
    Row(
        "it was restarted for this",
        crio(file(), **WANTED),
        ("already-restarted crio.service",),
        snapshot=remembering(),
    ),
    Row("something has changed since", crio(file(), **WANTED), (CRIO,), snapshot=remembering(intent_at=BEFORE)),
    Row("it was restarted in another boot", crio(file(), **WANTED), (CRIO,), snapshot=remembering(boot_id="x")),
    Row("nothing came of it", crio(file(), **WANTED), (CRIO,), snapshot=remembering(outcome="not-done")),
    Row(
        "another unit was restarted",
        crio(file(), **WANTED),
        (CRIO,),
        snapshot=remembering(subject=Subject(kind="unit", unit="x")),
    ),
    Row("it did not help", crio(file(), **WANTED), ("breaker",), snapshot=remembering(outcome="not-cured")),
)
