# SPDX-License-Identifier: Apache-2.0
"""The prefilter of a container's mountinfo gives what its documented rule gives on the whole parsed table."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ostreewatchd.parse.containermounts import ContainerFilter
from ostreewatchd.parse.mountinfo import Mount, MountTable, parse

OLD, NEW = "a" * 64, "0123456789abcdef" * 4


def wanted(mount: Mount, devices: set[str], var: str, var_device: str, kept: tuple[str, ...] = ()) -> bool:
    """ContainerFilter's docstring, on a parsed line. An overlay at `/` is the container's own filesystem."""
    if mount.fstype == "overlay" and mount.point != "/":
        return True
    for path in kept:
        own = var.rstrip("/") + path[len("/var") :]
        if mount.device == var_device and (mount.root == own or mount.root.startswith(own + "/")):
            return True
    below_var = mount.device == var_device and (mount.root == var or mount.root.startswith(var + "/"))
    return mount.device in devices and not (below_var and var_device in devices and var != "/")


def mangle(text: str) -> str:
    """What the kernel escapes in these fields."""
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in text)


def line(number: int, device: str, root: str, point: str, optional: str, fstype: str) -> str:
    source = "overlay" if fstype == "overlay" else "/dev/vda1"
    return f"{number} 1 {device} {mangle(root)} {mangle(point)} rw,relatime {optional}- {fstype} {source} rw\n"


def filtered(host: str, container: str, kept: tuple[str, ...] = ()) -> None:
    """The prefilter and the reference agree."""
    table = MountTable(parse(host.encode("utf-8", "surrogateescape")))
    data = container.encode("utf-8", "surrogateescape")
    seen = [table.visible(path) for path in ("/", "/usr", "/etc", "/sysroot")]
    tops = [mount for mount in seen if mount is not None]
    var = table.visible("/var")
    assert var is not None
    below = var.root if var.point == "/var" else var.root.rstrip("/") + "/var"
    devices = {mount.device for mount in tops}
    expected = [mount for mount in parse(data) if wanted(mount, devices, below, var.device, kept)]
    assert list(ContainerFilter(table, kept=kept).lines(data)) == expected


def host(root: str, usr: str, etc: str, var: str) -> str:
    lines = [f"1 0 {root} / rw shared:1 - ext4 /dev/vda1 rw\n"]
    for number, (point, mount) in enumerate((("/usr", usr), ("/etc", etc), ("/var", var)), start=10):
        if mount:
            lines.append(f"{number} 1 {mount} {point} rw shared:2 - ext4 /dev/vda1 rw\n")
    return "".join(lines)


_STATEROOT = "/ostree/deploy/debian"
hosts = st.builds(
    host,
    st.sampled_from([f"8:1 {_STATEROOT}/deploy/{OLD}.0", "8:1 /", "0:31 /"]),
    st.sampled_from([f"8:1 {_STATEROOT}/deploy/{NEW}.0/usr", "0:47 /", ""]),
    st.sampled_from([f"8:1 {_STATEROOT}/deploy/{NEW}.0/etc", "8:3 /etc", ""]),
    st.sampled_from([f"8:1 {_STATEROOT}/var", "8:1 /with\\040space/var", "9:1 /", ""]),
)
_names = st.text(st.sampled_from("ab .-_\\\t\n\r\v\f\x85+*[](){}^$|é#\udcff"), min_size=1, max_size=6).filter(
    lambda text: text not in (".", "..")
)
_tails = st.lists(_names, max_size=3).map(lambda parts: "".join("/" + part for part in parts))
_deleted = st.sampled_from(["", "", "", "//deleted"])
roots = st.builds(
    lambda base, tail, deleted: (base + tail or "/") + deleted,
    st.sampled_from(
        [
            "", f"{_STATEROOT}/deploy/{OLD}.0", f"{_STATEROOT}/deploy/{NEW}.1/etc/cni/net.d", f"{_STATEROOT}/var",
            f"{_STATEROOT}/variant", f"/root/ostree/deploy/a b/deploy/{NEW}.0", "/var", "/with space/var",
            f"{_STATEROOT}/var/snap/a b", f"{_STATEROOT}/var/snap", "/var/snap/a b", "/snap/a b",
            "/with space/var/snap/a",
            f"{_STATEROOT}/deploy/{OLD}.0.origin", f"{_STATEROOT}/deploy/{OLD[:-1]}.0", f"/deploy/{OLD}.0",
        ]
    ),
    _tails,
    _deleted,
)  # fmt: skip
lines = st.builds(
    line,
    st.integers(1, 99999),
    st.sampled_from(["8:1", "8:11", "8:3", "0:31", "0:47", "9:1", "0:99"]),
    roots,
    st.one_of(st.just("/"), _tails.map(lambda tail: tail or "/x")),
    st.sampled_from(
        ["", "shared:1 ", "master:12 ", "shared:3 master:4 ", "unbindable ", "master:1 propagate_from:2 "]
    ),
    st.sampled_from(["ext4", "xfs", "tmpfs", "overlay", "proc", "overlayfs", "fuse.overlay"]),
)


@given(
    hosts,
    st.lists(lines, max_size=12).map("".join),
    st.sampled_from([(), ("/var/snap/a b",), ("/var/a", "/var/snap")]),
)
@settings(max_examples=400, deadline=None)
@example(host("8:1 /", "", "", ""), line(5, "8:1", "/var/lib/x", "/x", "", "ext4"), ())
@example(host("8:1 /", "", "", ""), line(5, "8:1", "/var/snap/7/x", "/x", "", "ext4"), ("/var/snap",))
@example(host("8:1 /", "", "", ""), line(5, "8:1", "/etc/a", "/x", "", "ext4") + "torn 1 8:1 /etc", ())
def test_equals_the_rule_on_the_whole_table(host_text: str, container_text: str, kept: tuple[str, ...]) -> None:
    filtered(host_text, container_text, kept)


def test_what_is_kept_of_a_pod() -> None:
    """A Multus pod on a patched node: its own filesystem, kubelet's files and /var are left out."""
    deploy = f"{_STATEROOT}/deploy/{OLD}.0"
    text = "".join(
        [
            line(1, "0:70", "/", "/", "", "overlay"),
            line(2, "0:71", "/", "/proc", "", "proc"),
            line(3, "8:1", f"{_STATEROOT}/var/lib/kubelet/pods/x/etc-hosts", "/etc/hosts", "", "ext4"),
            line(4, "8:1", f"{deploy}/etc/cni/net.d", "/host/etc/cni/net.d", "", "ext4"),
            line(5, "8:1", f"{deploy}/usr/lib/modules", "/lib/modules", "", "ext4"),
            line(6, "0:72", "/lib/modules", "/unlocked", "", "overlay"),
            line(7, "8:1", f"{_STATEROOT}/var/opt/cni/bin", "/host/opt/cni/bin", "", "ext4"),
            line(8, "8:1", "/boot", "/host/boot", "", "ext4"),
        ]
    )
    table = MountTable(parse(host(f"8:1 {deploy}", "", "", f"8:1 {_STATEROOT}/var").encode()))
    assert [mount.id for mount in ContainerFilter(table).lines(text.encode())] == [4, 5, 6, 8]


def test_what_is_mounted_in_the_tree_is_the_tree() -> None:
    """Another filesystem at /etc/cni, covered by now, and a piece of /var over a directory of /usr."""
    text = host("8:1 /", "", "", "8:1 /var") + (
        "20 1 0:50 / /etc/cni rw - tmpfs tmpfs rw\n21 20 8:9 / /etc/cni rw - ext4 /dev/vdb rw\n"
        "22 1 8:1 /var/lib/a\\040b /usr/lib/modules rw - ext4 /dev/vda1 rw\n"
    )
    table = MountTable(parse(text.encode()))
    lines = [
        line(1, "0:50", "/net.d", "/covered", "", "tmpfs"),
        line(2, "8:9", "/net.d", "/visible", "", "ext4"),
        line(3, "8:1", "/var/lib/a b/x", "/of-var-in-the-tree", "", "ext4"),
        line(4, "8:1", "/var/lib/other", "/of-var", "", "ext4"),
        line(5, "0:51", "/", "/dev", "", "tmpfs"),
    ]
    for number, one in enumerate(lines):
        assert len(list(ContainerFilter(table).lines(one.encode()))) == (number < 3), one
    assert len(list(ContainerFilter(table).lines("".join(lines).encode()))) == 3


def test_what_is_called_as_a_watched_directory() -> None:
    """Its filesystem is gone from the host: the name alone is left, wherever the pod has it."""
    table = MountTable(parse(host("8:1 /", "", "", "").encode()))
    lines = [
        line(1, "0:50", "/net.d", "/host/etc/cni/net.d", "", "tmpfs"),
        line(2, "0:50", "/net.d", "/etc/cni/net.d", "", "tmpfs"),
        line(3, "0:50", "/net.d", "/etc/cni/net.d/below", "", "tmpfs"),
        line(4, "0:50", "/etc/cni/net.d", "/elsewhere", "", "tmpfs"),
    ]
    named = ("/etc/cni/net.d",)
    found = [len(list(ContainerFilter(table, named=named).lines(one.encode()))) for one in lines]
    assert found == [1, 1, 0, 0]
    assert not list(ContainerFilter(table).lines("".join(lines).encode()))
