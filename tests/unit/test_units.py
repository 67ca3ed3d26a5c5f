# SPDX-License-Identifier: Apache-2.0
"""The units are valid, as confined as promised, and start what the package installs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ostreewatchd.judge.recovery.kubelet import PLEG_STALE
from ostreewatchd.remediation.recovering import LATE as LATE_LOOK

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "systemd"
WATCHER, REMEDIATION, PATH = "ostreewatchd.service", "ostreewatchd-remediate.service", "ostreewatchd-remediate.path"
LATE = "ostreewatchd-late.timer"
WANTED = "/run/ostreewatchd/wanted"

# Ten times the score, as --threshold= counts. Measured on systemd 252: 0.9 and 2.1.
HIGHEST_EXPOSURE = {WATCHER: 10, REMEDIATION: 21}

# Beyond these a unit asks for more than its work: DESIGN §4.
CAPABILITIES = {
    WATCHER: {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"},
    REMEDIATION: {"CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE"},
}

PTRACE_LIKE = {"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"}
# One of each kind of work; an allow list that lacks one shows only on a node.
NEEDED_CALLS = {
    "openat", "openat2", "statx", "newfstatat", "readlinkat", "getdents64", "inotify_init1", "inotify_add_watch",
    "poll", "epoll_wait", "epoll_pwait", "epoll_ctl", "eventfd2", "pidfd_open", "clone3", "futex", "socket",
    "connect", "getsockopt", "sendto", "recvfrom", "shutdown", "sendmsg", "recvmsg", "fsync", "fdatasync", "fcntl",
    "flock", "unlinkat", "renameat2", "timerfd_create",
    # A process that is sent where nothing may answer.
    "clone", "prctl", "wait4", "kill", "socketpair", "rt_sigprocmask",
}  # fmt: skip

analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def settings(unit: str, section: str = "Service") -> dict[str, list[str]]:
    """Each key's values in order; an empty assignment would reset them, and none is used here."""
    found: dict[str, list[str]] = {}
    current = ""
    for line in (UNITS / unit).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == section and line and line[0] not in "#;":
            key, _, value = line.partition("=")
            assert value, f"{unit}: {line}"
            found.setdefault(key, []).append(value)
    return found


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, text=True, timeout=60, check=False, capture_output=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A root folder with nothing but the units, their programs, and what systemd adds to each by itself."""
    folder = tmp_path / "usr/lib/systemd/system"
    shutil.copytree(UNITS, folder)
    for target in ("sysinit", "basic", "shutdown", "multi-user", "paths"):
        (folder / f"{target}.target").write_text("[Unit]\n")
    (folder / "system.slice").write_text("[Slice]\n")
    (folder / "-.mount").write_text("[Mount]\nWhat=x\nWhere=/\n")
    for unit in (WATCHER, REMEDIATION):
        for command in programs(unit):
            program = tmp_path / command.lstrip("/")
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
    return tmp_path


def programs(unit: str) -> list[str]:
    keys = ("ExecStart", "ExecStartPre", "ExecStopPost", "ExecReload")
    found = settings(unit)
    return [value.lstrip("-+!:@").split()[0] for key in keys for value in found.get(key, ())]


@analyze
@pytest.mark.parametrize("unit", [WATCHER, REMEDIATION, PATH, LATE])
def test_systemd_finds_no_fault(unit: str, image: Path) -> None:
    done = run("systemd-analyze", "verify", f"--root={image}", "--man=no", "--generators=no", unit)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "ostreewatchd" in line]
    assert (done.returncode, said) == (0, [])


@analyze
@pytest.mark.parametrize("unit", [WATCHER, REMEDIATION])
def test_the_sandbox_is_as_tight_as_promised(unit: str) -> None:
    threshold = f"--threshold={HIGHEST_EXPOSURE[unit]}"
    done = run("systemd-analyze", "security", "--no-pager", "--offline=true", threshold, str(UNITS / unit))
    overall = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    assert overall is not None, done.stdout + done.stderr
    assert float(overall.group(1)) <= HIGHEST_EXPOSURE[unit] / 10, done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", [WATCHER, REMEDIATION])
def test_capabilities(unit: str) -> None:
    found = settings(unit)
    assert set(" ".join(found["CapabilityBoundingSet"]).split()) == CAPABILITIES[unit]
    # Root has what its bounding set leaves; a user of its own has only what is ambient.
    ambient = set(" ".join(found.get("AmbientCapabilities", ())).split())
    assert ambient == (CAPABILITIES[unit] if "User" in found else set())


def test_only_the_watcher_has_a_user_of_its_own() -> None:
    assert settings(WATCHER)["User"] == ["ostreewatchd"]
    assert "User" not in settings(REMEDIATION)
    users = (ROOT / "packaging/systemd/sysusers.conf").read_text(encoding="utf-8")
    assert re.search(r"^u ostreewatchd - ", users, re.MULTILINE)


@analyze
@pytest.mark.parametrize("unit", [WATCHER, REMEDIATION])
def test_system_calls(unit: str) -> None:
    allowed: set[str] = set()
    for value in settings(unit)["SystemCallFilter"]:
        names = calls(value.lstrip("~").split())
        allowed = allowed - names if value.startswith("~") else allowed | names
    assert sorted(PTRACE_LIKE & allowed) == []
    assert sorted(NEEDED_CALLS - allowed) == []


def calls(names: list[str]) -> set[str]:
    found: set[str] = set()
    while names:
        name = names.pop()
        if not name.startswith("@"):
            found.add(name)
            continue
        listing = run("systemd-analyze", "syscall-filter", "--no-pager", name)
        assert listing.returncode == 0, listing.stderr
        names += [line.strip() for line in listing.stdout.splitlines()[1:] if line.strip()[:1] not in ("", "#")]
    return found


@pytest.mark.parametrize("unit", [WATCHER, REMEDIATION])
def test_what_is_mounted_below_the_root_is_read_only_too(unit: str) -> None:
    # On an OSTree host /usr, /var and /sysroot are mounts; systemd 252 with ProtectProc= leaves those writable.
    found = settings(unit)
    assert found["ProtectSystem"] == ["strict"]
    named = {path.lstrip("-") for value in found["ReadOnlyPaths"] for path in value.split()}
    assert named >= {"/proc", "/usr", "/etc", "/var", "/run", "/boot", "/sysroot"}
    # It takes /usr out of what strict covers (252): worse than nothing.
    assert "ExecPaths" not in found


def test_the_package_installs_what_the_units_start() -> None:
    spec = (ROOT / "packaging/rpm/ostreewatchd.spec").read_text(encoding="utf-8")
    for macro, value in {
        "%{_libexecdir}": "/usr/libexec",
        "%{_bindir}": "/usr/bin",
        "%{name}": "ostreewatchd",
    }.items():
        spec = spec.replace(macro, value)
    launchers = dict(re.findall(r"^launcher (/\S+) (\S+)$", spec, re.MULTILINE))
    assert launchers == {
        settings(WATCHER)["ExecStart"][0]: "ostreewatchd.watcher",
        settings(REMEDIATION)["ExecStart"][0]: "ostreewatchd.remediation",
        "/usr/bin/ostreewatchctl": "ostreewatchd.cli",
    }
    listed = re.search(r"^%global units (.*)$", spec, re.MULTILINE)
    assert listed is not None and set(listed.group(1).split()) == {path.name for path in UNITS.iterdir()}


def test_one_command_starts_it_all() -> None:
    assert settings(WATCHER, "Install") == {"WantedBy": ["multi-user.target"]}
    relations = settings(WATCHER, "Unit")
    assert relations["Wants"] == relations["After"] == [PATH]
    assert settings(PATH, "Unit")["PartOf"] == [WATCHER]
    assert settings(PATH, "Install") == settings(REMEDIATION, "Install") == settings(LATE, "Install") == {}


def test_the_wish() -> None:
    # Nothing beyond PathExists=: systemd 247 has no TriggerLimitIntervalSec=, and a key may only be ignored.
    assert settings(PATH, "Path") == {"PathExists": [WANTED]}
    watcher, remediation = settings(WATCHER), settings(REMEDIATION)
    assert watcher["RuntimeDirectory"] == [Path(WANTED).parent.name]
    assert watcher["RuntimeDirectoryPreserve"] == ["yes"]
    assert f"-{Path(WANTED).parent}" in remediation["ReadWritePaths"]
    # Before the program: one that is missing in the new tree must not be started again and again.
    assert remediation["ExecStartPre"] == [f"+-/bin/rm -rf {WANTED}"]


def test_the_ledger_is_written_by_the_remediation_alone() -> None:
    assert settings(REMEDIATION)["StateDirectory"] == ["ostreewatchd"]
    assert settings(REMEDIATION)["StateDirectoryMode"] == ["0755"]
    assert not {"StateDirectory", "ReadWritePaths"} & settings(WATCHER).keys()


def test_the_remediation_is_bounded_and_not_repeated_by_systemd() -> None:
    found = settings(REMEDIATION)
    assert found["Type"] == ["oneshot"] and found["TimeoutStartSec"] == ["15min"]
    assert "Restart" not in found
    assert found["SuccessExitStatus"] == ["1"]
    limit = settings(REMEDIATION, "Unit")
    assert int(limit["StartLimitBurst"][0]) >= 100, "a few switches in a row must not end the .path unit"


def test_the_network() -> None:
    watcher, remediation = settings(WATCHER), settings(REMEDIATION)
    assert watcher["PrivateNetwork"] == ["yes"] and watcher["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert "IPAddressDeny" not in remediation, "the API server may be anywhere"


@pytest.mark.parametrize("unit", [WATCHER, REMEDIATION])
def test_no_core_has_a_token_in_it(unit: str) -> None:
    assert settings(unit)["LimitCORE"] == ["0"]


def test_the_late_look_comes_when_it_is_due_and_can_be_ordered_again() -> None:
    timer = settings(LATE, "Timer")
    assert timer["Unit"] == [REMEDIATION] and timer["RemainAfterElapse"] == ["no"]
    (after,) = timer["OnActiveSec"]
    # It is ordered after the restart was judged, which is after the restart.
    assert PLEG_STALE < LATE_LOOK < float(after.removesuffix("s")) < 300
