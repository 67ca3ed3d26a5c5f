# SPDX-License-Identifier: Apache-2.0
"""A static pod's manifest: its name and what kubelet does when one of its containers ends.

Source: Kubernetes API reference, Pod v1 core (restartPolicy defaults to Always)."""

from __future__ import annotations

from typing import NamedTuple

from ostreewatchd.parse import yamltext

MAX_BYTES = 1 << 20


class ManifestError(ValueError):
    """Not a pod's manifest."""


class Manifest(NamedTuple):
    namespace: str
    name: str
    restart_policy: str


def parse(data: bytes) -> Manifest:
    """Name and restart policy of the pod in a YAML or JSON manifest. Raises ManifestError."""
    if len(data) > MAX_BYTES:
        raise ManifestError(f"larger than {MAX_BYTES} bytes")
    try:
        document = yamltext.load(data)
    except yamltext.NotYaml as error:
        raise ManifestError(str(error)) from error
    if not isinstance(document, dict) or document.get("kind") != "Pod":
        raise ManifestError("not of kind Pod")
    metadata, spec = document.get("metadata"), document.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ManifestError("has no metadata or no spec")
    name = metadata.get("name")
    namespace = metadata.get("namespace", "default")
    policy = spec.get("restartPolicy", "Always")
    if not (isinstance(name, str) and name and isinstance(namespace, str) and isinstance(policy, str)):
        raise ManifestError("has no name")
    return Manifest(namespace or "default", name, policy or "Always")
