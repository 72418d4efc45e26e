"""The keys that each table of `dpsql.toml` may have, with their values, defaults and meanings.

This one table parses: the reader of the policy reads each value by its kind, and refuses every other key. It
documents: the policy reference in the documents is generated from it. And it is the JSON Schema, by which
editors complete and check `dpsql.toml`: after a change write `dpsql.schema.json` again by
`python -c "from dpsql.policy.policy_keys import write; write()"`.
"""

from __future__ import annotations

import json
from pathlib import Path

from dpsql.kernel.unit_parts import EVERY
from dpsql.language import DIALECTS
from dpsql.policy.names import ENGINES
from dpsql.policy.table_keys import CSV_KEYS, TABLE_KEYS
from dpsql.policy.toml_values import (
    ADDRESS,
    ADDRESSES,
    ANY_NUMBER,
    FLAG,
    LENGTH,
    MEMORY,
    MOST,
    NOW_OR_FALSE,
    NUMBER,
    NUMBER_OR_UNLIMITED,
    PATH,
    PATH_OR_FLAG,
    SECONDS,
    TEXT,
    TEXTS,
    WHOLE,
    Key,
    Schema,
    ValueKind,
    each,
    exactly,
    refer,
)


def _one(section: str) -> ValueKind:
    return ValueKind("a table", refer(section))


def _several(section: str, least: int | None = None) -> ValueKind:
    return ValueKind("a table for each name", each(refer(section), least=least))


KEYS: dict[str, dict[str, Key]] = {
    "top level": {
        "budget": Key(_one("[budget]"), "required", "what may be spent"),
        "tables": Key(_several("[tables.NAME]", least=1), "required", "what exists for analysts"),
        "database": Key(_one("[database]"), "none", "where the tables of `source` are"),
        "engine": Key(_one("[engine]"), "none", "limits of what is read"),
        "defaults": Key(_one("[defaults]"), "none", "bounds of statements that write none"),
        "views": Key(_several("[views.NAME]"), "none", "queries that statements read like tables"),
        "analysts": Key(_several("[analysts.NAME]", least=1), "none", "who may ask, each with a cap"),
        "groups": Key(_several("[groups.NAME]"), "none", "caps on several analysts together"),
        "parts": Key(
            _several("[parts.KIND]"),
            "none",
            "the date, or the value, by which units are in parts, each with the whole budget",
        ),
        "serve": Key(_one("[serve]"), "none", "where and how `dpsql serve` answers analysts"),
        "mcp": Key(_one("[mcp]"), "none", "how `dpsql serve` answers programs by the Model Context Protocol"),
        "http": Key(_one("[http]"), "none", "where `dpsql serve` serves pages, and JSON for programs"),
        "share_releases": Key(
            FLAG,
            "`false`",
            "whether an analyst may be given another one's answer, charged to the former's own cap",
        ),
        "data_version": Key(TEXT, "derived from what is read", "changed by the owner when the data changes"),
        "time_zone": Key(
            TEXT,
            "`UTC`",
            "the zone in which a time without an offset is read where it is compared with a TIMESTAMPTZ: "
            "`Europe/Berlin`",
        ),
    },
    "[budget]": {
        "epsilon": Key(NUMBER, "required", "the total that may ever be spent"),
        "delta": Key(NUMBER, "0", "the total delta, for keys without a declared domain"),
        "accounting": Key(
            TEXT.with_words('`"pure"` or `"zcdp"`', {"enum": ["pure", "zcdp"]}),
            '`"pure"`',
            "how statements add up. `pure`: their epsilons add. `zcdp`: many small statements take less than "
            "the sum of their epsilons, and the promise is the same; needs a delta",
        ),
        "conversion_delta": Key(
            NUMBER,
            "half of `delta`",
            "with `zcdp`, the part of delta that its proof needs; keys without a declared domain share the "
            "rest. Analysts' and groups' deltas are divided in the same ratio",
        ),
        "person": Key(
            _one("[budget.person]"),
            "none",
            "what one person may bear of a year, where tables have `unit_period`",
        ),
        "renewal": Key(
            _one("[budget.renewal]"),
            "none",
            "how often the budget starts anew over the same rows; neither parts nor periods go with it",
        ),
        "max_epsilon_per_query": Key(NUMBER, "no cap", "the most one statement may cost"),
        "max_failures": Key(
            WHOLE, "3", "how many of an analyst's private statements may fail before further ones are refused"
        ),
        "max_failures_total": Key(WHOLE, "10 x `max_failures`", "the same for all analysts together"),
        "max_cancelled": Key(
            WHOLE, "20, or `max_failures` if more", "how many statements one analyst may stop"
        ),
        "max_cancelled_total": Key(WHOLE, "10 x `max_cancelled`", "the same for all analysts together"),
        "max_uploads": Key(
            WHOLE, "10000", "how many different tables an analyst may upload: the ledger keeps a line of each"
        ),
        "default_epsilon": Key(
            NUMBER, "none", "for statements that name no epsilon; without it they are refused"
        ),
        "default_delta": Key(NUMBER, "none", "for statements that need a delta and name none"),
        "smallest_interesting": Key(
            NUMBER,
            "1000",
            "the smallest count that analysts look at: an error in percent, as in `dpsql --error 5%`, is one "
            "of it",
        ),
        "ledger": Key(PATH, "`dpsql-ledger.sqlite`", "the file that holds what was spent and answered"),
        "high_water": Key(
            PATH_OR_FLAG,
            "a file in the user's folder for state",
            "the file of the ledger's mark, by which an older copy of the ledger is noticed; best on another "
            "volume than the ledger. `false`: no mark is kept",
        ),
    },
    "[analysts.NAME]": {
        "epsilon": Key(NUMBER, "required", "the most this analyst may spend; the policy's total still binds"),
        "delta": Key(NUMBER, "0", "the same for delta"),
    },
    "[groups.NAME]": {
        "members": Key(TEXTS.with_words("a list of analysts"), "required", "who belongs to the group"),
        "epsilon": Key(
            NUMBER,
            "required",
            "the most that its members together may spend; their own caps and the total still bind",
        ),
        "delta": Key(NUMBER, "0", "the same for delta"),
    },
    "[budget.person]": {
        "epsilon": Key(NUMBER, "required", "the most that one person bears of a year"),
        "delta": Key(NUMBER, "0", "the same for delta, of which several periods together bear very much"),
        "every": Key(TEXT.with_words('`"year"`', {"enum": ["year"]}), '`"year"`', "of how long a time"),
    },
    "[budget.renewal]": {
        "every": Key(
            TEXT.with_words(
                "one of " + ", ".join(f"`{every}`" for every in EVERY), {"type": "string", "enum": [*EVERY]}
            ),
            "required",
            "how often: from the first day of each period, 00:00 UTC; a week begins on Monday",
        ),
        "lifetime_epsilon": Key(
            NUMBER_OR_UNLIMITED,
            "required",
            "the most that all renewals together may spend; of delta as many times the budget's. Caps of "
            "analysts and groups hold for all renewals together",
        ),
    },
    "[parts.KIND]": {
        "table": Key(TEXT, "required", "the table in which each unit of the kind has one row, with its date"),
        "column": Key(
            TEXT,
            "required",
            "the column of the date, a DATE or a TIMESTAMP; without `every` a column whose values are the "
            "parts: a VARCHAR with a `domain`, a BOOLEAN or an integer",
        ),
        "every": Key(
            TEXT.with_words(
                "one of " + ", ".join(f"`{every}`" for every in EVERY), {"type": "string", "enum": [*EVERY]}
            ),
            "required for dates",
            "how long a part is; a week begins on Monday. A unit bears what is asked of its own part",
        ),
        "constant": Key(
            FLAG,
            "`false`",
            "a unit may have several rows in the table, all with one date (or NULL in all). It is tested for "
            "each version of the data, as `unique` is",
        ),
        "until": Key(
            NOW_OR_FALSE,
            '`"now"`',
            "a statement that may read later parts reads the table up to the present one, so that asking "
            "does not use up the future. `false`: it reads all rows",
        ),
        "moves": Key(
            TEXT.with_words('`"refuse"` or `"trusted"`', {"type": "string", "enum": ["refuse", "trusted"]}),
            '`"refuse"`',
            "what is done about units whose date changes. `refuse`: versions of the data are compared (on "
            "DuckDB), and the table waits for its owner if a unit has moved. `trusted`: the owner says that "
            "none ever does",
        ),
        "closed_after": Key(
            TEXT.with_words('text such as `"14 days"`'),
            "never",
            "so long after its end a part counts as closed: a repeat of a statement that reads such parts of "
            "this table alone is the stored answer, also where other rows have come since. No guarantee "
            "depends on it",
        ),
    },
    "[serve]": {
        "listen": Key(
            ADDRESSES,
            '`["127.0.0.1:5433"]`',
            "where the server listens: `HOST:PORT`, or the path of a Unix socket named `.s.PGSQL.PORT`. An "
            "address that other machines reach needs a certificate",
        ),
        "name": Key(TEXT, "the name of the policy's file", "the database's name that clients give"),
        "users": Key(PATH, "`dpsql-users.toml`", "the users, written by `dpsql user`"),
        "certificate": Key(PATH, "made at the first start, if all is local", "in PEM, with its chain"),
        "key": Key(PATH, "the same", "the certificate's key in PEM, readable by the server alone"),
        "clientcert": Key(
            PATH,
            "none",
            "authorities' certificates: each client then needs a certificate of its user beside the password",
        ),
        "max_connections": Key(WHOLE, "200", "connections at the same time, of all users"),
        "max_running": Key(WHOLE, "2", "private statements that run at the same time"),
        "queue": Key(WHOLE, "100", "private statements that may wait, of all analysts"),
        "queue_per_analyst": Key(WHOLE, "10", "private statements of one analyst that may wait"),
        "statement_timeout": Key(
            SECONDS, "300", "after which a statement is stopped; stopped after its charge it counts as failed"
        ),
        "max_rows": Key(WHOLE, "100000", "rows of one answer"),
        "max_bytes": Key(WHOLE, "67108864", "bytes of one answer"),
        "max_statement": Key(WHOLE, "65536", "bytes of one statement"),
        "memory_share": Key(NUMBER, "0.6", "the share of the machine's memory for private statements"),
        "time_steps": Key(
            FLAG,
            "`false`",
            "whether replies that depend on private rows are held until 0.25, 1, 4, 16, 64 or 256 seconds: "
            "their times then tell little",
        ),
        "metrics": Key(
            ADDRESS, "none", "where `/metrics`, `/health` and `/ready` are answered, without TLS and login"
        ),
        "metrics_analysts": Key(
            FLAG, "`false`", "whether the metrics tell what is left of each analyst's budget"
        ),
    },
    "[mcp]": {
        "listen": Key(ADDRESS, "none", "where HTTP requests to `/mcp` are answered"),
        "ask_person_above": Key(
            NUMBER, "never", "the price above which a person is asked, if the program can ask one"
        ),
        "allowed_hosts": Key(TEXTS, "those of the address", "further values of the header Host"),
        "allowed_origins": Key(TEXTS, "none", "values of the header Origin that are accepted"),
    },
    "[http]": {
        "listen": Key(ADDRESS, "none", "where analysts are served with a page, and programs with JSON"),
        "owner": Key(ADDRESS, "none", "where the owner's page is served, on this machine alone"),
        "allowed_hosts": Key(TEXTS, "those of the address", "further values of the header Host"),
        "allowed_origins": Key(
            TEXTS, "the page's own", "further values of the header Origin that are accepted"
        ),
    },
    "[database]": {
        "path": Key(PATH, "none", "a DuckDB database, opened read-only"),
        "engine": Key(
            TEXT.with_words("one of " + ", ".join(f"`{address}`" for address in ENGINES)),
            "`duckdb`",
            "which engine holds the private tables",
        ),
        "timeout": Key(SECONDS, "3600", "after which another engine than DuckDB stops a statement"),
    },
    "[engine]": {
        "longest_value": Key(LENGTH, '`"64 KiB"`', "longer private values are read as NULL"),
        "keep": Key(
            MEMORY,
            '`"256 MB"`',
            "how much memory the exact counts of earlier statements may take: a further statement over the "
            "same groups does not read the data again. `0`: none are kept. They never leave the process, and "
            "are dropped when the data change",
        ),
    },
    "[defaults]": {
        "rows_per_unit": Key(
            MOST,
            '`"AUTO"`',
            "how many rows of one unit count in a count of rows that writes no bound, in all groups "
            "together; of more rows each has less weight. A number is a constant that is chosen without the "
            "rows, and cuts what is beyond it. `AUTO`: `dpsql bounds` finds it once, or each statement",
        ),
        "groups": Key(
            MOST,
            '`"AUTO"`',
            "in how many groups one unit counts when all groups are released with noise on each count and "
            "the statement says nothing. `AUTO`: in all",
        ),
        "auto_bounds": Key(
            FLAG, "`true`", "whether a statement may have the bounds of an aggregate found privately (`AUTO`)"
        ),
        "extremes": Key(
            FLAG, "`true`", "whether MIN and MAX are answered, by values that several units reach"
        ),
        "dialect": Key(
            TEXT.with_words("text", {"enum": [*DIALECTS]}),
            '`"DUCKDB"`',
            "what statements that do not say it mean by a function that several dialects have",
        ),
    },
    "[views.NAME]": {
        "sql": Key(
            TEXT,
            "required",
            "one SELECT over tables and other views, without privacy options. A statement that reads the "
            "view is analysed as if the SELECT stood in it as its first common table expression: its private "
            "rows stay private rows, and a count in it is released, and paid for, by each statement",
        )
    },
    "[tables.NAME]": TABLE_KEYS,
    "[tables.NAME.csv]": CSV_KEYS,
    "[tables.NAME.unit_period]": {
        "column": Key(TEXT, "required", "the column of the date: a DATE or a TIMESTAMP"),
        "every": Key(
            TEXT.with_words(
                "one of " + ", ".join(f"`{every}`" for every in EVERY), {"type": "string", "enum": [*EVERY]}
            ),
            "required",
            "how long a period is; a week begins on Monday",
        ),
        "until": Key(NOW_OR_FALSE, '`"now"`', "as in `[parts.KIND]`"),
        "closed_after": Key(TEXT.with_words('text such as `"14 days"`'), "never", "as in `[parts.KIND]`"),
    },
}
"""The keys of each TOML table."""


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
                for properties in ({"values": _VALUES}, _ENDS, {"table": TEXT.schema, "column": TEXT.schema})
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
