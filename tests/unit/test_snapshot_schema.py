# SPDX-License-Identifier: Apache-2.0
"""docs/snapshot.schema.json is the types', and says of each saved snapshot that it is one."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from ostreewatchd.replay import form
from ostreewatchd.replay.older import upgraded
from tests.unit.sources import ROOT
from tests.unit.worlds import stale

SCHEMA = json.loads((ROOT / "docs/snapshot.schema.json").read_text(encoding="utf-8"))
SAMPLE = Path(__file__).with_name("data") / "snapshot-format-1.json"


def test_it_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "docs/generate_schema.py"))
    made, file = script["schema"](), script["FILE"].read_text(encoding="utf-8")
    assert made == file, "run: python docs/generate_schema.py"


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether the value is valid, by those words of JSON Schema that the file uses."""
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds: dict[str, Any] = {
        "null": type(None), "boolean": bool, "string": str, "array": list, "object": dict, "number": (int, float),
        "integer": int,
    }  # fmt: skip
    kind = schema["type"]
    if not isinstance(value, kinds[kind]) or (kind in ("integer", "number") and isinstance(value, bool)):
        return False
    if "minimum" in schema and value < schema["minimum"]:
        return False
    if kind == "array":
        return all(fits(one, schema["items"]) for one in value)
    if kind == "object" and "properties" in schema:
        return set(schema.get("required", ())) <= value.keys() and all(
            fits(one, schema["properties"][name]) for name, one in value.items() if name in schema["properties"]
        )
    if kind == "object":
        return all(fits(one, schema["additionalProperties"]) for one in value.values())
    return True


@pytest.mark.parametrize("data", [SAMPLE.read_bytes(), form.dump(stale().switch().act().flag().snapshot())])
def test_saved_snapshots_fit(data: bytes) -> None:
    """Those of an older format as the newest has them."""
    document = upgraded(json.loads(data))
    assert fits(document, SCHEMA)
    for name in SCHEMA["$defs"]["Snapshot"]["required"]:
        assert not fits({key: value for key, value in document.items() if key != name}, SCHEMA)
    assert not fits({**document, "containers": [1]}, SCHEMA)


def test_all_words_of_it_are_known_here() -> None:
    """Else `fits` would take for valid what it does not understand."""
    known = {"$ref", "anyOf", "enum", "type", "minimum", "items", "properties", "required", "additionalProperties",
             "default", "description", "title", "$comment", "$defs", "$schema"}  # fmt: skip

    def words(schema: Any) -> set[str]:
        found = set(schema)
        for key in ("properties", "$defs"):
            for one in schema.get(key, {}).values():
                found |= words(one)
        for one in (
            *schema.get("anyOf", ()),
            *(schema[key] for key in ("items", "additionalProperties") if key in schema),
        ):
            found |= words(one)
        return found

    assert words(SCHEMA) <= known
