# SPDX-License-Identifier: Apache-2.0
"""Evidence on a container runtime, by hand."""

from __future__ import annotations

from typing import Any

from ostreewatchd.model import ConfigFile, Handler, InFlight, Program, Runtime, Service
from tests.unit.worlds import NOW

STARTED = NOW - 3600
BEFORE, AFTER = STARTED - 900, STARTED + 900
RUNC = Handler(name="runc", path="/usr/bin/runc", root="/run/runc", is_there=True)
KATA = Handler(name="kata", path="/usr/bin/containerd-shim-kata-v2", root="/run/vc", is_there=True)
DROP_IN = "/etc/crio/crio.conf.d/50-kata.conf"
INVOCATION = "a" * 32
WANTED = {"handlers": (RUNC, KATA)}
"""A restart is needed."""


def service(unit: str = "crio.service", **parts: Any) -> Service:
    healthy = {"started_at": STARTED, "ready": True, "sees_usr": True, "invocation": INVOCATION}
    return Service(**{"unit": unit, **healthy, **parts})


def crio(
    *config: ConfigFile, programs: tuple[Program, ...] = (), own: dict[str, Any] | None = None, **parts: Any
) -> Runtime:
    """A healthy one, that has all that the files have."""
    whole: dict[str, Any] = {
        "kind": "crio",
        "service": service(config=config, programs=programs, **(own or {})),
        "version": "1.36.3",
        "version_on_disk": "1.36.3",
        "handlers": (RUNC,),
        "default_handler": "runc",
        "loaded": (RUNC,),
        "loaded_default": "runc",
        "used": ("", "runc"),
        "in_flight": InFlight(),
        "kubelet": service("kubelet.service"),
    }
    return Runtime(**{**whole, **parts})


def file(path: str = DROP_IN, of: Any = "runtime", changed_at: float | None = AFTER, **parts: Any) -> ConfigFile:
    return ConfigFile(path=path, of=of, changed_at=changed_at, **parts)
