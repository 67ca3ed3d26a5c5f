# SPDX-License-Identifier: Apache-2.0
"""The configuration file's text: sections, keys and values, each complaint with its file and line.

The format is systemd's (systemd.syntax(7)) without line continuation: `[Section]`, `Key=value`, `#` or `;`
starts a comment line."""

from __future__ import annotations

from typing import NamedTuple, get_args

from ostreewatchd.model import Lock, Mode
from ostreewatchd.parse.times import duration, windows

MAX_BYTES = 64 << 10


class Complaint(NamedTuple):
    """What is wrong in a configuration file, in words for the one who wrote it."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


class _Key(NamedTuple):
    field: str
    kind: str
    low: float = 0
    high: float = 0


_WORDS = {"mode": get_args(Mode), "lock": get_args(Lock)}
_IF_MISTAKEN = {"mode": "observe", "lock": ""}
"""What a mistake in a key means, where that is not its default: fewer restarts than were meant, never more."""
_KEYS = {
    ("Watch", "SettleSec"): _Key("settle", "seconds", 0.05, 60),
    ("Watch", "SettleCapSec"): _Key("settle_cap", "seconds", 5, 86400),
    ("Watch", "ResyncSec"): _Key("resync", "seconds", 10, 86400),
    ("Watch", "CNIDirectories"): _Key("cni_directories", "paths"),
    ("Remediation", "Mode"): _Key("mode", "mode"),
    ("Remediation", "RestartSilentWriters"): _Key("restart_silent_writers", "boolean"),
    ("Remediation", "Lock"): _Key("lock", "lock"),
    ("Remediation", "ProofSec"): _Key("proof", "seconds", 1, 600),
    ("Remediation", "RestartsPerSwitch"): _Key("per_switch", "count", 0, 1000),
    ("Remediation", "RestartsPerHour"): _Key("per_hour", "count", 0, 1000),
    ("Remediation", "Windows"): _Key("windows", "windows"),
    ("Kubelet", "TokenFile"): _Key("kubelet_token", "file"),
    ("Kubelet", "ClientCertificate"): _Key("kubelet_certificate", "file"),
    ("Kubelet", "ClientKey"): _Key("kubelet_key", "file"),
    ("Kubelet", "CertificateAuthority"): _Key("kubelet_authority", "file"),
}


def parse(file: str, data: bytes) -> tuple[dict[str, object], list[Complaint]]:
    """The valid settings of one file by field, and a complaint for all else. Never raises: a daemon with half
    a configuration is better than none."""
    values: dict[str, object] = {}
    complaints: list[Complaint] = []
    if len(data) > MAX_BYTES:
        return values, [Complaint(file, 1, f"larger than {MAX_BYTES} bytes: not read")]
    section = ""
    for number, raw in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            if section not in {known for known, _ in _KEYS}:
                complaints.append(Complaint(file, number, f"unknown section [{section}]"))
            continue
        name, equals, text = line.partition("=")
        name, text = name.strip(), text.strip()
        key = _KEYS.get((section, name))
        if not equals:
            complaints.append(Complaint(file, number, f"neither a section nor Key=value: {line[:80]!r}"))
        elif key is None:
            complaints.append(Complaint(file, number, _unknown(section, name) + _mistaken(name, values)))
        else:
            try:
                values[key.field] = _value(key, text)
            except ValueError as error:
                what = f"{name}={text[:80]!r}: {error}"
                complaints.append(Complaint(file, number, what + _mistaken(name, values)))
    return values, complaints


def _mistaken(name: str, values: dict[str, object]) -> str:
    """Put what a mistake in this key means into `values`, and say so; empty: the mistake is as if it was not there."""
    said = ""
    for (_, known), key in _KEYS.items():
        if known == name and key.field in _IF_MISTAKEN:
            values[key.field] = _IF_MISTAKEN[key.field]
            said = f"; taken as {name}={values[key.field]}"
    return said


def _unknown(section: str, name: str) -> str:
    known = sorted(key for known_section, key in _KEYS if known_section == section)
    elsewhere = [known_section for known_section, key in _KEYS if key == name]
    if elsewhere:
        return f"unknown key {name} in section [{section}]: it belongs into [{elsewhere[0]}]"
    return f"unknown key {name[:80]!r} in section [{section}]; known: {', '.join(known) or 'none'}"


def _value(key: _Key, text: str) -> object:
    words = _WORDS.get(key.kind)
    if words is not None:
        if text not in words:
            raise ValueError(f"must be {' or '.join(word for word in words if word)}")
        return text
    if key.kind == "file":
        if text and not text.startswith("/") or "\0" in text:
            raise ValueError("must be an absolute path")
        return text
    if key.kind == "paths":
        paths = tuple(text.split())
        for path in paths:
            if not path.startswith("/") or path.rstrip("/") == "" or "/../" in path + "/":
                raise ValueError(f"{path!r} is no absolute path below /")
            if path.rstrip("/").count("/") < 2:
                raise ValueError(f"{path!r} is too wide: a directory of the first level is no CNI directory")
        return tuple(path.rstrip("/") for path in paths)
    if key.kind == "boolean":
        if text not in ("yes", "no"):
            raise ValueError("must be yes or no")
        return text == "yes"
    if key.kind == "windows":
        return windows(text)
    if key.kind == "count":
        if not text.isdecimal() or not key.low <= int(text) <= key.high:
            raise ValueError(f"must be a whole number between {key.low:g} and {key.high:g}")
        return int(text)
    seconds = duration(text)
    if not key.low <= seconds <= key.high:
        raise ValueError(f"must be between {key.low:g} and {key.high:g} seconds")
    return seconds
