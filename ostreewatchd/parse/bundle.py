# SPDX-License-Identifier: Apache-2.0
"""A runtime bundle's config.json: the host paths that a container was given, and whose it is.

CRI-O copies each annotation of a pod into it, and anybody who may make a pod writes those: beside the keys that are
CRI-O's own, and which it sets last, no other runtime's are believed.

Source: OCI runtime specification 1.0 (config.md, mounts); the annotations of containerd's and CRI-O's CRI
(cri-o internal/factory/container, SpecAddAnnotations)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

MAX_BYTES = 4 << 20
"""A container's configuration is some ten KiB; a seccomp profile makes it a hundred."""


class BundleError(ValueError):
    """The file is not a container's configuration (or is being written)."""


class _Mount(msgspec.Struct):
    destination: str = ""
    type: str = ""
    source: str = ""
    options: list[str] = []


class _Spec(msgspec.Struct):
    mounts: list[_Mount] = []
    annotations: dict[str, str] = {}


class BundleMount(NamedTuple):
    source: str
    destination: str


class Bundle(NamedTuple):
    """Empty strings where the runtime put no such annotation."""

    mounts: tuple[BundleMount, ...]
    is_sandbox: bool
    sandbox_id: str
    namespace: str
    pod: str
    pod_uid: str
    container: str


class _Keys(NamedTuple):
    """A runtime's annotations; the others in Bundle's order."""

    container_type: str
    sandbox_id: str
    namespace: str
    pod: str
    pod_uid: str
    container: str


_CONTAINERD = _Keys(
    "io.kubernetes.cri.container-type",
    "io.kubernetes.cri.sandbox-id",
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.cri.sandbox-name",
    "io.kubernetes.cri.sandbox-uid",
    "io.kubernetes.cri.container-name",
)
_CRIO = _Keys(
    "io.kubernetes.cri-o.ContainerType",
    "io.kubernetes.cri-o.SandboxID",
    "io.kubernetes.pod.namespace",
    "io.kubernetes.pod.name",
    "io.kubernetes.pod.uid",
    "io.kubernetes.container.name",
)
_DECODER = msgspec.json.Decoder(_Spec)


def parse(data: bytes) -> Bundle:
    """The bind mounts and the owner. Raises BundleError."""
    spec = _spec(data)
    notes = spec.annotations
    keys = _CRIO if _CRIO.container_type in notes else _CONTAINERD
    kind, *whose = (notes.get(key, "") for key in keys)
    return Bundle(
        tuple(
            BundleMount(mount.source, mount.destination.rstrip("/") or "/")
            for mount in spec.mounts
            if mount.source.startswith("/") and (mount.type == "bind" or _binds(mount.options))
        ),
        kind == "sandbox",
        *whose,
    )


def _binds(options: list[str]) -> bool:
    return "rbind" in options or "bind" in options


def _spec(data: bytes) -> _Spec:
    if len(data) > MAX_BYTES:
        raise BundleError(f"larger than {MAX_BYTES} bytes")
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BundleError(str(error)) from error


def handler(data: bytes) -> str:
    """The runtime handler that a sandbox of CRI-O's was started with; empty: none is named. Raises BundleError."""
    return _spec(data).annotations.get("io.kubernetes.cri-o.RuntimeHandler", "")
