# SPDX-License-Identifier: Apache-2.0
"""The CNI configuration as CRI-O has it: read at the start, and again when its inotify watch says so.

Source: cri-o/ocicni pkg/ocicni (monitorConfDir). Measured: the watch stays on the inode that it was set on. A
directory that covers that one is not noticed, not by SIGHUP either, until something happens in the old one or in a
directory of plugins: then what is read is what has the path *now*. NetworkReady, once true, stays true
(cni_status_grace_period = 0s): with all configuration gone only RunPodSandbox fails."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from inotify_simple import INotify, flags

from .journal import Log

_EVENTS = flags.CREATE | flags.MODIFY | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE | flags.ATTRIB


class Network:
    """`names` and `default` change in a thread of its own."""

    def __init__(self, folder: str, plugins: list[str], log: Log) -> None:
        self._folder = Path(folder)
        self._log = log
        self.names: tuple[str, ...] = ()
        self.default = ""
        self.ready = False
        """It latches."""
        inotify = INotify()
        for watched in (folder, *plugins):
            if Path(watched).is_dir():
                inotify.add_watch(watched, _EVENTS)
        self._reload()
        threading.Thread(target=self._watch, args=(inotify,), daemon=True).start()

    def missing(self) -> str:
        """Why a pod gets no network; empty: it does."""
        return (
            "" if self.default else f"no CNI configuration file in {self._folder}/. Has your network provider started?"
        )

    def _watch(self, inotify: INotify) -> None:
        while True:
            inotify.read(read_delay=20)
            self._reload()

    def _reload(self) -> None:
        found = []
        for path in sorted(self._folder.glob("*")):
            if path.suffix in (".conf", ".conflist", ".json"):
                try:
                    name = str(json.loads(path.read_text())["name"])
                except (OSError, ValueError, KeyError, TypeError):
                    continue
                self._log.info(f"Found CNI network {name} at {path}")
                found.append(name)
        self.names, self.default = tuple(found), found[0] if found else ""
        self.ready = self.ready or bool(found)
        self._log.info(f"Updated default CNI network name to {self.default}")
