# SPDX-License-Identifier: Apache-2.0
"""Makes a sandbox and a container by CRI: the verbs that only a test needs, written by hand.

The numbers are those of the published runtime.v1 (module k8s.io/cri-api, v0.34.4): RunPodSandboxRequest,
PodSandboxConfig, CreateContainerRequest, ContainerConfig, StartContainerRequest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Union

from google.protobuf.message import Message

from ostreewatchd.peers.cri import runtime_pb2 as pb
from ostreewatchd.peers.cri.channel import Channel


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, value: Union[int, str, bytes, Message]) -> bytes:
    """One field in protobuf's wire format."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, Message):
        value = value.SerializeToString()
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _map(number: int, values: dict[str, str]) -> bytes:
    return b"".join(_field(number, _field(1, key) + _field(2, value)) for key, value in values.items())


class _Bytes(Message):
    """A request that is already in wire format."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def SerializeToString(self, **_: object) -> bytes:
        return self._data


class _Raw(Message):
    """An answer that stays in wire format."""

    data = b""

    @classmethod
    def FromString(cls, s: bytes) -> _Raw:
        made = cls()
        made.data = s
        return made


class Creator:
    """Creates and starts; use it in a `with`."""

    def __init__(self, socket: str, cgroup: str) -> None:
        """`cgroup` is the name of the cgroup below which all is put."""
        self._channel = Channel(socket, 60)
        self._cgroup = f"/{cgroup}"
        self._config = b""

    def __enter__(self) -> Creator:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def sandbox(self, name: str, namespace: str, uid: str, *, handler: str = "", on_host: bool = True) -> str:
        """A ready sandbox in the host's network namespace (so without CNI), or in one of its own; its id."""
        # In LinuxPodSandboxConfig: cgroup_parent; security_context.namespace_options.network = NODE or POD.
        linux = _field(1, self._cgroup) + _field(2, _field(1, _field(1, 2 if on_host else 0)))
        metadata = pb.PodSandboxMetadata(name=name, uid=uid, namespace=namespace, attempt=0)
        labels = {"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace}
        self._config = _field(1, metadata) + _map(6, labels) + _field(8, linux)
        request = _field(1, self._config) + (_field(2, handler) if handler else b"")
        # Our VersionRequest has one string as field 1, as these answers have: an id.
        return self._channel.call("RunPodSandbox", _Bytes(request), pb.VersionRequest).version

    def container(
        self, sandbox: str, name: str, attempt: int, image: str, host_path: Path, container_path: str
    ) -> str:
        """A created container with one bind in the sandbox that was made last; its id."""
        metadata = pb.ContainerMetadata(name=name, attempt=attempt)
        mount = _field(1, container_path) + _field(2, str(host_path))
        labels = {"io.kubernetes.container.name": name}
        config = _field(1, metadata) + _field(2, _field(1, image)) + _field(7, mount) + _map(9, labels)
        request = _field(1, sandbox) + _field(2, config) + _field(3, self._config)
        return self._channel.call("CreateContainer", _Bytes(request), pb.VersionRequest).version

    def ask(self, verb: str, request: bytes = b"") -> bytes:
        """Any verb, both sides in wire format."""
        return self._channel.call(verb, _Bytes(request), _Raw).data

    def start(self, id: str) -> None:
        """Starts a created container."""
        self._channel.call("StartContainer", _Bytes(_field(1, id)), pb.StopContainerResponse)
