# SPDX-License-Identifier: Apache-2.0
"""Pure rules over the evidence on one runtime: what it has not taken over of the live tree, and what makes it. What
follows, and whether it may be done now, is the plan's."""

from __future__ import annotations

from ostreewatchd.judge.runtime import configuration, programs, units
from ostreewatchd.model import Change, Runtime, Service


def changes(runtime: Runtime) -> tuple[Change, ...]:
    """Of the runtime's own unit."""
    return (*configuration.of_runtime(runtime), *programs.of_runtime(runtime), *units.of(runtime.service))


def kubelet_changes(kubelet: Service) -> tuple[Change, ...]:
    """Of kubelet's, where that is one of its own."""
    return (*configuration.of_kubelet(kubelet), *programs.of_process(kubelet), *units.of(kubelet))
