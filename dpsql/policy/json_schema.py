"""The JSON Schema of a policy, by which editors complete and check `dpsql.toml` while it is written.

It is made of the keys in `policy_keys`. `dpsql.schema.json` holds it; after a change write that file again:
`python -c "from dpsql.policy.json_schema import write; write()"`.
"""

from __future__ import annotations

import json
from pathlib import Path

from dpsql.policy.policy_keys import KEYS
from dpsql.policy.toml_values import (
    ANY_NUMBER,
    FLAG,
    TEXT,
    Key,
    Schema,
    each,
    exactly,
    refer,
)

SCHEMA = Path(__file__).with_name("dpsql.schema.json")
"""The file that holds the schema, beside this module."""

_VALUES: Schema = {
    "type": "array",
    "items": {"type": ["string", "number", "boolean"]},
    "minItems": 1,
    "uniqueItems": True,
}
_ENDS: Schema = {"from": {}, "to": {}}

_DEFINITIONS: dict[str, Schema] = {
    "type of a column": {"anyOf": [TEXT.schema, each(refer("type of a column"))]},
    "domain": {
        "description": "a list of values, a range, a column of a public table, BOOLEAN or ENUM",
        "anyOf": [
            _VALUES,
            *(
                exactly({**properties, "complete": FLAG.schema}, "complete")
                for properties in (
                    {"values": _VALUES},
                    _ENDS,
                    {"table": TEXT.schema, "column": TEXT.schema},
                )
            ),
            {"enum": ["BOOLEAN", "ENUM"]},
            each(refer("domain")),  # the fields of a struct: address.city = [..]
        ],
    },
    "bounds": {
        "description": "the interval to which an aggregate cuts each value",
        "anyOf": [exactly({**_ENDS, "step": ANY_NUMBER}, "step"), each(refer("bounds"))],
    },
}


def json_schema() -> Schema:
    """Return the JSON Schema of a policy."""
    sections = {name: _section_schema(keys) for name, keys in KEYS.items()}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "dpsql.toml, a policy of dpsql",
        **sections.pop("top level"),
        "$defs": {**_DEFINITIONS, **sections},
    }


def _section_schema(keys: dict[str, Key]) -> Schema:
    return {
        "type": "object",
        "properties": {name: _key_schema(key) for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.default == "required"],
        "additionalProperties": False,
    }


def _key_schema(key: Key) -> Schema:
    """Return the schema of a key, with its meaning and default for the editor."""
    schema = key.kind.schema
    default = "required" if key.default.startswith("required") else f"default: {key.default}"
    words = f"{key.meaning} ({key.value}; {default})".replace("`", "")
    # What stands beside a reference is ignored, so it is put into a list of one.
    return {"description": words, **({"allOf": [schema]} if "$ref" in schema else schema)}


def schema_text() -> str:
    """Return the text of the file that holds the schema."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def write() -> None:
    """Write the file that holds the schema."""
    SCHEMA.write_text(schema_text(), "utf-8")
