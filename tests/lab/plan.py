# SPDX-License-Identifier: Apache-2.0
"""Which stages a node needs, and the one call that makes them."""

import shutil
from enum import Enum
from pathlib import Path
from typing import Union

from tests.lab.errors import LabError, MissingPrograms
from tests.lab.recipes import base, image, kubernetes, product, tree
from tests.lab.stages import Stage, closure, make


class Product(Enum):
    """Which version of the product a node carries, when it is not a given RPM."""

    DEFAULT = "this working tree's"
    KEEP = "what it has"


DEFAULT = Product.DEFAULT
KEEP = Product.KEEP
Choice = Union[Product, Path, None]

# Program → Debian package.
PROGRAMS = {
    "ostree": "ostree",
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "rpm": "rpm",
    "rpmbuild": "rpm",
    "busybox": "busybox-static",
    "gcc": "gcc",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "journalctl": "systemd",
}


def check_machine() -> None:
    """Say at once what the machine lacks, not after ten minutes of building."""
    missing = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        raise MissingPrograms(f"this machine lacks: {' '.join(missing)}", hint=f"apt-get install {' '.join(missing)}")
    kubernetes.go()


def goal(choice: Choice) -> Stage:
    """The stage whose result a node with that product is made from."""
    os_tree = tree.stage()
    programs = kubernetes.stage()
    writers = image.writers_stage(programs, kubernetes.multus_stage())
    os_base = base.stage(os_tree, programs, image.stage(), writers)
    if choice is None:
        return os_base
    if isinstance(choice, Path):
        if not choice.is_file():
            raise LabError(f"there is no file {choice}", hint="a product is the path of an rpm, DEFAULT or None")
        rpm = product.given_rpm_stage(choice)
    else:
        own = product.rpm_stage()
        if own is None:
            return os_base
        rpm = own
    return product.release_stage(os_tree, os_base, rpm)


def ready(choice: Choice) -> tuple[Path, str]:
    """Make what is missing; the repository to pull from and the branch that is wanted."""
    check_machine()
    wanted = goal(choice)
    make([wanted])
    return wanted.path / "repo", base.BRANCH if wanted.name == "base" else product.BRANCH


def current() -> list[Stage]:
    """All stages that today's sources need."""
    return closure([goal(DEFAULT), goal(None)])
