# SPDX-License-Identifier: Apache-2.0
"""Trees with another version of the product, or with none: what one version has done the next one knows, and the one
before too."""

from collections import Counter
from pathlib import Path
from typing import Union

import pytest

from tests.lab import others
from tests.lab.node import Node
from tests.lab.others import NAMES, Round
from tests.lab.plan import DEFAULT
from tests.lab.sysroot import Changes
from tests.lab.witness import ctl, ledger, reports

pytestmark = pytest.mark.lab

PACKAGE = "/usr/lib/ostreewatchd"
# What a later version might do: a version of its own, a column more, an outcome that is not known today.
LATER = (
    ("__init__.py", '__version__ = "', '__version__ = "9.9-'),
    ("ledger/rows.py", "\nVERSION = ", "\nVERSION = 99"),
    ("ledger/file.py", '"failure TEXT', '"by TEXT NOT NULL DEFAULT \'9.9\'", "failure TEXT'),
    ("ledger/writing.py", "(outcome, self._clock", '(outcome.replace("cured", "cured-9"), self._clock'),
)


@pytest.fixture
def round(shared_node: Node) -> Round:
    return others.begin(shared_node)


def test_a_tree_without_the_product_and_one_with_it_again(round: Round) -> None:
    """Nothing is restarted while the live tree has nobody to prove it; that is an alarm, and what is owed is healed
    once when the product is there again."""
    node = round.node
    node.in_service_patch(node.commit(product=None))
    node.wait(lambda: [one for one in reports(node, "alarm") if "does not have this product" in one["MESSAGE"]], 20,
              "the old watcher says so")  # fmt: skip
    assert node.sh("test -e /usr/libexec/ostreewatchd/ostreewatchd-remediate", check=False).returncode != 0
    assert others.counted(node, round.suffix, NAMES) == round.before
    assert round.acts() == []

    node.in_service_patch(node.commit(product=DEFAULT))

    after = round.settled()
    round.check(after)
    assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(NAMES, 1)
    round.stays(after)


def test_upgraded_in_the_middle_and_an_older_one_reads_what_it_wrote(round: Round) -> None:
    """A → B, and while that is being healed → C with a later version of the product, which writes the ledger in its
    own way; then A again. Each container is restarted by the product at most once for a switch, and no more."""
    node = round.node
    first = node.in_service_patch()
    round.at_intent()
    node.in_service_patch(node.commit(_later(node)))
    after = round.settled(timeout=120)
    acts = ledger(node, f"SELECT switch_id, subject, outcome FROM act WHERE id > {round.acts_before}")
    assert all(outcome for *_, outcome in acts)
    assert max(Counter((switch, subject) for switch, subject, _ in acts).values()) == 1
    for name, one in after.items():
        assert one.restarts == len(round.by_us()[name]) <= 2
    assert any("9.9-" in one["MESSAGE"] for one in reports(node, "started")), "the later watcher is there"
    assert ledger(node, "PRAGMA user_version")[0][0] > 99 and any("cured-9" in outcome for *_, outcome in acts)

    again = others.begin(node)
    node.in_service_patch(Path(first.active).name.partition(".")[0])

    last = again.settled()
    again.check(last)
    assert {name: one.restarts for name, one in last.items()} == dict.fromkeys(NAMES, 1)
    assert [outcome for _, _, outcome in again.acts()] == ["cured"] * len(NAMES), "in the words of the older one"
    assert not reports(node, "ledger-aside") and ledger(node, "PRAGMA user_version")[0][0] > 99
    code, text = ctl(node, "history")
    assert code == 0 and "cured-9" in text
    again.stays(last)


def _later(node: Node) -> Changes:
    """The installed product's files as that version has them, without what was compiled from these."""
    changes: dict[str, Union[bytes, str, None]] = {}
    for name, old, new in LATER:
        (path,) = Path(node.root, PACKAGE.lstrip("/")).glob(f"*/ostreewatchd/{name}")
        text = path.read_text()
        assert text.count(old) == 1, f"{name} has not one {old!r}"
        inside = "/" + str(path.relative_to(node.root))
        changes[inside] = text.replace(old, new)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            changes["/" + str(compiled.relative_to(node.root))] = None
    return changes
