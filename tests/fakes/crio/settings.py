# SPDX-License-Identifier: Apache-2.0
"""CRI-O's configuration: built-in defaults, crio.conf, then every file below crio.conf.d, then the command line.

Sources: crio.conf(5), crio.conf.d(5), cri-o pkg/config/config.go. Measured: every file below crio.conf.d is parsed,
recursively and whatever its name (an editor's `.60.conf.swp` was fatal); an unknown key is ignored without a word;
a default_runtime without a table ends `crio config` with status 1, a path that does not exist does not: only the
start (for the default handler) or a warning (for any other) tells of that one."""

from __future__ import annotations

import copy
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

Config = dict[str, Any]

BUILT_IN: Config = {
    "crio": {
        "root": "/var/lib/containers/storage",
        "runroot": "/run/containers/storage",
        "storage_driver": "overlay",
        "log_dir": "/var/log/crio/pods",
        "version_file": "/var/run/crio/version",
        "version_file_persist": "",
        "clean_shutdown_file": "/var/lib/crio/clean.shutdown",
        "internal_wipe": True,
        "internal_repair": True,
        "api": {"listen": "/var/run/crio/crio.sock", "stream_address": "127.0.0.1", "stream_port": "0"},
        "runtime": {
            "default_runtime": "crun",
            "conmon": "",
            "conmon_cgroup": "",
            "cgroup_manager": "systemd",
            "log_level": "info",
            "log_filter": "",
            "seccomp_profile": "",
            "apparmor_profile": "crio-default",
            "hooks_dir": ["/usr/share/containers/oci/hooks.d"],
            # Measured: crun is a handler without being configured.
            "runtimes": {"crun": {"runtime_path": "", "runtime_type": "oci", "runtime_root": "/run/crun"}},
        },
        "image": {"pause_image": "registry.k8s.io/pause:3.10.1", "pinned_images": []},
        "network": {"network_dir": "/etc/cni/net.d/", "plugin_dirs": ["/opt/cni/bin/"]},
        "metrics": {"enable_metrics": False, "metrics_port": 9090},
    }
}
HANDLER: Config = {"runtime_path": "", "runtime_type": "oci", "runtime_root": "", "allowed_annotations": []}


class BadConfig(Exception):
    """In CRI-O's own words."""


@dataclass(frozen=True)
class Files:
    """Where it is read from."""

    main: Path = Path("/etc/crio/crio.conf")
    drop_ins: Path = Path("/etc/crio/crio.conf.d")

    def read(self) -> Config:
        """Raises BadConfig, which names the file and its line."""
        config = copy.deepcopy(BUILT_IN)
        if self.main.is_file():
            _add(config, self.main, "update config from file")
        for folder, folders, names in os.walk(self.drop_ins):
            folders.sort()
            for name in sorted(names):
                _add(config, Path(folder, name), "update config from path: walk path")
        return config


def with_flags(config: Config, flags: Config) -> Config:
    """What the command line sets comes last."""
    changed = copy.deepcopy(config)
    changed["crio"]["runtime"].update(flags)
    return changed


def runtime(config: Config) -> Config:
    return dict(config["crio"]["runtime"])


def check_default(config: Config) -> None:
    """Raises BadConfig."""
    name = runtime(config)["default_runtime"]
    if name not in runtime(config)["runtimes"]:
        raise BadConfig(f'default_runtime set to "{name}", but no runtime entry was found')


def drop_broken(config: Config) -> list[str]:
    """Takes handlers away whose program is missing, as both start and reload do in place; what is to be warned of.
    Raises BadConfig when it is the default one's: measured, and the reload has changed what it shows by then."""
    check_default(config)
    warnings = []
    runtimes = config["crio"]["runtime"]["runtimes"]
    for name in sorted(runtimes):
        path = runtimes[name]["runtime_path"] or shutil.which(name) or ""
        if os.path.isfile(path):
            continue
        problem = f"invalid runtime_path for runtime '{name}': \"stat {path}: no such file or directory\""
        if name == runtime(config)["default_runtime"]:
            raise BadConfig(problem)
        warnings.append(f'Runtime handler "{name}" is being ignored due to: {problem}')
        del runtimes[name]
    return warnings


def to_toml(config: Config, prefix: str = "") -> str:
    """As `crio config` and GET /config print it."""
    lines = [f"{name} = {_value(value)}" for name, value in config.items() if not isinstance(value, dict)]
    parts = ["\n".join(lines)] if lines else []
    for name, value in config.items():
        if isinstance(value, dict):
            table = f"{prefix}.{name}" if prefix else name
            parts.append(f"[{table}]\n{to_toml(value, table)}")
    return "\n\n".join(parts)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_value(each) for each in value)}]"
    return str(value) if isinstance(value, int) else '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _add(config: Config, path: Path, doing: str) -> None:
    try:
        read = tomllib.loads(path.read_bytes().decode())
    except UnicodeDecodeError:
        raise BadConfig(f"{doing}: unable to decode configuration {path}: toml: line 1: invalid UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"^(.*) \(at line (\d+)|(.*)", str(error))
        what = (found.group(1) or found.group(3)) if found else str(error)
        line = found.group(2) if found and found.group(2) else str(path.read_text().count("\n") + 1)
        raise BadConfig(f"{doing}: unable to decode configuration {path}: toml: line {line}: {what}") from None
    _merge(config, read, BUILT_IN, f"{doing}: unable to decode configuration {path}")


def _merge(into: Config, read: Config, known: Config, doing: str) -> None:
    for name, value in read.items():
        if name not in known:
            continue  # An unknown key is no error.
        if not isinstance(value, type(known[name])):
            raise BadConfig(f"{doing}: incompatible types: TOML value has type {type(value).__name__}")
        if name == "runtimes":
            for handler, table in value.items():
                into[name][handler] = {**HANDLER, **table}
        elif isinstance(value, dict):
            _merge(into[name], value, known[name], doing)
        else:
            into[name] = value
