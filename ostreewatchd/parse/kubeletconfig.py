# SPDX-License-Identifier: Apache-2.0
"""What kubelet's configuration file says of where it can be asked and what it reads.

Source: Kubernetes, KubeletConfiguration kubelet.config.k8s.io/v1beta1 (containerRuntimeEndpoint, staticPodPath,
healthzPort, healthzBindAddress, port, address, tlsCertFile); kubelet --help (flags go before drop-ins, and these
before the file)."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ostreewatchd.parse import yamltext

MAX_BYTES = 1 << 20


class KubeletConfigError(ValueError):
    """Not a mapping in YAML."""


class KubeletConfig(NamedTuple):
    """Empty or None: it does not say."""

    runtime_endpoint: str = ""
    static_pod_path: str = ""
    healthz_port: Optional[int] = None
    """0: turned off."""
    healthz_address: str = ""
    port: Optional[int] = None
    address: str = ""
    certificate: str = ""
    """The file of the certificate that it serves with."""

    def before(self, other: KubeletConfig) -> KubeletConfig:
        """The two together: what this one says holds, and else what the other one says."""
        port = self.healthz_port if self.healthz_port is not None else other.healthz_port
        return KubeletConfig(
            self.runtime_endpoint or other.runtime_endpoint,
            self.static_pod_path or other.static_pod_path,
            port,
            self.healthz_address or other.healthz_address,
            self.port if self.port is not None else other.port,
            self.address or other.address,
            self.certificate or other.certificate,
        )

    def healthz(self) -> str:
        """Where its health is asked; empty where that is turned off."""
        port = 10248 if self.healthz_port is None else self.healthz_port
        if port == 0:
            return ""
        address = _reached_at(self.healthz_address)
        return f"http://{f'[{address}]' if ':' in address else address}:{port}/healthz"

    def api(self) -> Optional[tuple[str, int]]:
        """Address and port of its API; None where that is turned off."""
        port = 10250 if self.port is None else self.port
        return (_reached_at(self.address), port) if port else None

    def runtime_socket(self) -> str:
        """The path of the runtime's socket; empty if it names none."""
        path = self.runtime_endpoint
        path = path[len("unix://") :] if path.startswith("unix://") else path
        return path if path.startswith("/") else ""


def parse(data: bytes) -> KubeletConfig:
    """A configuration file or a drop-in. A value that is none is as if it were not there: kubelet would not have
    started with it. Raises KubeletConfigError."""
    if len(data) > MAX_BYTES:
        raise KubeletConfigError(f"larger than {MAX_BYTES} bytes")
    try:
        document = yamltext.load(data)
    except yamltext.NotYaml as error:
        raise KubeletConfigError(str(error)) from error
    if not isinstance(document, dict):
        raise KubeletConfigError("not a mapping")
    return KubeletConfig(
        runtime_endpoint=_text(document.get("containerRuntimeEndpoint")),
        static_pod_path=_path(document.get("staticPodPath")),
        healthz_port=port_of(document.get("healthzPort")),
        healthz_address=_text(document.get("healthzBindAddress")),
        port=port_of(document.get("port")) or None,
        address=_text(document.get("address")),
        certificate=_path(document.get("tlsCertFile")),
    )


def from_flags(flags: dict[str, str]) -> KubeletConfig:
    """The same from kubelet's command line."""
    return KubeletConfig(
        runtime_endpoint=flags.get("container-runtime-endpoint", ""),
        static_pod_path=_path(flags.get("pod-manifest-path")),
        healthz_port=port_of(flags.get("healthz-port")),
        healthz_address=flags.get("healthz-bind-address", ""),
        port=port_of(flags.get("port")),
        address=flags.get("address", ""),
        certificate=_path(flags.get("tls-cert-file")),
    )


def port_of(value: object) -> Optional[int]:
    """A port as a number or as text; None if it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 5:
        value = int(value)
    return value if type(value) is int and 0 <= value <= 65535 else None


def _reached_at(address: str) -> str:
    """One that listens on all of them is asked over the loopback."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _path(value: object) -> str:
    return value if isinstance(value, str) and value.startswith("/") else ""
