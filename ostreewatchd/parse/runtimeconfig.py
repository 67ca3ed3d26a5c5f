# SPDX-License-Identifier: Apache-2.0
"""What the container runtimes' configuration files say of handlers, and how that compares with what a running
containerd says of its own.

CRI-O displays what it has read since its start, so what it says is not asked. containerd reads its files once, and
answers Status with what it has made of them: what the files say is compared with that, setting by setting. Of what
the files do not say, the default is not known, so it is not compared.

Sources: crio.conf(5), crio.conf.d(5), cri-o pkg/config; containerd docs/cri/config.md, pkg/cri/config (the answer has
the names of the files in another spelling), docs/man/containerd-config.toml.5.md (imports)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ostreewatchd.model import Handler

Table = Mapping[str, Any]
_CRI_PLUGINS = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "cri")
_NOT_COMPARED = "?"
_MAX_SETTINGS = 50
_MAX_HANDLERS = 200
_DEFAULT = "runc"
"""containerd has it, and takes it, where no file says otherwise."""


class Config(NamedTuple):
    """What all files together say."""

    handlers: tuple[Handler, ...] = ()
    default: str = ""
    """Empty: none says."""


def crio(files: Sequence[Table]) -> Config:
    """In the order in which CRI-O reads them: a later file's handler takes the place of an earlier one's."""
    handlers: dict[str, Handler] = {}
    default = ""
    for file in files:
        runtime = _table(_table(file, "crio"), "runtime")
        said = runtime.get("default_runtime")
        default = said if isinstance(said, str) else default
        for name, one in _table(runtime, "runtimes").items():
            if isinstance(one, dict) and len(handlers) < _MAX_HANDLERS:
                rest = {key: value for key, value in one.items() if key not in ("runtime_path", "runtime_root")}
                handlers[name] = Handler(
                    name=name, path=_text(one, "runtime_path"), root=_text(one, "runtime_root"), rest=_digest(rest)
                )
    # Built in; and what is built in has its path from $PATH.
    handlers.setdefault("crun", Handler(name="crun"))
    return Config(tuple(handlers[name] for name in sorted(handlers)), default)


def containerd(files: Sequence[Table]) -> Config:
    """An imported file's table is laid over the one that imports it."""
    merged = _cri(files)
    found = _handlers(merged)
    found.setdefault(_DEFAULT, {})
    return Config(
        tuple(_handler(name, found[name]) for name in sorted(found)),
        _text(_table(merged, "containerd"), "default_runtime_name") or _DEFAULT,
    )


def running_containerd(text: str, files: Sequence[Table]) -> Optional[Config]:
    """What a running one has, from its own words (`config` of Status), in the spelling of the files and without what
    they do not say. None: the words say nothing of handlers."""
    said = _json(text)
    has = said.get("containerd")
    if not isinstance(has, dict) or not isinstance(has.get("runtimes"), dict):
        return None
    mine, found = _handlers(_cri(files)), []
    for name, one in sorted(has["runtimes"].items())[:_MAX_HANDLERS]:
        found.append(_handler(name, _as_said(mine.get(name, {}), one if isinstance(one, dict) else {})))
    default = _find(has, "default_runtime_name")
    return Config(tuple(found), default if isinstance(default, str) else "")


def other_settings(text: str, file: Table) -> tuple[tuple[str, ...], bool]:
    """The settings that one file says and a running containerd has otherwise; and whether it says some of which the
    running one says nothing."""
    said = _json(text)
    others: list[str] = []
    partly = any(key not in ("version", "imports", "plugins") for key in file)
    for name, table in _table(file, "plugins").items():
        if name not in _CRI_PLUGINS or not isinstance(table, dict):
            partly = True
            continue
        for setting, wanted, has in _pairs(table, said):
            if has == _NOT_COMPARED:
                partly = True
            elif wanted != has and len(others) < _MAX_SETTINGS:
                others.append(setting)
    return tuple(others), partly


def _pairs(mine: Table, theirs: Table, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each setting with its two values; handlers apart, which are compared as such."""
    for key, value in mine.items():
        name = f"{prefix}{key}"
        if name in ("containerd.runtimes", "containerd.default_runtime_name"):
            continue
        other = _find(theirs, key)
        if isinstance(value, dict) and isinstance(other, dict):
            yield from _pairs(value, other, f"{name}.")
        else:
            yield name, value, other


def _cri(files: Sequence[Table]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for file in files:
        for name, table in _table(file, "plugins").items():
            if name in _CRI_PLUGINS and isinstance(table, dict):
                _lay_over(merged, table)
    return merged


def _lay_over(below: dict[str, Any], above: Table) -> None:
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            _lay_over(old, value)
        elif isinstance(value, dict):
            below[key] = {}
            _lay_over(below[key], value)
        else:
            below[key] = value


def _handlers(cri: Table) -> dict[str, Table]:
    found = _table(_table(cri, "containerd"), "runtimes")
    return {name: one for name, one in list(found.items())[:_MAX_HANDLERS] if isinstance(one, dict)}


def _handler(name: str, said: Table) -> Handler:
    options = _table(said, "options")
    path = _text(said, "runtime_path") or _text(options, "BinaryName")
    return Handler(name=name, path=path, root=_text(options, "Root"), rest=_digest(said))


def _as_said(mine: Table, theirs: Table) -> dict[str, Any]:
    """What they have of all that is said here."""
    found: dict[str, Any] = {}
    for key, value in mine.items():
        other = _find(theirs, key)
        if isinstance(value, dict):
            found[key] = _as_said(value, other if isinstance(other, dict) else {})
        elif other == _NOT_COMPARED:
            found[key] = value
        else:
            found[key] = other
    return found


def _find(table: Table, key: str) -> Any:
    """By the name in either spelling: `sandbox_image` is `sandboxImage`."""
    wanted = _plain(key)
    for name, value in table.items():
        if _plain(name) == wanted:
            return value
    return _NOT_COMPARED


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _table(table: Table, key: str) -> Table:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _text(table: Table, key: str) -> str:
    found = table.get(key)
    return found if isinstance(found, str) else ""


def _json(text: str) -> Table:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _digest(settings: Table) -> str:
    if not settings:
        return ""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
