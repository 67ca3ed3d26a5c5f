# SPDX-License-Identifier: Apache-2.0
"""CRI-O's life: its start in its order, SIGHUP, and its end.

Sources: cri-o cmd/crio/main.go, server/server.go, pkg/config/reload.go; systemd's sd_notify(3). Measured: SIGHUP
kills it until "Registered SIGHUP reload watcher", which comes after restore and wipe; READY=1 comes some milliseconds
before the first answer; 31 to 37 ms a pod lie between the socket and READY; containers survive SIGTERM and SIGKILL."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
from concurrent import futures
from pathlib import Path

import grpc

from . import settings, storage, wire
from .front import Front, listen
from .journal import Log
from .network import Network
from .settings import BadConfig, Config, Files
from .verbs import Verbs

_A_POD = 0.034
_GRACE = 15.0
_BEFORE_SERVING = 0.005
_BEHIND_WITHIN = 30.0


class Daemon:
    """`run` returns the exit status. `marks`: the directory where what nobody may do leaves a mark."""

    def __init__(self, files: Files, flags: Config, version: str, behind: str, marks: Path) -> None:
        self._files = files
        self._flags = flags
        self._version = version
        self._behind = behind
        self._marks = marks
        self._log = Log(str(flags.get("log_level", "info")))

    def run(self) -> int:
        try:
            config = settings.with_flags(self._files.read(), self._flags)
            self._log.level = settings.runtime(config)["log_level"]
            for warning in settings.drop_broken(config):
                self._log.warning(warning)
        except BadConfig as error:
            # At each start, until the file is put right: nothing else of CRI-O works either.
            self._log.fatal(f"validating runtime config: runtime validation: {error}")
            return 1
        self._log.info(f"Starting CRI-O, version: {self._version}, git: stand-in(clean)")
        own = config["crio"]
        listener = listen(own["api"]["listen"])
        memory = storage.Memory.read(Path(own["root"]))
        network = Network(own["network"]["network_dir"], own["network"]["plugin_dirs"], self._log)
        verbs = Verbs(self._behind, self._version, config, memory, network)
        if not self._wait_for_behind(verbs):
            self._log.fatal(f"Unable to start the CRI-O stand-in: nothing serves at {self._behind}")
            return 1
        self._repair(own, verbs, memory)
        self._restore(own, verbs, memory)
        events: queue.SimpleQueue[int] = queue.SimpleQueue()
        signal.signal(signal.SIGHUP, lambda number, _: events.put(number) if events.empty() else None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: events.put(number))
        self._log.info("Registered SIGHUP reload watcher")
        inner = f"crio-stand-in-{os.getpid()}"
        server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=32),
            handlers=[verbs],
            options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
        )
        server.add_insecure_port(f"unix-abstract:{inner}")
        notify("READY=1")
        time.sleep(_BEFORE_SERVING)
        server.start()
        Front(listener, inner, verbs, self.mark).serve()
        self._feed_watchdog(own["api"]["listen"])
        while _next(events) == signal.SIGHUP:
            self._reload(verbs)
        # GracefulStop: what runs is waited for, without a bound of its own; here so that no test waits for ever.
        os.unlink(own["api"]["listen"])
        listener.close()
        server.stop(_GRACE).wait(_GRACE + 1.0)
        storage.end_clean(own["clean_shutdown_file"])
        return 0

    def mark(self, name: str) -> None:
        self._marks.mkdir(parents=True, exist_ok=True)
        (self._marks / name).touch()

    def _wait_for_behind(self, verbs: Verbs) -> bool:
        until = time.monotonic() + _BEHIND_WITHIN
        while time.monotonic() < until:
            try:
                verbs.ask("Version", timeout=2)
                return True
            except grpc.RpcError:
                time.sleep(0.05)
        return False

    def _repair(self, own: Config, verbs: Verbs, memory: storage.Memory) -> None:
        """Measured: it becomes ready all the same, and says no more than this."""
        if not storage.begin_unclean(own["clean_shutdown_file"]) or not own["internal_repair"]:
            return
        self._log.warning(f"Checking storage directory {own['root']} for errors because of unclean shutdown")
        damaged = Path(own["root"], storage.DAMAGED)
        if damaged.exists():
            memory.forgotten = [*verbs.sandboxes(), *verbs.containers()]
            memory.sandboxes, memory.containers = {}, {}
            memory.write()
            damaged.unlink()

    def _restore(self, own: Config, verbs: Verbs, memory: storage.Memory) -> None:
        known = [id for id in verbs.sandboxes() if id not in memory.forgotten]
        if storage.must_wipe(own["version_file"], self._version) and own["internal_wipe"]:
            # No line says that this is a wipe.
            for id, sandbox in verbs.containers().items():
                if sandbox in known:
                    self._log.warning(f"Stopping container {id} with stop signal timed out. Killing...")
            for id in known:
                verbs.ask("StopPodSandbox", wire.field(1, id), 60)
                verbs.ask("RemovePodSandbox", wire.field(1, id), 60)
                self._log.info(f"Removed pod sandbox: {id}")
            memory.sandboxes, memory.containers = {}, {}
        else:
            there = verbs.containers()
            memory.sandboxes = {id: box for id, box in memory.sandboxes.items() if id in known}
            memory.containers = {id: box for id, box in memory.containers.items() if id in there}
            verbs.restore(self._log.warning)
            time.sleep(_A_POD * len(known))
        memory.write()
        for name in ("version_file", "version_file_persist"):
            storage.write_version(own[name], self._version)

    def _reload(self, verbs: Verbs) -> None:
        """What is shown changes, also when it fails half way (measured); what is served does not. The command line is
        lost (cri-o#7586). The log's level is effective."""
        self._log.info("Reloading configuration")
        try:
            read = self._files.read()
        except BadConfig as error:
            self._log.error(f"Unable to reload configuration: {error}")
            return
        self._log.level = settings.runtime(read)["log_level"]
        verbs.shown = read
        self._log.info("Updating runtime configuration")
        try:
            for warning in settings.drop_broken(read):
                self._log.warning(warning)
        except BadConfig as error:
            self._log.error(f"Unable to reload configuration: unable to reload runtimes: {error}")
            return
        self._log.info("Configuration reload completed")

    def _feed_watchdog(self, path: str) -> None:
        """Every half of its time, by a Status over its own socket."""
        period = int(os.environ.get("WATCHDOG_USEC", "0")) / 2e6
        if not period:
            return

        def feed() -> None:
            while True:
                with grpc.insecure_channel(f"unix:{path}", options=[("grpc.default_authority", "localhost")]) as own:
                    try:
                        own.unary_unary("/runtime.v1.RuntimeService/Status")(b"", timeout=period)
                    except grpc.RpcError:
                        self._log.error("Will not send watchdog notification: health check failed")
                    else:
                        notify("WATCHDOG=1")
                time.sleep(period)

        threading.Thread(target=feed, daemon=True).start()


def notify(text: str) -> None:
    """sd_notify(3), where systemd asks for it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.connect("\0" + address[1:] if address.startswith("@") else address)
            to.send(text.encode())


def _next(events: queue.SimpleQueue[int]) -> int:
    """A signal that another thread takes does not wake this one."""
    while True:
        try:
            return events.get(timeout=0.2)
        except queue.Empty:
            continue
