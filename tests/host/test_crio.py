# SPDX-License-Identifier: Apache-2.0
"""The stand-in for CRI-O has CRI-O's habits: a test for each, in the words of whoever met it.

Where they were read: tests/fakes/crio. Needs what test_cri_containerd.py needs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.errors import RuntimeRefused, RuntimeSilent, RuntimeUnavailable
from tests.fakes.crio import wire
from tests.host.containerd import IMAGE, MISSING, Containerd, end
from tests.host.cri_creator import Creator
from tests.host.crio import NETWORK, Crio

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

tomllib = pytest.importorskip("tomllib", reason="the stand-in reads TOML with Python's own")

EXTRA = '[crio.runtime.runtimes.extra]\nruntime_path = "{}"\n'
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    server = Containerd(tmp_path_factory.mktemp("c"))
    # A CNI plugin that gives each pod the same address.
    for name in ("loopback", "same"):
        plugin = server.base / "cni-bin" / name
        plugin.parent.mkdir(exist_ok=True)
        plugin.write_text(
            '#!/bin/sh\ncat >/dev/null\necho "{\\"cniVersion\\": \\"0.4.0\\", \\"interfaces\\": [{\\"name\\":'
            ' \\"eth0\\", \\"sandbox\\": \\"$CNI_NETNS\\"}], \\"ips\\": [{\\"version\\": \\"4\\",'
            ' \\"address\\": \\"10.1.2.3/24\\", \\"interface\\": 0}]}"\n'
        )
        plugin.chmod(0o755)
    plugins = '{"cniVersion": "0.4.0", "name": "same", "plugins": [{"type": "same"}]}'
    (server.base / "cni-net.d/10-same.conflist").write_text(plugins)
    try:
        server.load_image()
        yield server
    finally:
        end(server)


@pytest.fixture
def crio(behind: Containerd) -> Iterator[Crio]:
    made = Crio(behind, f"crio-{next(_numbers)}")
    try:
        yield made
    finally:
        made.close()
        with Runtime.connect(behind.socket, deadline=20) as runtime, Creator(behind.socket, behind.cgroup) as creator:
            for sandbox in runtime.sandboxes():
                creator.ask("StopPodSandbox", wire.field(1, sandbox.id))
                creator.ask("RemovePodSandbox", wire.field(1, sandbox.id))


def sandbox(crio: Crio, name: str = "one", handler: str = "", on_host: bool = True) -> str:
    with Creator(crio.socket, crio.cgroup) as creator:
        return creator.sandbox(name, "default", f"uid-{name}", handler=handler, on_host=on_host)


def handlers(crio: Crio) -> list[str]:
    """CRI Status.runtimeHandlers."""
    with Creator(crio.socket, crio.cgroup) as creator:
        return sorted(wire.text(each, 1) for each in wire.messages(creator.ask("Status"), 3))


def is_network_ready(crio: Crio) -> bool:
    with Creator(crio.socket, crio.cgroup) as creator:
        conditions = wire.messages(wire.message(creator.ask("Status"), 1), 1)
        return {wire.text(each, 1): bool(wire.number(each, 2)) for each in conditions}["NetworkReady"]


def known(socket: str) -> set[str]:
    with Runtime.connect(socket, deadline=20) as runtime:
        return {each.id for each in runtime.sandboxes()}


def refused(crio: Crio, handler: str) -> str:
    with pytest.raises(RuntimeRefused) as caught:
        sandbox(crio, "new", handler)
    return str(caught.value)


def test_a_reload_shows_a_handler_and_does_not_serve_it(crio: Crio) -> None:
    """cri-o#10202: `systemctl reload crio` changes what is displayed. So it is with a removal."""
    crio.start()
    first = sandbox(crio)
    assert handlers(crio) == ["", "runc"]
    drop_in = crio.drop_ins / "50-extra.conf"
    drop_in.write_text(EXTRA.format(crio.runc))
    crio.reload()
    assert "Reloading configuration" in crio.log() and "Updating runtime configuration" in crio.log()
    assert handlers(crio) == ["", "extra", "runc"]
    assert set(tomllib.loads(crio.page("/config")[1])["crio"]["runtime"]["runtimes"]) == {"extra", "runc"}
    assert "extra" not in crio.page("/info")[1]
    for handler in ("extra", "nonsense"):
        said = f"failed to find runtime handler {handler} from runtime list map[runc:0x"
        assert said in refused(crio, handler)
    assert sandbox(crio, handler="extra") == first, "it answers for one that exists, whatever the handler"

    crio.restart()
    assert handlers(crio) == ["", "extra", "runc"], "as before"
    new = sandbox(crio, "new", "extra")
    assert new in known(crio.socket)
    bundle = (crio.base / "runroot/overlay-containers" / new / "userdata/config.json").read_text()
    assert json.loads(bundle)["annotations"]["io.kubernetes.cri-o.RuntimeHandler"] == "extra"

    drop_in.unlink()
    crio.reload()
    assert handlers(crio) == ["", "runc"]
    assert sandbox(crio, "newer", "extra")


def test_a_reload_that_fails_changes_what_is_shown_all_the_same(crio: Crio) -> None:
    """And with that configuration it does not start."""
    crio.start()
    drop_in = crio.drop_ins / "50-broken.conf"
    drop_in.write_text('[crio.runtime.runtimes.runc]\nruntime_path = "/gone"\n')
    crio.reload("Unable to reload configuration: unable to reload runtimes: invalid runtime_path for runtime 'runc'")
    assert 'runtime_path = "/gone"' in crio.page("/config")[1]
    assert sandbox(crio)
    assert crio.ctl("config").returncode == 0, "no path is looked at"
    assert crio.end() == 0
    crio.begin()
    assert crio.process.wait(20) == 1
    assert "level=fatal" in crio.log() and "invalid runtime_path for runtime 'runc'" in crio.log()


def test_a_handler_without_its_program_is_ignored(crio: Crio) -> None:
    (crio.drop_ins / "50-gone.conf").write_text(EXTRA.format("/gone"))
    crio.start()
    crio.reload()
    assert crio.log().count('Runtime handler \\"extra\\" is being ignored due to: invalid runtime_path') == 2
    assert handlers(crio) == ["", "runc"]


def test_a_reload_loses_the_command_line(crio: Crio) -> None:
    """cri-o#7586."""
    crio.start("--log-level", "debug")
    assert 'log_level = "debug"' in crio.page("/config")[1]
    crio.reload()
    assert 'log_level = "info"' in crio.page("/config")[1]


def test_a_malformed_file_harms_nothing_until_the_next_start(crio: Crio) -> None:
    """Every file is parsed, at any depth and whatever its name; an unknown key is not minded."""
    (crio.drop_ins / "10-odd.conf").write_text('[crio.runtime]\nno_such_key = "x"\n[other]\nx = 1\n')
    assert crio.ctl("config").returncode == 0
    crio.start()
    bad = crio.drop_ins / "more/.60.conf.swp"
    bad.parent.mkdir()
    bad.write_text("[crio.runtime]\nlog_level =\n")
    crio.reload("Unable to reload configuration: update config from path: walk path: unable to decode configuration")
    assert f"{bad}: toml: line 2: " in crio.log()
    assert sandbox(crio)
    for verb in (("config",), ("version",), ("status", "info")):
        done = crio.ctl(*verb)
        assert done.returncode == 1 and f"{bad}: toml: line 2: " in done.stderr
    assert crio.end() == 0
    for _ in range(2):
        crio.begin()
        assert crio.process.wait(20) == 1 and "level=fatal" in crio.log()
    bad.write_text('[crio.runtime]\ndefault_runtime = "none"\n')
    assert crio.ctl("config").returncode == 1, "a default without a table"
    bad.unlink()
    crio.start()
    assert len(known(crio.socket)) == 1


def test_while_it_starts_it_accepts_and_a_reload_kills_it(crio: Crio) -> None:
    """Before restore and wipe: the socket is there, nothing answers, and SIGHUP has its default."""
    crio.behind.process.send_signal(signal.SIGSTOP)
    try:
        crio.begin()
        until = time.monotonic() + 20
        while not Path(crio.socket).exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        with Runtime.connect(crio.socket, deadline=0.3) as runtime, pytest.raises(RuntimeSilent):
            runtime.version()
        crio.process.send_signal(signal.SIGHUP)
        assert crio.process.wait(20) == -signal.SIGHUP
    finally:
        crio.behind.process.send_signal(signal.SIGCONT)
    crio.start()
    assert crio.log().index("Registered SIGHUP reload watcher") > 0


def test_another_minor_version_removes_all_pods_and_does_not_say_so(crio: Crio) -> None:
    crio.start()
    one = sandbox(crio)
    version = crio.base / "version"
    assert version.read_text() == '"1.37.0+unknown"'
    assert crio.end() == 0
    version.write_text('"1.37.9+unknown"')
    crio.start()
    assert known(crio.socket) == {one}, "another patch level does nothing"
    for stale in ('"1.36.9+unknown"', None):
        one = sandbox(crio)
        assert crio.end() == 0
        version.unlink() if stale is None else version.write_text(stale)
        crio.start()
        assert known(crio.behind.socket) == set()
        assert f"Removed pod sandbox: {one}" in crio.log() and "wip" not in crio.log()
        assert version.read_text() == '"1.37.0+unknown"'


def test_after_a_kill_with_a_damaged_layer_it_is_ready_and_knows_nothing(crio: Crio) -> None:
    crio.start()
    one = sandbox(crio)
    crio.restart()
    assert "unclean" not in crio.log() and known(crio.socket) == {one}
    crio.kill()
    assert not (crio.base / "clean.shutdown").exists()
    with Runtime.connect(crio.socket, deadline=5) as runtime, pytest.raises(RuntimeUnavailable):
        runtime.version()
    crio.start()
    assert f"Checking storage directory {crio.base}/storage for errors because of unclean shutdown" in crio.log()
    assert known(crio.socket) == {one}, "nothing was damaged"
    crio.kill()
    (crio.base / "storage/damaged-layer").touch()
    crio.start()
    assert known(crio.socket) == set() and known(crio.behind.socket) == {one}


def test_a_pod_whose_handler_is_gone_cannot_be_stopped(crio: Crio) -> None:
    """Shown as running, dead or not; the handler put back, and all is well."""
    drop_in = crio.drop_ins / "50-extra.conf"
    drop_in.write_text(EXTRA.format(crio.runc))
    crio.start()
    with Creator(crio.socket, crio.cgroup) as creator:
        pod = creator.sandbox("one", "default", "uid-one", handler="extra")
        container = creator.container(pod, "app", 0, IMAGE, crio.base, "/base")
        creator.start(container)
    drop_in.unlink()
    crio.restart()
    assert "Error updating the container status" in crio.log()
    with RuntimeActs.connect(crio.behind.socket, deadline=20) as acts:
        acts.stop_container(container, 0)
    with Runtime.connect(crio.socket, deadline=20) as runtime:
        assert [each.state for each in runtime.containers()] == ["running"]
        assert runtime.container_status(container).state == "running"
    with RuntimeActs.connect(crio.socket, deadline=20) as acts:
        for stop in (lambda: acts.stop_container(container, 0), lambda: acts.stop_sandbox(pod)):
            with pytest.raises(RuntimeRefused, match="failed to find runtime handler extra"):
                stop()
    drop_in.write_text(EXTRA.format(crio.runc))
    crio.restart()
    with Runtime.connect(crio.socket, deadline=20) as runtime:
        assert runtime.container_status(container).state == "exited"
    with RuntimeActs.connect(crio.socket, deadline=20) as acts:
        acts.stop_sandbox(pod)


def test_the_network_is_ready_for_ever_and_its_directory_the_old_one(crio: Crio) -> None:
    """Its inotify watch stays on the inode; a start without the configuration costs pods their addresses."""
    crio.start()
    pod = sandbox(crio, on_host=False)
    folder = crio.network.parent
    folder.rename(f"{folder}.old")
    folder.mkdir()
    (folder / "10-second.conflist").write_text(NETWORK.format("second"))
    crio.reload()
    assert "second" not in crio.log()
    (crio.base / "plugins/new").touch()
    crio.wait_for("Updated default CNI network name to second")
    (folder / "10-second.conflist").unlink()
    (crio.base / "plugins/newer").touch()
    crio.wait_for('Updated default CNI network name to "')
    assert is_network_ready(crio)
    with pytest.raises(RuntimeRefused, match="no CNI configuration file in .* Has your network provider started"):
        sandbox(crio, "new", on_host=False)
    assert sandbox(crio, "on-host")
    assert address(crio, pod) == "10.1.2.3"

    crio.restart()
    assert f"Could not restore sandbox IP for {pod}" in crio.log()
    assert not is_network_ready(crio) and address(crio, pod) == ""
    crio.network.write_text(NETWORK.format("first"))
    crio.wait_for("Updated default CNI network name to first")
    assert is_network_ready(crio) and address(crio, pod) == "", "only another restart brings it back"
    crio.restart()
    assert address(crio, pod) == "10.1.2.3"


def address(crio: Crio, pod: str) -> str:
    with Creator(crio.socket, crio.cgroup) as creator:
        status = wire.message(creator.ask("PodSandboxStatus", wire.field(1, pod)), 1)
        return wire.text(wire.message(status, 5), 1)


def test_it_is_asked_over_http_on_the_same_socket(crio: Crio) -> None:
    """And who crawls its pages, or calls `crio check`, leaves a mark."""
    crio.start()
    assert crio.page("/info")[0] == "HTTP/1.1 200 OK"
    assert crio.page("/containers/none")[0] == "HTTP/1.1 404 Not Found"
    assert crio.ctl("status", "config").stdout.strip() == crio.page("/config")[1].strip()
    assert crio.ctl("version").stdout.startswith("Version:        1.37.0")
    assert crio.marks() == []
    crio.page("/pause/x")
    assert crio.ctl("check", "--quick").returncode == 0
    assert crio.marks() == ["somebody-called-crio-check", "somebody-paused-a-container"]
    for mark in crio.marks():
        (crio.base / "marks" / mark).unlink()
