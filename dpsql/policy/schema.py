"""The JSON Schema of `dpsql.toml`, by which editors complete and check a policy while it is written.

It is made of the table of keys that the reader of the policy checks against. `dpsql.schema.json` holds it;
after a change write that file again: `python -c "from dpsql.policy.schema import write; write()"`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpsql.language import CUTS
from dpsql.policy.keys import KEYS, Key

SCHEMA = Path(__file__).with_name("dpsql.schema.json")
"""The file that holds the schema, beside this module."""

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_TEXTS: _Schema = {"type": "array", "items": _TEXT}
_NUMBER: _Schema = {"type": ["number", "string"]}

_SIMPLE: dict[type, _Schema] = {
    Decimal: _NUMBER,
    int: {"type": "integer"},
    str: _TEXT,
    bool: {"type": "boolean"},
}
"""What the types of `Key.kind` are in a schema; a number may be a text, such as "1/3"."""


def _part(section: str) -> _Schema:
    return {"$ref": f"#/$defs/{section}"}


def _each(schema: _Schema) -> _Schema:
    """Return the schema of a table whose keys are names."""
    return {"type": "object", "additionalProperties": schema}


def _words(*names: str) -> _Schema:
    """Return the schema of a table of texts, all of which are required."""
    texts = dict.fromkeys(names, _TEXT)
    return {
        "type": "object",
        "properties": texts,
        "required": list(names),
        "additionalProperties": False,
    }


def _complete(properties: _Schema) -> _Schema:
    """Return the schema of a domain with these required keys, which may be declared complete."""
    every = {**properties, "complete": {"type": "boolean"}}
    return {
        "type": "object",
        "properties": every,
        "required": list(properties),
        "additionalProperties": False,
    }


def _ends(*optional: str) -> _Schema:
    """Return the schema of a table with `from` and `to`."""
    ends: dict[str, _Schema] = {"from": {}, "to": {}, **dict.fromkeys(optional, _NUMBER)}
    return {"type": "object", "properties": ends, "required": ["from", "to"], "additionalProperties": False}


_VALUE: _Schema = {"type": ["string", "number", "boolean"]}
_VALUES: _Schema = {"type": "array", "items": _VALUE, "minItems": 1, "uniqueItems": True}

_DEFINITIONS: dict[str, _Schema] = {
    "type of a column": {"anyOf": [_TEXT, _each(_part("type of a column"))]},
    "domain": {
        "description": "a list of values, a range, a column of a public table, BOOLEAN or ENUM",
        "anyOf": [
            _VALUES,
            _complete({"values": _VALUES}),
            _complete(_ends()["properties"]),
            _complete(_words("table", "column")["properties"]),
            {"enum": ["BOOLEAN", "ENUM"]},
            _each(_part("domain")),  # the fields of a struct: address.city = [..]
        ],
    },
    "bounds": {
        "description": "the interval to which an aggregate cuts each value",
        "anyOf": [_ends("step"), _each(_part("bounds"))],
    },
}

_SPECIAL: dict[str, dict[str, _Schema]] = {
    "top level": {
        "budget": _part("[budget]"),
        "tables": {**_each(_part("[tables.NAME]")), "minProperties": 1},
        "database": _part("[database]"),
        "engine": _part("[engine]"),
        "defaults": _part("[defaults]"),
        "views": _each(_part("[views.NAME]")),
        "analysts": {**_each(_part("[analysts.NAME]")), "minProperties": 1},
        "groups": _each(_part("[groups.NAME]")),
        "serve": _part("[serve]"),
        "mcp": _part("[mcp]"),
        "http": _part("[http]"),
    },
    "[budget]": {
        "accounting": {"enum": ["pure", "zcdp"]},
        "ledger": _TEXT,
        "high_water": {"type": ["string", "boolean"]},
    },
    "[groups.NAME]": {"members": _TEXTS},
    "[serve]": {
        "listen": _TEXTS,
        **dict.fromkeys(("users", "certificate", "key", "clientcert", "metrics"), _TEXT),
    },
    "[mcp]": {"listen": _TEXT, "allowed_hosts": _TEXTS, "allowed_origins": _TEXTS},
    "[http]": {"listen": _TEXT, "owner": _TEXT, "allowed_hosts": _TEXTS, "allowed_origins": _TEXTS},
    "[database]": {"path": _TEXT, "engine": _TEXT},
    "[engine]": {name: {"type": ["integer", "string"]} for name in ("longest_value", "keep")},
    "[tables.NAME]": {
        "source": _TEXT,
        "csv": _part("[tables.NAME.csv]"),
        "unit": {"anyOf": [_TEXT, _words("via", "table", "column")]},
        "columns": {**_each(_part("type of a column")), "minProperties": 1},
        "unique": {"type": "array", "items": _TEXTS},
        "not_null": _TEXTS,
        "cut": {"enum": [*CUTS]},
        "domain": _each(_part("domain")),
        "bounds": _each(_part("bounds")),
        "zone": _each(_TEXT),
    },
    "[tables.NAME.csv]": {
        "delimiter": {"type": "string", "minLength": 1, "maxLength": 1},
        "encoding": _TEXT,
        "null": {"anyOf": [_TEXT, _TEXTS]},
        "decimal": {"enum": [".", ","]},
        "thousands": _TEXT,
        "date": _TEXT,
        "rename": _each(_TEXT),
    },
}
"""The schemas of the keys whose words stand for no simple type."""


def json_schema() -> _Schema:
    """Return the JSON Schema of a policy."""
    sections = {name: _section(name, keys) for name, keys in KEYS.items()}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "dpsql.toml, a policy of dpsql",
        **sections.pop("top level"),
        "$defs": {**_DEFINITIONS, **sections},
    }


def _section(name: str, keys: dict[str, Key]) -> _Schema:
    return {
        "type": "object",
        "properties": {key: _described(name, key, one) for key, one in keys.items()},
        "required": [key for key, one in keys.items() if one.default == "required"],
        "additionalProperties": False,
    }


def _described(section: str, name: str, key: Key) -> _Schema:
    """Return the schema of a key, with its meaning and default for the editor."""
    schema = _SPECIAL.get(section, {}).get(name) or _SIMPLE[key.kind or object]
    if key.word is not None:
        schema = {"anyOf": [schema, {"enum": [key.word]}]}
    default = "required" if key.default.startswith("required") else f"default: {key.default}"
    words = f"{key.meaning} ({key.value}; {default})".replace("`", "")
    # What stands beside a reference is ignored, so it is put into a list of one.
    return {"description": words, **({"allOf": [schema]} if "$ref" in schema else schema)}


def shipped() -> str:
    """Return the text of the file that holds the schema."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def write() -> None:
    """Write the file that holds the schema."""
    SCHEMA.write_text(shipped(), "utf-8")
