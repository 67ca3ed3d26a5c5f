# SPDX-License-Identifier: Apache-2.0
"""Hostile input: no parser raises anything but its declared error, whatever the bytes; and none is slow."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostreewatchd.model import Snapshot
from ostreewatchd.parse import (
    bootentry,
    bundle,
    cgroup,
    cniconfig,
    containermounts,
    fdinfo,
    kubeconfig,
    kubeletconfig,
    kubeletpods,
    manifest,
    mountinfo,
    ostreestate,
    podlogs,
    stat,
    toml,
)
from ostreewatchd.parse import settings as settings_file
from ostreewatchd.report.printable import printable

Parser = Callable[[bytes], object]


def _text(parser: Callable[[str], object]) -> Parser:
    return lambda data: parser(data.decode("utf-8", "surrogateescape"))


def _mounts(data: bytes) -> object:
    mounts = mountinfo.parse(data)
    table = mountinfo.MountTable(mounts)
    found = [table.visible(mount.point) for mount in mounts] + [table.unsafe("/a/b")]
    return found, list(containermounts.ContainerFilter(table).lines(data))


def _places(data: bytes) -> object:
    document = toml.decode(data)
    return cniconfig.places(document), cniconfig.imports(document)


# (parser, errors that it declares, words that its input is made of)
PARSERS: dict[str, tuple[Parser, tuple[type[Exception], ...], list[bytes]]] = {
    "mountinfo": (_mounts, (), [b"1", b"2", b" ", b"\n", b"8:1", b"/", b"-", b"\\040", b"\\777", b"shared:1", b"rw",
                                b"/ostree/deploy/d/deploy/" + b"a" * 64 + b".0", b"overlay", b"//deleted", b"\xff"]),
    "cgroup": (cgroup.container_id, (), [b"/", b":", b"-", b"a" * 64, b".scope", b"\n", b"crio-", b"pod"]),
    "cgroup-pod": (cgroup.pod_uid, (), [b"/pod", b"0" * 32, b"-", b"_", b"0" * 8, b"0" * 4, b"0" * 12]),
    "cgroup-unit": (cgroup.unit, (), [b"/", b"a", b".service", b".scope", b"\n", b"\xff"]),
    "stat": (stat.parse, (), [b"(", b")", b" ", b"1", b"S", b"\n", b"-1", b"9" * 5000]),
    "podlogs-link": (_text(podlogs.parse_link), (), [b"_", b"a", b"-", b"f" * 64, b".log", b"\n", b"."]),
    "podlogs-target": (_text(podlogs.parse_target), (), [b"_", b"/", b"a", b"-", b"12", b".log", b"\n", b"a" * 250]),
    "bundle": (bundle.parse, (bundle.BundleError,), [b"{", b"}", b'"mounts":', b"[", b"]", b'"annotations":', b",",
                                                     b'"source":"/"', b'"type":"bind"', b"null", b"1", b'"\\ud800"']),
    "manifest": (manifest.parse, (manifest.ManifestError,), [b"kind: Pod\n", b"metadata: ", b"{name: n}\n", b"spec: ",
                                                             b"{", b"}", b"!!int ", b"!!timestamp ", b'""', b"&a ",
                                                             b"*a", b"- ", b"? ", b"<<: ", b"1:2", b"\n", b"  "]),
    "kubeconfig": (kubeconfig.server, (kubeconfig.KubeconfigError,), [b"clusters:\n", b"- ", b"name: a\n", b"  ",
                                                                      b"cluster: {server: 'https://x'}\n", b"!!bool ",
                                                                      b"contexts: ", b"current-context: a\n", b"~"]),
    "kubeconfig-access": (kubeconfig.access, (kubeconfig.KubeconfigError,), [
        b"clusters:\n", b"- ", b"name: a\n", b"  ", b"cluster: {server: 'https://x'}\n", b"users:\n", b"https://[",
        b"user: {token: a}\n", b"client-certificate-data: ", b"!!bool ", b":", b"contexts: ", b"~"]),
    "bootentry": (bootentry.parse, (), [b"version ", b"1", b"\xd9\xa3", b"\n", b"options ", b"\xc2\xb2", b" ",
                                        b"ostree=/ostree/boot.1/a/b/0"]),
    "kubelet-config": (kubeletconfig.parse, (kubeletconfig.KubeletConfigError,), [b"healthzPort: ", b"1", b"\n", b"{",
                                                                                  b"staticPodPath: ", b"/", b"!!int ",
                                                                                  b"healthzBindAddress: ", b"::"]),
    "kubelet-pods": (kubeletpods.pods, (kubeletpods.Unclear,), [b'{"kind":"PodList","items":[', b"}",
                                                                b'{"metadata":{}', b"]", b",", b"null",
                                                                b',"status":{"conditions":[',
                                                                b'{"type":"Ready","lastTransitionTime":"', b'"', b"1",
                                                                b"2026-12-01T00:00:00Z", b"\xff"]),
    "kubelet-pleg": (kubeletpods.pleg, (), [b"kubelet_pleg_last_seen_seconds ", b"1", b".", b"e", b"+", b"\n", b"9"]),
    "ostree-booted": (ostreestate.booted, (ostreestate.OstreeStateError,), [b"composefs\0", bytes(6), b"\1\0b\x0a",
                                                                           b"\x14", b"s", b"v", b"a{sv}", b"\xff"]),
    "ostree-staged": (ostreestate.staged, (ostreestate.OstreeStateError,), [b"target\0", b"\0", b"name\0", b"a" * 64,
                                                                           b".0\0\0s", b"a{sv}", b"\x07", b"\xff"]),
    "ostree-origin": (ostreestate.is_hotfix, (), [b"[origin]", b"\n", b"unlocked", b"=", b"hotfix", b"[", b"]"]),
    "fdinfo": (fdinfo.inotify_marks, (), [b"inotify wd:1 ", b"ino:", b"ff", b" ", b"sdev:", b"\n", b"f" * 20]),
    "toml": (toml.decode, (toml.TomlError,), [b"a", b"=", b"[", b"]", b"[[", b"{", b"}", b'"', b'"""', b"'", b"\\",
                                             b".", b",", b"1", b"#", b"\n", b"\r\n", b"\\u", b"inf", b"\xff"]),
    "runtime-configuration": (_places, (toml.TomlError,), [b"[plugins.cri.cni]\n", b"conf_dir", b"=", b"'/'", b"\n",
                                                           b"[crio.network]\n", b"network_dir", b"imports", b"1",
                                                           b"['/a/b']", b"[plugins]\n", b"cri", b"[]"]),
    "cni-network": (cniconfig.network, (cniconfig.NotCni,), [b"{", b"}", b'"name":', b'"n"', b",", b'"type":', b"1",
                                                             b'"plugins":', b"[", b"]", b"null", b"\xff"]),
    "settings": (lambda data: settings_file.parse("f", data), (), [b"[Watch]", b"\n", b"SettleSec", b"=", b"1", b"ms",
                                                                   b"1e999", b"nan", b"CNIDirectories", b"/", b"..",
                                                                   b"[Remediation]", b"Mode", b"\xff", b"1_0"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_only_declared_errors(name: str) -> None:
    parser, declared, words = PARSERS[name]
    inputs = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(words), max_size=30).map(b"".join))

    @given(inputs)
    @settings(max_examples=150, deadline=None)
    def check(data: bytes) -> None:
        with contextlib.suppress(*declared):
            parser(data)

    check()


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_no_input_is_slow(name: str) -> None:
    """Invariant 8: 200 KiB of the worst words take no more than a moment (quadratic matching would take minutes)."""
    parser, declared, words = PARSERS[name]
    dice = random.Random(7)
    for word in words:
        for filler in (b"", b" ", b"\n", b"/"):
            started = time.process_time()  # Of this process alone: others may be busy.
            with contextlib.suppress(*declared):
                parser(((word + filler) * 3000)[:20_000])
            assert time.process_time() - started < 5, (word, filler)
    with contextlib.suppress(*declared):
        parser(b"".join(dice.choice(words) for _ in range(2000)))


@given(st.text())
def test_what_is_shown_is_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


@given(st.binary(max_size=100))
def test_a_snapshot_from_a_file_is_one_or_an_error(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        msgspec.json.decode(data, type=Snapshot)
