"""Every key that a policy may have is in the JSON Schema and in the documents, and no other is."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from dpsql.policy import KEYS
from dpsql.policy.policy_keys import SCHEMA, json_schema, schema_text

ROOT = Path(__file__).parents[3]
WHOLE = """
share_releases = true
data_version = "7"
[budget]
epsilon = "1/3"
delta = 1e-6
default_epsilon = 0.1
high_water = false
accounting = "zcdp"
[defaults]
rows_per_unit = 20
[analysts."*"]
epsilon = 1
[groups.g]
members = ["a"]
epsilon = 1
[serve]
listen = ["127.0.0.1:5433"]
[mcp]
listen = "127.0.0.1:9"
[engine]
longest_value = "64 KiB"
[views.v]
sql = "SELECT 1"
[tables.people]
source = "people/*.csv"
unit = { via = "a", table = "b", column = "c" }
unique = [["id"]]
[tables.people.csv]
delimiter = ";"
null = ["", "NA"]
thousands = "'"
date = "DD/MM/YYYY"
rename = { "Größe" = "size" }
[tables.people.columns]
id = "BIGINT"
address.city = "VARCHAR"
[tables.people.domain]
address.city = ["Rome"]
"address.zip" = { from = 1, to = 9 }
page = { table = "pages", column = "page" }
mobile = "BOOLEAN"
[tables.people.bounds]
address.zip = { from = 0, to = 9, step = 0.5 }
"""


def plain(value: object) -> object:
    """Return a TOML value as JSON has it: dates are texts."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool) else str(value)


def problems(text: str) -> list[str]:
    validator = jsonschema.Draft7Validator(json_schema())
    return [str(error.json_path) for error in validator.iter_errors(plain(tomllib.loads(text)))]


def test_the_shipped_schema_is_that_of_the_keys() -> None:
    assert SCHEMA.read_text("utf-8") == schema_text(), "write it again, as dpsql.policy.policy_keys says"
    jsonschema.Draft7Validator.check_schema(json_schema())


def test_every_key_is_in_the_schema_with_its_meaning() -> None:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    for section, keys in KEYS.items():
        found = schema if section == "top level" else schema["$defs"][section]
        assert set(found["properties"]) == set(keys)
        for name, key in keys.items():
            assert found["properties"][name]["description"].startswith(key.meaning.replace("`", ""))


def test_every_key_is_in_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mkdocs", "mkdocs.structure", "mkdocs.structure.files"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    files: Any = sys.modules["mkdocs.structure.files"]
    files.File = files.InclusionLevel = object
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    parts = generate._policy().split("\n## ")
    pages = {part.partition("\n")[0].strip("`"): part for part in parts}
    for section, keys in KEYS.items():
        for name, key in keys.items():
            assert f"\n| `{name}` | {key.value} | {key.default} | {key.meaning} |" in pages[section]


@pytest.mark.parametrize("file", ["data/clinic.toml", "data/flights.toml", "tests/sql/policy.toml"])
def test_the_policies_of_the_project_fit_the_schema(file: str) -> None:
    assert problems((ROOT / file).read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("share_releases = true", ""), None),
        (("share_releases = true", "shared = true"), "$"),
        (("share_releases = true", "share_releases = 1"), "$.share_releases"),
        (('epsilon = "1/3"', ""), "$.budget"),
        (('accounting = "zcdp"', 'accounting = "renyi"'), "$.budget.accounting"),
        (("rows_per_unit = 20", "rows_per_unit = 1.5"), "$.defaults.rows_per_unit"),
        (("rows_per_unit = 20", 'rows_per_unit = "AUTO"'), None),
        (("rows_per_unit = 20", 'groups = "auto"'), "$.defaults.groups"),
        (('delimiter = ";"', 'delimiter = ";;"'), "$.tables.people.csv.delimiter"),
        (('["Rome"]', '["Rome", "Rome"]'), "$.tables.people.domain.address"),
        (('"c" }', '"c", x = "d" }'), "$.tables.people.unit"),
        (("{ from = 1, to = 9 }", "{ from = 1 }"), "$.tables.people.domain['address.zip']"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(change: tuple[str, str], place: str | None) -> None:
    assert change[0] in WHOLE
    assert problems(WHOLE) == []
    assert problems(WHOLE.replace(*change)) == ([] if place is None else [place])
