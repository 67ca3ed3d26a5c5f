# SPDX-License-Identifier: Apache-2.0
"""KubeletConfiguration v1beta1 and kubelet's flags: where it can be asked, and what it reads."""

from __future__ import annotations

from typing import Any

import pytest

from ostreewatchd.parse.kubeletconfig import MAX_BYTES, KubeletConfig, KubeletConfigError, from_flags, parse

WHOLE = b"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
healthzPort: 10348
healthzBindAddress: 0.0.0.0
containerRuntimeEndpoint: unix:///run/crio/crio.sock
clusterDNS: [10.96.0.10]
"""


def test_a_whole_file() -> None:
    config = parse(WHOLE)
    assert config == KubeletConfig("unix:///run/crio/crio.sock", "/etc/kubernetes/manifests", 10348, "0.0.0.0")
    assert config.runtime_socket() == "/run/crio/crio.sock"
    assert config.healthz() == "http://127.0.0.1:10348/healthz"


def test_what_is_not_said_is_the_default() -> None:
    config = parse(b"kind: KubeletConfiguration\n")
    assert config == KubeletConfig()
    assert (config.healthz(), config.runtime_socket()) == ("http://127.0.0.1:10248/healthz", "")


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ({"healthz_port": 0}, ""),
        ({"healthz_address": "127.0.0.2"}, "http://127.0.0.2:10248/healthz"),
        ({"healthz_address": "::"}, "http://[::1]:10248/healthz"),
        ({"healthz_address": "fd00::1", "healthz_port": 9}, "http://[fd00::1]:9/healthz"),
    ],
)
def test_where_its_health_is_asked(said: dict[str, Any], url: str) -> None:
    assert KubeletConfig(**said).healthz() == url


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [("/run/x.sock", "/run/x.sock"), ("unix:///run/x.sock", "/run/x.sock"), ("tcp://h:1", ""), ("", "")],
)
def test_the_runtimes_socket(endpoint: str, path: str) -> None:
    assert KubeletConfig(runtime_endpoint=endpoint).runtime_socket() == path


def test_flags_go_before_the_file() -> None:
    flags = {"healthz-port": "1", "pod-manifest-path": "/flags", "container-runtime-endpoint": "/x", "v": "2"}
    both = from_flags(flags).before(parse(WHOLE))
    assert both == KubeletConfig("/x", "/flags", 1, "0.0.0.0")
    assert from_flags({}).before(parse(WHOLE)) == parse(WHOLE)
    assert from_flags({"healthz-port": "0"}).before(parse(WHOLE)).healthz() == "", "off is something that is said"
    assert from_flags({"healthz-bind-address": "::1"}).before(KubeletConfig()).healthz_address == "::1"


@pytest.mark.parametrize("value", ["yes", "-1", "70000", "1.5", "[1]", "{}", "true", "'1_0'", "999999"])
def test_what_is_no_port_is_not_said(value: str) -> None:
    assert parse(f"healthzPort: {value}\n".encode()).healthz_port is None


def test_what_is_no_path_or_text_is_not_said() -> None:
    said = parse(b"staticPodPath: manifests\nhealthzBindAddress: 5\ncontainerRuntimeEndpoint: [a]\n")
    assert said == KubeletConfig()
    assert parse(b"staticPodPath: 5\n").static_pod_path == ""
    assert from_flags({"pod-manifest-path": "relative"}).static_pod_path == ""


@pytest.mark.parametrize("data", [b"- a\n", b"text", b"a: [", b"", b"a" * (MAX_BYTES + 1)])
def test_what_is_no_configuration(data: bytes) -> None:
    with pytest.raises(KubeletConfigError):
        parse(data)
