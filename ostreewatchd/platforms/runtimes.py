# SPDX-License-Identifier: Apache-2.0
"""What each container runtime takes over without a restart, and what it does not.

Sources: cri-o pkg/config/reload.go, server/server.go, internal/version, server.wipeIfAppropriate, crio.conf.d(5),
cri-o#10202 (a reload changes the handlers that are displayed, not those that are served), cri-o#8322 (storage);
containerd#13285 (a SIGHUP ends it), containerd docs/hosts.md (read at each pull); docs.k3s.io/installation/
private-registry, docs.rke2.io/install/private_registry (registries.yaml is read at the start)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Takes = Literal["at-use", "reload", "restart"]
"""When something takes effect: when it is used next, after a SIGHUP, or with the next start."""


class Habits(NamedTuple):
    """Of one kind of runtime."""

    reloads: bool
    """Whether SIGHUP makes it read its configuration. It ends the others."""
    on_reload: tuple[str, ...] = ()
    """Settings that are effective after that. A trailing dot: all that begin so."""
    needs_reboot: tuple[str, ...] = ()
    """Settings with which a restarted one would not know what runs."""
    registries: Takes = "restart"
    policy: Takes = "at-use"
    watches_hooks: bool = False
    """It watches a directory of OCI hooks, which lies below /usr."""
    wipes_on_minor: bool = False
    """At a start with another minor version it removes all pods."""
    embeds: tuple[str, ...] = ()
    """What else ends with its unit."""


HABITS: Mapping[str, Habits] = {
    "crio": Habits(
        reloads=True,
        on_reload=(
            "crio.runtime.log_level", "crio.runtime.log_filter", "crio.image.pause_image", "crio.image.pause_command",
            "crio.image.pause_image_auth_file", "crio.image.pinned_images", "crio.runtime.decryption_keys_path",
            "crio.runtime.seccomp_profile", "crio.runtime.apparmor_profile", "crio.runtime.blockio_config_file",
            "crio.runtime.rdt_config_file", "crio.runtime.cdi_spec_dirs",
        ),
        needs_reboot=("crio.root", "crio.runroot", "crio.storage_driver", "crio.storage_option", "storage."),
        registries="reload",
        policy="reload",
        watches_hooks=True,
        wipes_on_minor=True,
    ),
    "containerd": Habits(reloads=False, needs_reboot=("root", "state"), registries="at-use"),
    "microk8s": Habits(reloads=False, needs_reboot=("root", "state"), registries="at-use"),
    "k3s": Habits(reloads=False, needs_reboot=("root", "state"), embeds=("kubelet", "on a server the API server")),
    "rke2": Habits(reloads=False, needs_reboot=("root", "state"), embeds=("kubelet", "on a server the API server")),
    "k0s": Habits(
        reloads=False, needs_reboot=("root", "state"), registries="at-use",
        embeds=("kubelet", "on a controller the API server"),
    ),
}  # fmt: skip
"""By Runtime.kind."""


def is_one_of(setting: str, names: tuple[str, ...]) -> bool:
    """Whether the setting is named, or one of a table that is."""
    return any(setting == name or (name.endswith(".") and setting.startswith(name)) for name in names)
