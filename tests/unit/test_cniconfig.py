# SPDX-License-Identifier: Apache-2.0
"""Which CNI directories a runtime's configuration names, in each of its forms; and which networks are in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostreewatchd.observe.cniplaces import Named, cni_places
from ostreewatchd.parse import toml
from ostreewatchd.parse.cniconfig import MAX_BYTES, CniPlaces, NotCni, imports, loaded, network, places
from ostreewatchd.peers.paths import Root
from ostreewatchd.platforms import GENERIC

CRI2 = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n'
CRI3 = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CRI2 + 'bin_dir = "/opt/cni/bin"\nconf_dir = "/etc/cni/net.d"', ("/etc/cni/net.d", ("/opt/cni/bin",))),
        (CRI3 + 'bin_dirs = ["/a/b", "/c/d"]\nconf_dir = "/var/cni/"', ("/var/cni", ("/a/b", "/c/d"))),
        ('[plugins.cri.cni]\nconf_dir = "/etc/other"', ("/etc/other", ())),
        ('[crio.network]\nnetwork_dir = "/etc/kubernetes/cni//net.d/"\nplugin_dirs = ["/opt/cni/bin", 1]',
         ("/etc/kubernetes/cni/net.d", ("/opt/cni/bin",))),
        ('[crio.network]\nplugin_dir = "/old/bin"', ("", ("/old/bin",))),
        (CRI2 + 'conf_dir = "etc/cni"', ("", ())),
        (CRI2 + 'conf_dir = "/etc"', ("", ())),
        (CRI2 + 'conf_dir = "/etc/cni/../../x"', ("", ())),
        (CRI2 + "conf_dir = 1", ("", ())),
        ("plugins = 1\ncrio = []", ("", ())),
        ("", ("", ())),
    ],
)  # fmt: skip
def test_places(text: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert places(toml.decode(text.encode())) == CniPlaces(*expected)


def test_imports() -> None:
    assert imports({"imports": ["/etc/containerd/conf.d/*.toml", 1, ""]}) == ("/etc/containerd/conf.d/*.toml",)
    assert imports({"imports": "x"}) == imports({}) == ()


def write(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_what_is_read_later_holds(tmp_path: Path) -> None:
    write(
        tmp_path,
        "/etc/containerd/config.toml",
        'imports = ["conf.d/*.toml", "/run/x.toml"]\n' + CRI2 + 'conf_dir = "/etc/one"\nbin_dir = "/bin/one"',
    )
    write(tmp_path, "/etc/containerd/conf.d/10.toml", CRI2 + 'conf_dir = "/etc/two"')
    write(tmp_path, "/etc/containerd/conf.d/20.toml", "this is = no toml, and says nothing")
    write(tmp_path, "/etc/containerd/conf.d/30.conf", CRI2 + 'conf_dir = "/etc/never"')
    write(tmp_path, "/etc/crio/crio.conf", '[crio.network]\nnetwork_dir = "/etc/three"')
    write(tmp_path, "/etc/crio/crio.conf.d/.swp", '[crio.network]\nnetwork_dir = "/etc/four"')
    with Root(str(tmp_path)) as root:
        found = cni_places(root, GENERIC)
        assert found == (
            Named("containerd", CniPlaces("/etc/two", ("/bin/one",)), False),
            Named("crio", CniPlaces("/etc/four"), False),
        )
        write(tmp_path, "/run/x.toml", CRI2 + 'conf_dir = "/etc/five"')
        assert cni_places(root, GENERIC)[0].places.conf_dir == "/etc/five"


def test_a_host_without_configuration_names_none(tmp_path: Path) -> None:
    with Root(str(tmp_path)) as root:
        assert cni_places(root, GENERIC) == ()
        write(tmp_path, "/etc/containerd/config.toml", "version = 2")
        assert cni_places(root, GENERIC) == ()


def test_what_containerd_says_it_has_loaded() -> None:
    text = """{"PluginDirs": ["/usr/lib/cni"], "PluginConfDir": "/etc/cni/net.d", "PluginMaxConfNum": 1,
    "Networks": [{"Config": {"Name": "cni-loopback", "CNIVersion": "0.3.1", "Plugins": [], "Source": "{}"},
    "IFName": "lo"}, {"Config": {"Name": "multus-cni-network"}, "IFName": "eth0"}, {"Config": null}]}"""
    assert loaded(text) == ("cni-loopback", "multus-cni-network")
    assert loaded('{"Networks": []}') == loaded('{"Networks": null}') == ()
    assert [loaded(one) for one in ("", "[]", "{}", '{"Networks": 1}')] == [None] * 4


@pytest.mark.parametrize("text", ['{"name": "n", "type": "bridge"}', '{"name": "n", "plugins": [{"type": "calico"}]}'])
def test_the_network_of_a_file(text: str) -> None:
    assert network(text.encode()) == "n"


@pytest.mark.parametrize(
    "data", [b"", b'{"name": "n"', b"[]", b'{"type": "x"}', b'{"name": 1}', b'{"name": "n"}', b" " * (MAX_BYTES + 1)]
)
def test_no_network(data: bytes) -> None:
    with pytest.raises(NotCni):
        network(data)
