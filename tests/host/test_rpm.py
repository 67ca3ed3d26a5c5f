# SPDX-License-Identifier: Apache-2.0
"""The RPM, built here and installed into a system that is thrown away: the machine's own below an overlay."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts and installs"),
    pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="rpmbuild is not installed"),
]

ROOT = Path(__file__).resolve().parents[2]
# The machine's own, because the programs are started with it.
PYTHON = "/usr/bin/python3"
LAUNCHERS = {
    "/usr/bin/ostreewatchctl": "ostreewatchctl",
    "/usr/libexec/ostreewatchd/ostreewatchd": "ostreewatchd",
    "/usr/libexec/ostreewatchd/ostreewatchd-remediate": "ostreewatchd-remediate",
}
# What making a user and the journal's catalog leave behind, on every distribution.
LEFT_BEHIND = re.compile(r"/etc/(\.pwd\.lock|g?shadow-?|passwd-?|group-?)|/var/lib/systemd/catalog/database")


class Entry(NamedTuple):
    mode: str
    owner: str
    path: str


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as it is now: somebody may be working in it."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("docs", "ostreewatchd", "packaging", "systemd"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        if (ROOT / name).exists():
            shutil.copyfile(ROOT / name, copy / name)
    return copy


def build(source: Path, out: Path, *more: str) -> Path:
    builder = source / "packaging/rpm/build.py"
    command = [sys.executable, str(builder), "--python", PYTHON, "--out", str(out), *more]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def rpm(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, tmp_path_factory.mktemp("rpm"))


@pytest.fixture(scope="module")
def newer(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, tmp_path_factory.mktemp("newer"), "--version", "99.1")


def query(package: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["rpm", "-qp", *arguments, str(package)], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def payload(rpm: Path) -> list[Entry]:
    listing = query(rpm, "--qf", "[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]")
    return [Entry(*line.split(" ", 2)) for line in listing]


@pytest.fixture(scope="module")
def python_version() -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def bundle(python_version: str) -> str:
    return f"/usr/lib/ostreewatchd/python{python_version}"


class System:
    """This machine below an overlay, in a mount namespace that lives as long as its first process.

    That one reads from a pipe of ours: whatever ends these tests ends it, and every mount with it."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        mounts = (
            "mount -t tmpfs none {0} && mkdir {0}/upper {0}/work {0}/root"
            " && mount -t overlay none -o lowerdir=/,upperdir={0}/upper,workdir={0}/work {0}/root"
            " && mount -t proc none {0}/root/proc && mount --rbind /dev {0}/root/dev"
            " && mount -t tmpfs none {0}/root/run && mount -t tmpfs none {0}/root/tmp && echo ready && exec cat"
        )
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", mounts.format(shlex.quote(str(scratch)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n", "no overlay could be mounted"

    def outside(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", f"--target={self._holder.pid}", "--mount", *command],
            env={"PATH": os.defpath + ":/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.outside("chroot", f"{self._scratch}/root", *command, **environment)

    def rpm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As the lab does: from outside, into a root. Debian's rpm warns of itself each time."""
        return self.outside("rpm", f"--root={self._scratch}/root", "--dbpath=/var/lib/test-rpm", *arguments)

    def sh(self, script: str) -> str:
        done = self.run("sh", "-euc", script)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def foreign(self) -> set[str]:
        """What is in the upper layer: everything that was ever changed and is still there."""
        find = ("find", f"{self._scratch}/upper", "-mindepth", "1", "!", "-type", "d", "!", "-type", "c", "-print")
        prefix = f"{self._scratch}/upper"
        found = {line[len(prefix) :] for line in self.outside(*find).stdout.splitlines()}
        return {path for path in found if not path.startswith("/var/lib/test-rpm/")}

    def close(self) -> None:
        assert self._holder.stdin is not None and self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait(timeout=30)
        self._holder.stdout.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path)
    yield system
    system.close()


@pytest.fixture(scope="module")
def installed(rpm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Shared by tests that only look."""
    system = System(tmp_path_factory.mktemp("installed"))
    install(system, rpm)
    yield system
    system.close()


def install(system: System, package: Path, *how: str) -> None:
    done = system.rpm(*(how or ("-i",)), "--nodeps", str(package))
    complaints = [line for line in done.stderr.splitlines() if re.search(r"(?i)error|warning|fail", line)]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_the_last_line_is_the_package(rpm: Path, python_version: str) -> None:
    assert rpm.is_file()
    assert f".py{python_version.replace('.', '')}." in rpm.name


def test_the_same_source_gives_the_same_bytes(source: Path, rpm: Path, tmp_path: Path) -> None:
    assert build(source, tmp_path).read_bytes() == rpm.read_bytes()


def test_payload(payload: list[Entry], bundle: str) -> None:
    outside = {entry.path for entry in payload if not entry.path.startswith((f"{bundle}/", "/usr/share/licenses/"))}
    units = {f"/usr/lib/systemd/system/{path.name}" for path in (ROOT / "systemd").iterdir()}
    required = {
        *LAUNCHERS,
        *units,
        bundle,
        "/etc/ostreewatchd",
        "/etc/ostreewatchd/ostreewatchd.conf.d",
        "/usr/lib/ostreewatchd",
        "/usr/lib/ostreewatchd/ostreewatchd.conf",
        "/usr/lib/systemd/catalog/ostreewatchd.catalog",
        "/usr/lib/systemd/system-preset/90-ostreewatchd.preset",
        "/usr/lib/sysusers.d/ostreewatchd.conf",
        "/usr/libexec/ostreewatchd",
    }
    documents = {
        "README.md",
        "docs",
        *(f"docs/{name}" for name in ("design.md", "recovery.md", "rules.md", "snapshot.md", "snapshot.schema.json")),
    }
    folder = "/usr/share/doc/ostreewatchd"
    assert outside == required | {folder} | {f"{folder}/{name}" for name in documents}


def test_the_readme_leads_nowhere_that_is_not_installed(payload: list[Entry]) -> None:
    """Of the documents that it links to; a developer's own are not for a host."""
    links = re.findall(r"]\((docs/[^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    installed = {entry.path for entry in payload}
    assert {f"/usr/share/doc/ostreewatchd/{link}" for link in links} <= installed


def test_the_whole_package_is_in_it(source: Path, payload: list[Entry], bundle: str) -> None:
    inside = {entry.path for entry in payload}
    sources = {path.relative_to(source).as_posix() for path in (source / "ostreewatchd").rglob("*.py")}
    assert {f"{bundle}/{path}" for path in sources} <= inside
    assert not [path for path in inside if path.endswith((".pyx", ".c", ".h", ".pyi")) or "/tests/" in path]


def test_nothing_lies_in_var_and_etc_is_empty(payload: list[Entry]) -> None:
    # On an OSTree host /var is not part of an image, and /etc is the administrator's.
    assert [entry for entry in payload if entry.path.startswith(("/var", "/run", "/home", "/opt"))] == []
    assert [entry for entry in payload if entry.path.startswith("/etc") and not entry.mode.startswith("d")] == []


def test_owners_and_modes(payload: list[Entry]) -> None:
    def expected(entry: Entry) -> str:
        if entry.mode.startswith("d"):
            return "drwxr-xr-x"
        return "-rwxr-xr-x" if entry.path in LAUNCHERS or entry.path.endswith(".so") else "-rw-r--r--"

    wrong = [entry for entry in payload if entry.owner != "root:root" or entry.mode != expected(entry)]
    assert wrong == []


def test_requires(rpm: Path, python_version: str) -> None:
    requires = query(rpm, "--requires")
    assert f"python(abi) = {python_version}" in requires
    assert f"/usr/bin/python{python_version}" in requires
    assert any(line.startswith("libsystemd.so.0(") for line in requires)
    assert "systemd" in requires


def test_provides_name_each_bundled_library(rpm: Path, python_version: str) -> None:
    lock = ROOT / "packaging/requirements" / ("py39.txt" if python_version == "3.9" else "py3.txt")
    locked = dict(re.findall(r"^(\S+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE))
    del locked["psutil"]  # Left out: nothing that is kept imports it.
    provides = query(rpm, "--provides")
    found = dict(re.findall(r"bundled\(python3dist\((\S+)\)\) = (\S+)", "\n".join(provides)))
    assert found == locked
    own = [line for line in provides if not line.startswith("bundled(")]
    assert all(line.startswith("ostreewatchd") for line in own), own


def test_each_bundled_library_has_its_licence(payload: list[Entry], rpm: Path) -> None:
    libraries = re.findall(r"python3dist\(([^)]+)\)", "\n".join(query(rpm, "--provides")))
    folder = "/usr/share/licenses/ostreewatchd/"
    names = (entry.path[len(folder) :] for entry in payload if entry.path.startswith(folder))
    texts = {name.split("/")[0] for name in names if "/" in name}
    assert {name.replace("-", "_") for name in libraries} == texts
    assert "/usr/share/licenses/ostreewatchd/LICENSE" in query(rpm, "--licensefiles")


def test_rpmlint(source: Path, rpm: Path) -> None:
    if shutil.which("rpmlint") is None:
        pytest.skip("rpmlint is not installed")
    config, spec = source / "packaging/rpm/rpmlint.toml", source / "packaging/rpm/ostreewatchd.spec"
    done = subprocess.run(
        ["rpmlint", "--config", str(config), str(rpm), str(spec)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert re.search(r" 0 errors, 0 warnings", done.stdout), done.stdout + done.stderr


def test_a_wrong_python_fails_at_install(fresh: System, rpm: Path, python_version: str) -> None:
    done = fresh.rpm("-i", str(rpm))
    assert done.returncode != 0
    assert f"python(abi) = {python_version} is needed by ostreewatchd" in done.stderr
    assert fresh.foreign() == set()


def test_install(installed: System, payload: list[Entry]) -> None:
    files = {entry.path for entry in payload if not entry.mode.startswith("d")}
    foreign = {path for path in installed.foreign() - files if not LEFT_BEHIND.fullmatch(path)}
    assert foreign == set()
    verified = installed.rpm("-V", "--nodeps", "ostreewatchd")
    assert (verified.returncode, verified.stdout) == (0, "")


def test_install_makes_the_user_and_enables_nothing(installed: System) -> None:
    assert re.match(r"ostreewatchd:x:\d+:\d+:.*:/usr/sbin/nologin", installed.sh("getent passwd ostreewatchd"))
    assert installed.run("systemctl", "is-enabled", "ostreewatchd.service").stdout.strip() == "disabled"
    preset = installed.run("systemctl", "preset", "ostreewatchd.service")
    assert preset.returncode == 0
    assert installed.run("systemctl", "is-enabled", "ostreewatchd.service").stdout.strip() == "disabled"


def test_install_brings_the_catalog(installed: System) -> None:
    source = (ROOT / "packaging/journal/ostreewatchd.catalog").read_text(encoding="utf-8")
    kinds = re.findall(r"^-- ([0-9a-f]{32})$", source, re.MULTILINE)
    known = installed.sh("journalctl --list-catalog 2>/dev/null || journalctl --list-catalog")
    assert kinds and [kind for kind in kinds if kind not in known] == []


@pytest.mark.parametrize("program", LAUNCHERS)
def test_programs_start_whatever_the_environment(program: str, installed: System) -> None:
    evil = "import os; os._exit(99)"
    folders = "/tmp/evil/ostreewatchd /tmp/evil/.local/lib/python3/site-packages"
    installed.sh(
        f"mkdir -p {folders}; for name in sitecustomize usercustomize argparse ostreewatchd/__init__; do"
        f" echo '{evil}' > /tmp/evil/$name.py; done; cp /tmp/evil/argparse.py /tmp/evil/msgspec.py"
    )
    done = installed.run(
        "env", "-C", "/tmp/evil", program, "--version",
        HOME="/tmp/evil", PYTHONPATH="/tmp/evil", PYTHONHOME="/tmp/evil", PYTHONUSERBASE="/tmp/evil/.local",
        PYTHONINSPECT="1", PYTHONWARNINGS="error", PYTHONSTARTUP="/tmp/evil/argparse.py",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\S*\n", done.stdout)


def test_programs_use_nothing_but_the_bundle(installed: System, bundle: str) -> None:
    # -S: not even the system's own site-packages, where another protobuf may lie.
    code = "import sys; print('\\n'.join(sys.path))"
    interpreter = installed.sh("head -1 /usr/bin/ostreewatchctl").strip()
    assert re.fullmatch(r"#!/usr/bin/python3\.\d+ -ISB", interpreter)
    listed = installed.sh(f"{interpreter[2:]} -c {shlex.quote(code)}").split()
    assert not [path for path in listed if "packages" in path]
    for program in LAUNCHERS:
        assert f'sys.path.append("{bundle}")' in installed.sh(f"cat {program}")


def test_libraries_and_programs_import_without_a_warning(installed: System, bundle: str) -> None:
    code = (
        f"import sys; sys.path.append({bundle!r})\n"
        "import dbus_next.aio.message_bus, grpc, inotify_simple, msgspec, yaml, google.protobuf.message\n"
        "import pystemd.dbuslib\n"
        "from pystemd.systemd1 import Manager, Unit\n"
        "import ostreewatchd.watcher, ostreewatchd.remediation, ostreewatchd.cli\n"
        "foreign = [m.__file__ for m in sys.modules.values() if 'dist-packages' in str(getattr(m, '__file__', ''))]\n"
        "assert not foreign, foreign\n"
        "assert 'lxml.objectify' not in sys.modules and 'psutil' not in sys.modules\n"
    )
    done = installed.run(os.path.realpath(PYTHON), "-ISB", "-W", "error", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_compiled_files_hold_when_ostree_sets_time_to_zero(installed: System, bundle: str) -> None:
    # Flags 1 in a .pyc (PEP 552): go by a hash, and do not check it.
    code = (
        f"import pathlib, sys\n"
        f"for source in pathlib.Path({bundle!r}).rglob('*.py'):\n"
        f"    made = source.parent / '__pycache__' / f'{{source.stem}}.{{sys.implementation.cache_tag}}.pyc'\n"
        f"    if not made.exists() or made.read_bytes()[4:8] != b'\\1\\0\\0\\0': print(source)\n"
    )
    assert installed.sh(f"{PYTHON} -ISB -c {shlex.quote(code)}") == ""


def test_nothing_of_the_build_machine_is_in_it(installed: System, bundle: str) -> None:
    traces = [f"{Path.home()}/.", str(ROOT), "ostreewatchd-rpm-", ".new-", sys.base_exec_prefix + "/include"]
    patterns = " ".join(f"-e {shlex.quote(trace)}" for trace in traces)
    assert installed.sh(f"grep -rlF {patterns} {bundle} /usr/libexec/ostreewatchd /usr/bin/ostreewatchctl || :") == ""
    assert installed.sh(f"find {bundle} -name '*.so' -exec readelf -d {{}} + | grep -E 'R(UN)?PATH' || :") == ""


def test_upgrade_and_erase(fresh: System, rpm: Path, newer: Path, bundle: str) -> None:
    install(fresh, rpm)
    fresh.sh(
        "systemctl enable ostreewatchd.service 2>/dev/null"
        " && echo '[ostreewatchd]' > /etc/ostreewatchd/ostreewatchd.conf.d/50-site.conf"
    )
    before = fresh.foreign()
    install(fresh, newer, "-U")
    assert fresh.rpm("-q", "--qf", "%{VERSION}", "ostreewatchd").stdout == "99.1"
    assert fresh.foreign() == before
    assert fresh.run("systemctl", "is-enabled", "ostreewatchd.service").stdout.strip() == "enabled"
    assert fresh.run("/usr/bin/ostreewatchctl", "--version").returncode == 0

    done = fresh.rpm("-e", "ostreewatchd")
    assert done.returncode == 0, done.stderr
    left = {path for path in fresh.foreign() if not LEFT_BEHIND.fullmatch(path)}
    assert left == {"/etc/ostreewatchd/ostreewatchd.conf.d/50-site.conf"}
    assert fresh.run("test", "-e", bundle).returncode == 1
