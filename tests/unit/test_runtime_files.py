# SPDX-License-Identifier: Apache-2.0
"""Configuration of container runtimes: what its files say, of which a start would end, and what a running containerd
has otherwise. Expected values are crio.conf.d(5)'s, containerd's documentation, and containerd 1.6's own answer."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.observe import configfiles, runtimes
from ostreewatchd.observe.configfiles import Moved
from ostreewatchd.observe.contents import Contents, since
from ostreewatchd.parse import maps, runtimeconfig, toml
from ostreewatchd.parse.flags import flags
from ostreewatchd.parse.mountinfo import MountTable, parse
from ostreewatchd.peers.paths import Root

CRI = "io.containerd.grpc.v1.cri"
RUNNING = {
    # As containerd 1.6.20 answers, shortened.
    "containerd": {
        "snapshotter": "overlayfs",
        "defaultRuntimeName": "runc",
        "runtimes": {
            "runc": {"runtimeType": "io.containerd.runc.v2", "runtimePath": "", "options": {"BinaryName": ""}},
        },
    },
    "cni": {"binDir": "/opt/cni/bin", "confDir": "/etc/cni/net.d"},
    "sandboxImage": "registry.k8s.io/pause:3.6",
    "restrictOOMScoreAdj": True,
}  # fmt: skip
SAID = json.dumps(RUNNING)


def table(text: str) -> dict[str, Any]:
    return toml.decode(text.encode())


def cri(text: str) -> dict[str, Any]:
    return table("version = 2\n" + text.replace("CRI", f'plugins."{CRI}"'))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    with Root(str(tmp_path)) as one:
        yield one


def write(folder: Path, path: str, text: str) -> None:
    file = folder / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# --- TOML ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"a = 1\nb =\n", 2), (b"a = [", 1), (b"a = 1\nb = '\xff'", 2), (b"a = 1\na = 2\n", 2), (b"x" * (1 << 20), 0)],
)
def test_what_is_malformed_names_its_line(data: bytes, line: int) -> None:
    with pytest.raises(toml.TomlError) as caught:
        toml.decode(data)
    assert caught.value.line == line and "\n" not in str(caught.value)


@given(st.one_of(st.binary(max_size=200), st.text(alphabet="a=[]{}\"'\n.#1", max_size=200).map(str.encode)))
def test_any_bytes_are_a_table_or_an_error(data: bytes) -> None:
    try:
        found = toml.decode(data)
    except toml.TomlError:
        return
    for read in (runtimeconfig.crio, runtimeconfig.containerd):
        read([found])
    runtimeconfig.running_containerd(SAID, [found])
    runtimeconfig.other_settings(SAID, found)


def test_nested_without_end() -> None:
    with pytest.raises(toml.TomlError):
        toml.decode(b"a = " + b"[" * 50_000)


# --- CRI-O --------------------------------------------------------------------------------------------------------


def test_a_later_file_wins_and_crun_is_built_in() -> None:
    first = table('[crio.runtime]\ndefault_runtime = "runc"\n[crio.runtime.runtimes.runc]\nruntime_path = "/a"')
    later = table('[crio.runtime.runtimes.runc]\nruntime_path = "/b"\nruntime_root = "/r"\nmonitor_path = "/m"')
    found = runtimeconfig.crio([first, later])
    assert found.default == "runc"
    assert [(one.name, one.path, one.root) for one in found.handlers] == [("crun", "", ""), ("runc", "/b", "/r")]
    assert found.handlers[1].rest and found.handlers[1].rest != runtimeconfig.crio([first]).handlers[1].rest


def test_each_file_below_the_directory_is_read_whatever_its_name(tmp_path: Path, root: Root) -> None:
    """Measured with CRI-O 1.37: an editor's swap file ended the start."""
    write(tmp_path, "/etc/crio/crio.conf", "[crio]\n")
    write(tmp_path, "/etc/crio/crio.conf.d/10-a", "[crio.runtime.runtimes.kata]\nruntime_path = '/k'\n")
    write(tmp_path, "/etc/crio/crio.conf.d/deep/er/x.bak", "[crio]\n")
    write(tmp_path, "/etc/crio/crio.conf.d/.60.conf.swp", "a = 1\nb")
    read = configfiles.crio(root, "/etc/crio/crio.conf", "/etc/crio/crio.conf.d", Moved(None))
    assert [one.file.path.removeprefix("/etc/crio/crio.conf") for one in read] == [
        "", ".d", ".d/.60.conf.swp", ".d/10-a", ".d/deep/er/x.bak",
    ]  # fmt: skip
    assert [one.file.path for one in read if one.file.problem] == ["/etc/crio/crio.conf.d/.60.conf.swp"]
    assert "line 2" in read[2].file.problem
    assert all(abs(time.time() - (one.file.changed_at or 0)) < 60 for one in read)


def test_there_are_none(root: Root) -> None:
    assert configfiles.crio(root, "/etc/crio/crio.conf", "/etc/crio/crio.conf.d", Moved(None)) == []
    assert configfiles.containerd(root, "/etc/containerd/config.toml", Moved(None)) == []


def test_a_drop_in_that_was_removed_is_told_by_its_directory(tmp_path: Path, root: Root) -> None:
    write(tmp_path, "/etc/crio/crio.conf.d/50-kata", "")
    os.utime(tmp_path / "etc/crio/crio.conf.d", (1000, 1000))
    (tmp_path / "etc/crio/crio.conf.d/50-kata").unlink()
    (one,) = configfiles.crio(root, "/etc/crio/crio.conf", "/etc/crio/crio.conf.d", Moved(None))
    assert abs(time.time() - (one.file.changed_at or 0)) < 60


def test_a_file_of_another_tree_is_as_old_as_the_switch(tmp_path: Path, root: Root) -> None:
    write(tmp_path, "/etc/crio/crio.conf", "")
    write(tmp_path, "/var/crio.conf", "")
    later = time.time() + 500
    file = configfiles.timed(root, "/etc/crio/crio.conf", "runtime", Moved(later))
    assert file is not None and (file.changed_at, file.other_tree) == (later, True)
    file = configfiles.timed(root, "/var/crio.conf", "runtime", Moved(later))
    assert file is not None and file.changed_at != later and not file.other_tree


def test_a_stamp_that_is_yet_to_come_tells_nothing(tmp_path: Path, root: Root) -> None:
    """A hardware clock in local time, set right after the file was written: it only looks newer than a process."""
    write(tmp_path, "/etc/crio/crio.conf", "")
    os.utime(tmp_path / "etc/crio/crio.conf", (time.time() + 7200,) * 2)
    file = configfiles.timed(root, "/etc/crio/crio.conf", "runtime", Moved(None))
    assert file is not None and file.changed_at is None
    write(tmp_path, "/etc/systemd/system/crio.service", "")
    os.utime(tmp_path / "etc/systemd/system/crio.service", (time.time() + 7200,) * 2)
    assert unit_changed_at(root, "/etc/systemd/system/crio.service") is None


def unit_changed_at(root: Root, *files: str) -> Optional[float]:
    seen: Any = SimpleNamespace(host=SimpleNamespace(root=root), moved=Moved(None))
    loaded: Any = SimpleNamespace(files=files)
    return runtimes._unit_changed_at(seen, loaded)


@pytest.mark.parametrize(
    "path",
    [
        "/run/systemd/generator/crio.service.d/x.conf",
        "/run/systemd/generator.late/kubelet.service",
        "/etc/systemd/system.control/crio.service.d/50-CPUWeight.conf",
        "/run/systemd/system.control/crio.service.d/50-AllowedCPUs.conf",
    ],
)
def test_what_a_generator_or_set_property_writes_is_no_change(tmp_path: Path, root: Root, path: str) -> None:
    """Each daemon-reload makes the first anew, and the others are in effect at once: a runtime that is well would be
    restarted for them."""
    mine = "/etc/systemd/system/crio.service.d/10-mine.conf"
    write(tmp_path, path, "")
    write(tmp_path, mine, "")
    assert unit_changed_at(root, path) is None
    assert unit_changed_at(root, path, mine) == root.what(mine).changed_at


def test_only_a_checkout_has_the_same_inode_for_the_same_content() -> None:
    """Of composefs a library that is what it was may have another number in `maps` than by its path."""
    checkout = b"60 1 253:0 /ostree/deploy/a/deploy/b.0 / rw - xfs /dev/vda4 rw"
    composefs = b"60 1 0:35 / / ro - overlay composefs ro,lowerdir+=/run/ostree/.private/cfsroot-lower,metacopy=on"
    assert runtimes._is_checkout(MountTable(parse(checkout)))
    assert not runtimes._is_checkout(MountTable(parse(composefs)))


# --- containerd ---------------------------------------------------------------------------------------------------


def test_imports_are_read_once_and_laid_over(tmp_path: Path, root: Root) -> None:
    write(tmp_path, "/etc/containerd/config.toml", 'version = 2\nimports = ["conf.d/*.toml", "/x/y.toml", "none"]\n')
    write(tmp_path, "/etc/containerd/conf.d/a.toml", f'[plugins."{CRI}".containerd.runtimes.kata]\nruntime_type = "k"')
    write(tmp_path, "/etc/containerd/conf.d/b.txt", "malformed")
    write(tmp_path, "/x/y.toml", f'[plugins."{CRI}".containerd]\ndefault_runtime_name = "kata"')
    read = configfiles.containerd(root, "/etc/containerd/config.toml", Moved(None))
    assert [one.file.path for one in read] == [
        "/etc/containerd/config.toml", "/etc/containerd/conf.d", "/etc/containerd/conf.d/a.toml", "/x/y.toml",
    ]  # fmt: skip
    found = runtimeconfig.containerd([one.table for one in read if one.table is not None])
    assert ([one.name for one in found.handlers], found.default) == (["kata", "runc"], "kata")


def test_the_running_one_has_what_the_files_say() -> None:
    file = cri('[CRI.containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"')
    mine, theirs = runtimeconfig.containerd([file]), runtimeconfig.running_containerd(SAID, [file])
    assert mine == theirs
    assert runtimeconfig.containerd([]) == runtimeconfig.running_containerd(SAID, []), "the default is runc"


@pytest.mark.parametrize(
    "text",
    [
        '[CRI.containerd.runtimes.kata]\nruntime_type = "k"',
        '[CRI.containerd.runtimes.runc]\nruntime_type = "other"',
        "[CRI.containerd.runtimes.runc.options]\nSystemdCgroup = true\nBinaryName = '/x'",
        '[CRI.containerd]\ndefault_runtime_name = "kata"',
    ],
)
def test_the_running_one_has_other_handlers(text: str) -> None:
    file = cri(text)
    assert runtimeconfig.containerd([file]) != runtimeconfig.running_containerd(SAID, [file])


def test_a_running_one_that_says_nothing() -> None:
    for text in ("", "{", "[]", "null", '{"containerd": 1}', "[" * 100_000):
        assert runtimeconfig.running_containerd(text, []) is None


@pytest.mark.parametrize(
    ("text", "settings", "partly"),
    [
        ('[CRI]\nsandbox_image = "registry.k8s.io/pause:3.6"\nrestrict_oom_score_adj = true', (), False),
        ('[CRI]\nsandbox_image = "x"', ("sandbox_image",), False),
        ('[CRI.cni]\nconf_dir = "/x"', ("cni.conf_dir",), False),
        ("[CRI]\nnew_setting = 1", (), True),
        ('root = "/x"', (), True),
        ('[plugins."io.containerd.snapshotter.v1.overlayfs"]\nx = 1', (), True),
        ('[CRI.containerd.runtimes.kata]\nruntime_type = "k"', (), False),
    ],
)
def test_settings_that_the_running_one_has_otherwise(text: str, settings: tuple[str, ...], partly: bool) -> None:
    assert runtimeconfig.other_settings(SAID, cri(text)) == (settings, partly)


# --- programs -----------------------------------------------------------------------------------------------------


def test_what_this_process_executes_is_what_is_there() -> None:
    with Root("/") as host:
        assert [one.path for one in Contents().programs(os.getpid(), host, in_ostree=True) if one.same is False] == []


def test_a_program_that_was_replaced(tmp_path: Path) -> None:
    """By the same content under another inode it was not; by another content it was, without any "(deleted)"."""
    link = os.path.realpath(sys.executable)
    there = tmp_path / link.lstrip("/")
    there.parent.mkdir(parents=True)
    there.write_bytes(Path(link).read_bytes())
    with Root(str(tmp_path)) as other:
        contents = Contents()
        itself = next(one for one in contents.programs(os.getpid(), other, in_ostree=False) if one.role == "itself")
        assert (itself.path, itself.same) == (link, True)
        there.write_bytes(b"another")
        itself = next(one for one in contents.programs(os.getpid(), other, in_ostree=False) if one.role == "itself")
        assert itself.same is False and itself.changed_at is not None
        there.unlink()
        itself = next(one for one in contents.programs(os.getpid(), other, in_ostree=False) if one.role == "itself")
        assert itself.same is None, "where nothing is, nothing is known"


def test_a_time_below_usr_is_no_link_count(tmp_path: Path, root: Root) -> None:
    """Each deployment makes one more link to the same file, which changes its ctime (link(2))."""
    write(tmp_path, "/usr/lib/x", "")
    file = tmp_path / "usr/lib/x"
    os.utime(file, (0, 0))
    before = root.what("/usr/lib/x")
    time.sleep(0.05)
    os.link(file, tmp_path / "usr/lib/y")
    after = root.what("/usr/lib/x")
    assert after.changed_at > before.changed_at
    assert since("/usr/lib/x", after) == since("/lib/x", after) == before.born_at
    assert since("/etc/x", after) == before.born_at, "nor is a mode or a label another content"
    unborn = after._replace(born_at=None)
    assert (since("/usr/lib/x", unborn), since("/etc/x", unborn)) == (None, after.changed_at)


def test_executable_mappings() -> None:
    text = (
        b"55d0-55d1 r--p 00000000 fd:00 18500 /usr/bin/crio\n"
        b"55d1-55d2 r-xp 00001000 fd:00 18500 /usr/bin/crio\n"
        b"7f00-7f01 r-xp 00000000 fd:00 7 /usr/lib/a b.so (deleted)\n"
        b"7f01-7f02 r-xp 00000000 00:00 0 \n"
        b"7ffc-7ffd r-xp 00000000 00:00 0 [vdso]\n"
    )
    assert [(one.path, one.ino, one.range, one.deleted) for one in maps.executed(text)] == [
        ("/usr/bin/crio", 18500, "55d1-55d2", False), ("/usr/lib/a b.so", 7, "7f00-7f01", True),
    ]  # fmt: skip


def test_flags() -> None:
    words = ["kubelet", "--config=/a", "--node-ip", "::1", "-c", "/x", "--v", "--fail", "word", "-", "--"]
    assert flags(words) == {"config": "/a", "node-ip": "::1", "c": "/x", "v": "", "fail": "word"}
