# SPDX-License-Identifier: Apache-2.0
"""Which API server a kubeconfig names. Nothing else of it is kept: it may hold credentials (see credential.py).

Source: Kubernetes client authentication, kubeconfig v1 (clusters, contexts, current-context)."""

from __future__ import annotations

from typing import Any

from ostreewatchd.parse import yamltext

MAX_BYTES = 1 << 20


class KubeconfigError(ValueError):
    """Not a kubeconfig, or one without a cluster."""


def server(data: bytes) -> str:
    """The URL of the current context's cluster. Raises KubeconfigError, whose text holds nothing of the file."""
    if len(data) > MAX_BYTES:
        raise KubeconfigError(f"larger than {MAX_BYTES} bytes")
    try:
        document = yamltext.load(data)
    except yamltext.NotYaml:
        raise KubeconfigError("not YAML") from None
    if not isinstance(document, dict):
        raise KubeconfigError("not a mapping")
    clusters = _named(document, "clusters", "cluster")
    context = _named(document, "contexts", "context").get(str(document.get("current-context", "")), {})
    chosen = clusters.get(str(context.get("cluster", ""))) or next(iter(clusters.values()), {})
    url = chosen.get("server")
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise KubeconfigError("names no cluster's server")
    return url


def _named(document: dict[str, Any], plural: str, singular: str) -> dict[str, dict[str, Any]]:
    entries = document.get(plural)
    found: dict[str, dict[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get(singular), dict):
            found[str(entry.get("name", ""))] = entry[singular]
    return found
