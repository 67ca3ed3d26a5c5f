# SPDX-License-Identifier: Apache-2.0
"""The SELinux policy on disk has types that the loaded one lacks: a container that is to run as one of them does not
start. Packages load their policy in scriptlets, which do not run on the live system.

Source: rpm-ostree#962; containers/podman#9135 (keycreate: invalid argument); load_policy(8);
coreos/fedora-coreos-tracker#701 (what semodule and setsebool -P write stays behind later updates)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("selinux-policy-not-loaded")
_SHOWN = 5


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Only where processes were asked: it costs reading both policies."""
    runtime = snapshot.node_runtime
    missing = runtime.types_missing if runtime is not None else ()
    if missing:
        yield rule.wrong(
            "/etc/selinux",
            because=f"it has {', '.join(missing[:_SHOWN])}{_more(missing)}, which the loaded policy lacks",
            remedy="load_policy, by root: it loads what is on disk and changes no file, as semodule would",
        )


def _more(missing: tuple[str, ...]) -> str:
    return f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
