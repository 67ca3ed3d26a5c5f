# SPDX-License-Identifier: Apache-2.0
"""The small parsers on what kernel, kubelet, ostree and the runtimes write."""

from __future__ import annotations

import json

import pytest

from ostreewatchd.parse import bootentry, bundle, cgroup, kubeconfig, manifest, podlogs, stat

ID, INNER = "5f0c" * 16, "ab12" * 16
UID = "0f3a1f52-7b0e-4d6a-9a3f-2b7d1a5c9e11"
OTHER_UID = "11111111-7b0e-4d6a-9a3f-2b7d1a5c9e11"


@pytest.mark.parametrize(
    ("text", "container", "pod"),
    [
        # cgroup v1 and hybrid, cgroupsPerQOS off and on
        (f"12:pids:/k8s.io/{ID}\n1:name=systemd:/k8s.io/{ID}\n0::/\n", ID, ""),
        (f"11:memory:/kubepods/besteffort/pod{UID}/{ID}\n0::/system.slice/containerd.service\n", ID, UID),
        # cgroup v2, the systemd driver: containerd's and CRI-O's scopes
        (f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n", ID, UID),
        (f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice/crio-{ID}"
         ".scope/container\n", ID, UID),
        # the systemd driver without systemd: containerd spells the slice into the path
        (f"0::/system.slice/containerd.service/kubepods-besteffort-pod{UID}.slice:cri-containerd:{ID}\n", ID, UID),
        # a static pod's UID has no dashes
        (f"0::/kubepods/pod{UID.replace('-', '')}/{ID}\n", ID, UID.replace("-", "")),
        # a container in a container is the outer one's (dind, a kubelet in a pod), whatever it names its own
        (f"0::/kubepods/besteffort/pod{UID}/{ID}/kubepods/burstable/pod{OTHER_UID}/{INNER}\n", ID, UID),
        (f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope/docker/{INNER}\n",
         ID, UID),
        (f"0::/system.slice/docker-{ID}.scope/kubelet.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice/"
         f"cri-containerd-{INNER}.scope\n", ID, ""),
        (f"0::/kubepods/pod{UID}/{ID}/crio-conmon-{INNER}.scope\n", ID, UID),
        # of the old and the new hierarchies (hybrid) the one that names it
        (f"13:pids:/user.slice\n1:name=systemd:/kubepods/pod{UID}/{ID}\n0::/system.slice/crio.service\n", ID, UID),
        # as another cgroup namespace sees it; cri-dockerd; podman; k3s and rke2 have containerd's own
        (f"0::/../../kubepods/pod{UID}/{ID}\n", ID, UID),
        (f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/docker-{ID}.scope\n", ID, UID),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", ID, ""),
        (f"0::/machine.slice/libpod-conmon-{ID}.scope\n", "", ""),
        (f"0::/kubepods/pod{UID}/{ID}/init.scope\n", ID, UID),
        # a person's own, who calls it as he likes (rootless podman, systemd-run --user)
        (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container\n", "", ""),
        (f"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}/{ID}\n", "", ""),
        # none
        (f"0::/kubepods.slice/kubepods-pod{UID}.slice/crio-conmon-{ID}.scope\n", "", ""),
        ("0::/system.slice/ssh.service\n", "", ""),
        (f"0::/system.slice/{ID}0\n", "", ""),
        (f"0::/system.slice/x{ID}\n", "", ""),
        (f"0::/system.slice/{ID.upper()}\n", "", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_cgroup(text: str, container: str, pod: str) -> None:
    assert cgroup.container_id(text.encode()) == container
    assert cgroup.pod_uid(text.encode()) == pod


def test_a_host_that_is_a_container_itself() -> None:
    """A node of kind without a cgroup namespace of its own: PID 1's own container is none on the host."""
    around = cgroup.container_ids(f"2:pids:/docker/{INNER}/init.scope\n0::/\n".encode())
    assert around == {INNER}
    data = f"2:pids:/docker/{INNER}/kubelet/kubepods/besteffort/pod{UID}/{ID}\n0::/\n".encode()
    assert cgroup.container_id(data) == INNER
    assert (cgroup.container_id(data, around), cgroup.pod_uid(data, around)) == (ID, UID)
    assert cgroup.container_id(f"0::/docker/{INNER}/system.slice/kubelet.service\n".encode(), around) == ""
    rootless = f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{INNER}.scope"
    assert cgroup.container_id(f"{rootless}/kubelet/kubepods/pod{UID}/{ID}\n".encode(), around) == ID
    assert cgroup.container_id(f"{rootless}/user@7.service/{ID}\n".encode(), around) == ""


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/ostreewatchd.service\n", "ostreewatchd.service"),
        (
            "1:name=systemd:/system.slice/containerd.service\n0::/system.slice/containerd.service\n",
            "containerd.service",
        ),
        ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"),
        ("0::/system.slice/a.service/init.scope\n", "init.scope"),
        ("0::/\n", ""),
        ("0::/system.slice/x.services\n", ""),
    ],
)
def test_unit_of_a_cgroup(text: str, unit: str) -> None:
    assert cgroup.unit(text.encode()) == unit


@pytest.mark.parametrize(
    ("text", "is_systemds"),
    [
        ("0::/init.scope\n", True),
        ("9:name=systemd:/machine.slice/node/payload/init.scope\n8:pids:/machine.slice/node\n", True),
        (f"2:pids:/docker/{INNER}/init.scope\n0::/\n", True),
        ("0::/../../../../init.scope\n", True),
        ("0::/\n", False),
        ("0::/user.slice/user-0.slice/session-3.scope\n", False),
        ("0::/user.slice/user-0.slice/user@0.service/init.scope\n", False),
        (f"0::/kubepods/pod{UID}/{ID}\n", False),
        ("0::/init.scope/x\n", False),
    ],
)
def test_where_systemd_is(text: str, is_systemds: bool) -> None:
    assert cgroup.is_managers(text.encode()) == is_systemds


def stat_line(command: str) -> bytes:
    return f"4711 ({command}) S 1203 4711 4711 0 -1 4194560 {' '.join(['7'] * 12)} 987654 1 2 3\n".encode()


@pytest.mark.parametrize("command", ["sh", "a b", "(sd-pam)", "x) S 1 (y", "new\nline", "runc:[2:INIT]", ")", ""])
def test_stat(command: str) -> None:
    assert stat.parse(stat_line(command)) == (command, 1203, 987654)


@pytest.mark.parametrize(
    "data",
    [b"", b"4711", b"4711 (sh", b"4711 (sh)", b"4711 (sh) S 1 2 3", b" ".join([b"1"] * 40), b")( S" + b" 1" * 40],
)
def test_a_torn_stat(data: bytes) -> None:
    assert stat.parse(data) is None


def test_log_link() -> None:
    name = f"kube-multus-ds-abcde_kube-system_kube-multus-{ID}.log"
    assert podlogs.parse_link(name) == ("kube-multus-ds-abcde", "kube-system", "kube-multus", ID)
    dotted = f"etcd-node-0.example.org_kube-system_etcd-{ID}.log"
    assert podlogs.parse_link(dotted) == ("etcd-node-0.example.org", "kube-system", "etcd", ID)


@pytest.mark.parametrize(
    "name",
    [
        "", ID, f"{ID}.log", f"a_b-{ID}.log", f"a_b_c-{ID}.log\n", f"a\nb_c_d-{ID}.log", f"a_b_c-{ID[:-1]}.log",
        f"../x_b_c-{ID}.log", f"a_b_c-{ID.upper()}.log", f"a_b_\x1b[31mc-{ID}.log", f"a_b_c_d-{ID}.log",
        f"A_b_c-{ID}.log", f"é_b_c-{ID}.log", f"{'a' * 300}_b_c-{ID}.log", f"a_b_c-{ID}.log.1", f"a_b_-{ID}.log",
    ],
)  # fmt: skip
def test_no_log_link_of_kubelets(name: str) -> None:
    """Bad input: a name with newlines and escapes is nobody's pod."""
    assert podlogs.parse_link(name) is None


def test_log_target() -> None:
    expected = ("kube-system", "calico-node-x1", UID, "calico-node", 3)
    text = f"kube-system_calico-node-x1_{UID}/calico-node/3.log"
    assert podlogs.parse_target(f"/var/log/pods/{text}") == expected
    assert podlogs.parse_target(text) == expected
    static = podlogs.parse_target(f"/var/log/pods/kube-system_etcd-node_{UID.replace('-', '')}/etcd/0.log")
    assert static is not None and static.uid == UID.replace("-", "") and static.attempt == 0


@pytest.mark.parametrize(
    "target",
    [
        "", "/var/log/pods/", f"/var/log/pods/a_b_{UID}/c/x.log", f"/var/log/pods/a_b_{UID}/c/1.log\n",
        f"/var/log/\npods/a_b_{UID}/c/1.log", f"/var/log/pods/a_b_{UID}/../1.log", f"/var/log/pods/a_b/{UID}/c/1.log",
        f"/var/log/pods/a_b_{UID}/c/1.log.20260101-000000", f"/var/log/pods/a_b_{UID}/c/12345678901.log",
        f"/var/log/pods/a_b_{UID}/c/٣.log", f"/var/log/pods/a_b_{'u' * 65}/c/1.log",
    ],
)  # fmt: skip
def test_no_log_target_of_kubelets(target: str) -> None:
    assert podlogs.parse_target(target) is None


def oci(**annotations: str) -> bytes:
    return json.dumps(
        {
            "ociVersion": "1.0.2",
            "process": {"args": ["/bin/calico-node"], "env": ["TOKEN=secret"]},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]},
                {"destination": "/host/etc/cni/net.d/", "type": "bind", "source": "/etc/cni/net.d",
                 "options": ["rbind", "rprivate", "rw"]},
                {"destination": "/lib/modules", "source": "/lib/modules", "options": ["bind", "ro"]},
                {"destination": "/dev/shm", "type": "tmpfs", "source": "shm"},
                {"destination": "/odd", "type": "bind", "source": "relative"},
            ],
            "annotations": annotations,
        }
    ).encode()  # fmt: skip


CONTAINERD = {
    "io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.container-name": "calico-node",
    "io.kubernetes.cri.sandbox-id": INNER, "io.kubernetes.cri.sandbox-name": "calico-node-x1",
    "io.kubernetes.cri.sandbox-namespace": "kube-system", "io.kubernetes.cri.sandbox-uid": UID,
}  # fmt: skip
CRIO = {
    "io.kubernetes.cri-o.ContainerType": "container", "io.kubernetes.container.name": "calico-node",
    "io.kubernetes.cri-o.SandboxID": INNER, "io.kubernetes.pod.name": "calico-node-x1",
    "io.kubernetes.pod.namespace": "kube-system", "io.kubernetes.pod.uid": UID,
}  # fmt: skip


@pytest.mark.parametrize("annotations", [CONTAINERD, CRIO], ids=["containerd", "crio"])
def test_bundle(annotations: dict[str, str]) -> None:
    found = bundle.parse(oci(**annotations))
    assert found.mounts == (("/etc/cni/net.d", "/host/etc/cni/net.d"), ("/lib/modules", "/lib/modules"))
    assert not found.is_sandbox
    assert found[2:] == (INNER, "kube-system", "calico-node-x1", UID, "calico-node")


def test_a_sandbox_is_told() -> None:
    assert bundle.parse(oci(**{"io.kubernetes.cri.container-type": "sandbox"})).is_sandbox
    assert bundle.parse(oci(**{"io.kubernetes.cri-o.ContainerType": "sandbox"})).is_sandbox


def test_a_pod_that_calls_itself_another_one() -> None:
    """Its annotations are its author's, and CRI-O copies them (SpecAddAnnotations)."""
    forged = dict.fromkeys(CONTAINERD, "forged") | {"io.kubernetes.cri.container-type": "sandbox"}
    assert bundle.parse(oci(**forged, **CRIO)) == bundle.parse(oci(**CRIO))


def test_a_bundle_that_says_nothing_of_a_pod() -> None:
    found = bundle.parse(b"{}")
    assert found == ((), False, "", "", "", "", "")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", oci()[:-9], b"[]", b'{"mounts": 1}', b'{"annotations": {"a": 1}}', b'"\xff"', b"[" * 100_000,
     b" " * (bundle.MAX_BYTES + 1)],
)  # fmt: skip
def test_a_torn_bundle(data: bytes) -> None:
    with pytest.raises(bundle.BundleError):
        bundle.parse(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Pod\nmetadata: {name: n}\nspec: {containers: []}\n", ("default", "n", "Always")),
        ("kind: Pod\nmetadata: {name: n, namespace: kube-system}\nspec: {restartPolicy: Never}\n",
         ("kube-system", "n", "Never")),
        ('{"kind": "Pod", "metadata": {"name": "n"}, "spec": {"restartPolicy": "OnFailure"}}',
         ("default", "n", "OnFailure")),
        ("kind: Pod\nmetadata: {name: n, namespace: ''}\nspec: {restartPolicy: ''}\n", ("default", "n", "Always")),
    ],
)  # fmt: skip
def test_manifest(text: str, expected: tuple[str, str, str]) -> None:
    assert manifest.parse(text.encode()) == expected


_YAML_THAT_LIES = [
    b'a: !!int ""', b"a: !!bool maybe", b"a: !!timestamp never", b'a: !!float ""', b"a: !!timestamp 2026-99-99",
    b"a: !!timestamp 2026-01-01T00:00:00+99:99", b"a: 190:20:30.5" + b":0" * 400, b"? {}\n: 1",
    b"? [1]\n: 1", b"a: !!binary \xc3\xa9", b"*nobody", b"a: !!python/object:os.system x", b"\xff\xfe",
    b"a: " + b"9" * 5000, b"a: " + b"[" * 2000, b"&a [*a]", b"%YAML 9.9\n---\na: 1", b"\0",
]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [b"", b"kind: Pod", b"kind: Pod\nmetadata: {}\nspec: {}", b"kind: List\nitems: []",
     b"kind: Pod\nmetadata: {name: 7}\nspec: {}", b"kind: Pod\nmetadata: []\nspec: {}",
     b"x" * (manifest.MAX_BYTES + 1), *_YAML_THAT_LIES],
)  # fmt: skip
def test_no_manifest(data: bytes) -> None:
    with pytest.raises(manifest.ManifestError):
        manifest.parse(data)


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: other
  cluster: {server: "https://192.0.2.9:6443"}
- name: here
  cluster: {server: "https://192.0.2.1:6443", certificate-authority-data: AAAA}
contexts:
- name: node
  context: {cluster: here, user: node}
current-context: node
users:
- name: node
  user: {token: very-secret}
"""


def test_kubeconfig_of_the_current_context() -> None:
    assert kubeconfig.server(KUBECONFIG.encode()) == "https://192.0.2.1:6443"
    no_context = KUBECONFIG.replace("current-context: node", "")
    assert kubeconfig.server(no_context.encode()) == "https://192.0.2.9:6443", "the first cluster"


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"clusters: 1", b"clusters: [1, {cluster: 2}]", b"clusters: [{cluster: {server: 'file:///x'}}]",
     b"clusters: [{cluster: {server: 7}}]", b"x" * (kubeconfig.MAX_BYTES + 1), *_YAML_THAT_LIES],
)  # fmt: skip
def test_no_kubeconfig(data: bytes) -> None:
    with pytest.raises(kubeconfig.KubeconfigError):
        kubeconfig.server(data)


def test_the_error_holds_nothing_of_a_kubeconfig() -> None:
    """Invariant 10: no secret leaves."""
    with pytest.raises(kubeconfig.KubeconfigError) as error:
        kubeconfig.server(KUBECONFIG.replace("user: {token: very-secret}", "user: {token: very-secret").encode())
    seen: BaseException | None = error.value
    assert "secret" not in str(seen)
    assert seen is not None and seen.__suppress_context__


ENTRY = f"""\
title Debian GNU/Linux 12 (ostree:0)
version 2
options root=UUID=1 ro ostree=/ostree/boot.1/debian/{ID}/0 quiet
linux /ostree/debian-{ID}/vmlinuz-6.1.0
"""


def test_boot_entry() -> None:
    assert bootentry.parse(ENTRY.encode()) == (2, f"/ostree/boot.1/debian/{ID}/0")
    other = ENTRY.replace("boot.1/", "boot.0.1/").replace("version 2", "version 11")
    assert bootentry.parse(other.encode()) == (11, f"/ostree/boot.0.1/debian/{ID}/0")
    alone = f"options ostree=/ostree/boot.0/fedora/{ID}/1"
    assert bootentry.parse(alone.encode()) == (0, f"/ostree/boot.0/fedora/{ID}/1")


@pytest.mark.parametrize(
    "text",
    ["", "options root=/dev/sda1", f"options xostree=/ostree/boot.1/d/{ID}/0", "options ostree=/ostree/boot.1/../..",
     f"options ostree=/ostree/boot.2/d/{ID}/0", f"#options ostree=/ostree/boot.1/d/{ID}/0"],
)  # fmt: skip
def test_a_boot_entry_of_others(text: str) -> None:
    assert bootentry.parse(text.encode()) is None
