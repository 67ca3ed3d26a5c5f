# SPDX-License-Identifier: Apache-2.0
"""Which of the host's credentials the API server takes: asked with each of them, by who may ask processes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostreewatchd.model import Credential
from ostreewatchd.observe.host import Host
from ostreewatchd.parse import kubeconfig
from ostreewatchd.peers.apiserver import accepts

_DEADLINE = 2.0
_MAX_ASKED = 8


def with_acceptance(host: Host, credentials: Sequence[Credential]) -> tuple[Credential, ...]:
    """A server that has not answered once is not asked again in the same look: it is waited for at the most once."""
    silent: set[tuple[str, int]] = set()
    left, found = _MAX_ASKED, []
    for one in credentials:
        accepted = None
        if not one.container_id and one.kind in ("token", "certificate") and not one.path.endswith(".pem") and left:
            left -= 1
            try:
                access = kubeconfig.access(host.root.read(one.path, kubeconfig.MAX_BYTES))
            except (OSError, kubeconfig.KubeconfigError):
                found.append(one)
                continue
            if (access.host, access.port) not in silent:
                accepted = accepts(access, deadline=_DEADLINE)
                if accepted is None:
                    silent.add((access.host, access.port))
        found.append(msgspec.structs.replace(one, accepted=accepted))
    return tuple(found)
