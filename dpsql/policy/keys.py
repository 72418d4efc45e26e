"""The keys that each table of `dpsql.toml` may have, with their values, defaults and meanings.

The reader of the policy refuses every other key. The policy reference in the documents is generated from
this table.
"""

from __future__ import annotations

from decimal import Decimal

from dpsql.lazy_dataclass import dataclass
from dpsql.policy.engine_rules import ADDRESSES


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the policy file."""

    value: str
    """The allowed values, in words."""
    default: str
    """The value when the key is absent, in words; `required` if it must be present."""
    meaning: str

    @property
    def kind(self) -> type | None:
        """The type of the value if that is all the reader has to check; Decimal: any number."""
        return _TYPES.get(self.value)

    @property
    def word(self) -> str | None:
        """The text that the key may have in place of a value of its type."""
        return "AUTO" if self.value == MOST else None


MOST = 'a whole number, or `"AUTO"`'
"""The words for a bound on what one unit contributes."""

_TYPES = {
    MOST: int,
    "a number": Decimal,
    "a whole number": int,
    "seconds": int,
    "text": str,
    "`true` or `false`": bool,
}
"""The words of `Key.value` that stand for a type; keys with other words need a reader of their own."""

_NO_WINDOWS = (
    "a budget that starts anew over the same rows promises nothing in the end: after n times the loss may be "
    "n times epsilon. Declare what is protected as the unit, and give disjoint data their own policies"
)

REFUSED = dict.fromkeys(("resets", "window", "refresh", "unit_period"), _NO_WINDOWS)
"""Keys that do not exist on purpose, wherever they stand, each with a hint."""

KEYS: dict[str, dict[str, Key]] = {
    "top level": {
        "budget": Key("a table", "required", "what may be spent"),
        "tables": Key("a table for each name", "required", "what exists for analysts"),
        "database": Key("a table", "none", "where the tables of `source` are"),
        "engine": Key("a table", "none", "limits of what is read"),
        "defaults": Key("a table", "none", "bounds of statements that write none"),
        "views": Key("a table for each name", "none", "queries that statements read like tables"),
        "analysts": Key("a table for each name", "none", "who may ask, each with a cap"),
        "groups": Key("a table for each name", "none", "caps on several analysts together"),
        "serve": Key("a table", "none", "where and how `dpsql serve` answers analysts"),
        "mcp": Key("a table", "none", "how `dpsql serve` answers programs by the Model Context Protocol"),
        "http": Key("a table", "none", "where `dpsql serve` serves pages, and JSON for programs"),
        "share_releases": Key(
            "`true` or `false`",
            "`false`",
            "whether an analyst may be given another one's answer, charged to the former's own cap",
        ),
        "data_version": Key(
            "text", "derived from what is read", "changed by the owner when the data changes"
        ),
        "time_zone": Key(
            "text",
            "`UTC`",
            "the zone in which a time without an offset is read where it is compared with a TIMESTAMPTZ: "
            "`Europe/Berlin`",
        ),
    },
    "[budget]": {
        "epsilon": Key("a number", "required", "the total that may ever be spent"),
        "delta": Key("a number", "0", "the total delta, for keys without a declared domain"),
        "accounting": Key(
            '`"pure"` or `"zcdp"`',
            '`"pure"`',
            "how statements add up. `pure`: their epsilons add. `zcdp`: many small statements take less than "
            "the sum of their epsilons, and the promise is the same; needs a delta",
        ),
        "conversion_delta": Key(
            "a number",
            "half of `delta`",
            "with `zcdp`, the part of delta that its proof needs; keys without a declared domain share the "
            "rest. Analysts' and groups' deltas are divided in the same ratio",
        ),
        "max_epsilon_per_query": Key("a number", "no cap", "the most one statement may cost"),
        "max_failures": Key(
            "a whole number",
            "3",
            "how many of an analyst's private statements may fail before further ones are refused",
        ),
        "max_failures_total": Key(
            "a whole number", "10 x `max_failures`", "the same for all analysts together"
        ),
        "max_cancelled": Key(
            "a whole number", "20, or `max_failures` if more", "how many statements one analyst may stop"
        ),
        "max_cancelled_total": Key(
            "a whole number", "10 x `max_cancelled`", "the same for all analysts together"
        ),
        "default_epsilon": Key(
            "a number", "none", "for statements that name no epsilon; without it they are refused"
        ),
        "default_delta": Key("a number", "none", "for statements that need a delta and name none"),
        "smallest_interesting": Key(
            "a number",
            "1000",
            "the smallest count that analysts look at: an error in percent, as in `dpsql --error 5%`, is one "
            "of it",
        ),
        "ledger": Key("a path", "`dpsql-ledger.sqlite`", "the file that holds what was spent and answered"),
        "high_water": Key(
            "a path, or `true` or `false`",
            "a file in the user's folder for state",
            "the file of the ledger's mark, by which an older copy of the ledger is noticed; best on another "
            "volume than the ledger. `false`: no mark is kept",
        ),
    },
    "[analysts.NAME]": {
        "epsilon": Key(
            "a number", "required", "the most this analyst may spend; the policy's total still binds"
        ),
        "delta": Key("a number", "0", "the same for delta"),
    },
    "[groups.NAME]": {
        "members": Key("a list of analysts", "required", "who belongs to the group"),
        "epsilon": Key(
            "a number",
            "required",
            "the most that its members together may spend; their own caps and the total still bind",
        ),
        "delta": Key("a number", "0", "the same for delta"),
    },
    "[serve]": {
        "listen": Key(
            "a list of addresses",
            '`["127.0.0.1:5433"]`',
            "where the server listens: `HOST:PORT`, or the path of a Unix socket named `.s.PGSQL.PORT`. An "
            "address that other machines reach needs a certificate",
        ),
        "name": Key("text", "the name of the policy's file", "the database's name that clients give"),
        "users": Key("a path", "`dpsql-users.toml`", "the users, written by `dpsql user`"),
        "certificate": Key("a path", "made at the first start, if all is local", "in PEM, with its chain"),
        "key": Key("a path", "the same", "the certificate's key in PEM, readable by the server alone"),
        "clientcert": Key(
            "a path",
            "none",
            "authorities' certificates: each client then needs a certificate of its user beside the password",
        ),
        "max_connections": Key("a whole number", "200", "connections at the same time, of all users"),
        "max_running": Key("a whole number", "2", "private statements that run at the same time"),
        "queue": Key("a whole number", "100", "private statements that may wait, of all analysts"),
        "queue_per_analyst": Key("a whole number", "10", "private statements of one analyst that may wait"),
        "statement_timeout": Key(
            "seconds",
            "300",
            "after which a statement is stopped; stopped after its charge it counts as failed",
        ),
        "max_rows": Key("a whole number", "100000", "rows of one answer"),
        "max_bytes": Key("a whole number", "67108864", "bytes of one answer"),
        "max_statement": Key("a whole number", "65536", "bytes of one statement"),
        "memory_share": Key("a number", "0.6", "the share of the machine's memory for private statements"),
        "time_steps": Key(
            "`true` or `false`",
            "`false`",
            "whether replies that depend on private rows are held until 0.25, 1, 4, 16, 64 or 256 seconds: "
            "their times then tell little",
        ),
        "metrics": Key(
            "an address",
            "none",
            "where `/metrics`, `/health` and `/ready` are answered, without TLS and login",
        ),
        "metrics_analysts": Key(
            "`true` or `false`", "`false`", "whether the metrics tell what is left of each analyst's budget"
        ),
        "log_statements": Key(
            "`true` or `false`", "`false`", "whether refused questions about the catalogue are logged as text"
        ),
    },
    "[mcp]": {
        "listen": Key("an address", "none", "where HTTP requests to `/mcp` are answered"),
        "ask_person_above": Key(
            "a number", "never", "the price above which a person is asked, if the program can ask one"
        ),
        "allowed_hosts": Key("a list of texts", "those of the address", "further values of the header Host"),
        "allowed_origins": Key("a list of texts", "none", "values of the header Origin that are accepted"),
    },
    "[http]": {
        "listen": Key("an address", "none", "where analysts are served with a page, and programs with JSON"),
        "owner": Key("an address", "none", "where the owner's page is served, on this machine alone"),
        "allowed_hosts": Key("a list of texts", "those of the address", "further values of the header Host"),
        "allowed_origins": Key(
            "a list of texts", "the page's own", "further values of the header Origin that are accepted"
        ),
    },
    "[database]": {
        "path": Key("a path", "none", "a DuckDB database, opened read-only"),
        "engine": Key(
            "one of " + ", ".join(f"`{address}`" for address in ADDRESSES),
            "`duckdb`",
            "which engine holds the private tables",
        ),
        "timeout": Key("seconds", "3600", "after which another engine than DuckDB stops a statement"),
    },
    "[engine]": {
        "longest_value": Key(
            'bytes, or text such as `"64 KiB"`', '`"64 KiB"`', "longer private values are read as NULL"
        ),
        "keep": Key(
            'bytes, or text such as `"256 MB"`',
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
            "`true` or `false`",
            "`true`",
            "whether a statement may have the bounds of an aggregate found privately (`AUTO`)",
        ),
        "extremes": Key(
            "`true` or `false`",
            "`true`",
            "whether MIN and MAX are answered, by values that several units reach",
        ),
    },
    "[views.NAME]": {
        "sql": Key(
            "text",
            "required",
            "one SELECT over tables and other views, without privacy options. A statement that reads the "
            "view is analysed as if the SELECT stood in it as its first common table expression: its private "
            "rows stay private rows, and a count in it is released, and paid for, by each statement",
        ),
    },
    "[tables.NAME]": {
        "source": Key(
            "a path or a table's name",
            "required",
            "a Parquet or CSV file, or a table of the database. Several files are one table by a pattern, "
            "`parts/*.parquet` or `parts/**/*.csv`, or by a folder, `parts/`; folders named `country=DE` "
            "are a column `country`",
        ),
        "csv": Key("a table, below", "commas, UTF-8", "how the CSV files of `source` are written"),
        "public": Key("`true` or `false`", "`false`", "a public table is free and exact for everybody"),
        "unit": Key(
            "a column, `ROW`, or `{ via, table, column }`", "required unless public", "what is protected"
        ),
        "unit_kind": Key("text", "`unit`, or `row`", "what a unit is; tables of different kinds never join"),
        "units_at_least": Key(
            "a whole number",
            "none",
            "a public lower bound on the number of units; it guides the choice of a mechanism for keys "
            "without a declared domain, and no guarantee depends on it",
        ),
        "rows_per_unit": Key(MOST, "that of `[defaults]`", "the same for statements over this table"),
        "groups": Key(MOST, "that of `[defaults]`", "the same for statements over this table"),
        "cut": Key(
            "text",
            '`"SHARED"`',
            "how intervals of statements over this table have what bounds cut: `SHARED` gives each group "
            "its share and the interval twice that, `WHOLE` each interval all of it, for groups that are "
            "kinds of large units, and `NOISE_ONLY` leaves it out. A statement may say otherwise; of "
            "several tables the widest holds",
        ),
        "columns": Key(
            "a table of names and types",
            "the schema of the source",
            "what exists of the table; a field of a STRUCT is a column, `address.city`",
        ),
        "unique": Key(
            "lists of columns", "none", "no two rows agree in these columns, as the owner declares"
        ),
        "not_null": Key(
            "a list of columns",
            "none",
            "columns without NULL in rows that have a unit, as the owner declares: as keys they have no "
            "group of NULL. A column that the database itself declares NOT NULL needs no mention, unless its "
            "values may not fit the declared type or, texts without a declared length, `longest_value`",
        ),
        "domain": Key(
            "a table, below",
            "none",
            "the public values of key columns; with `complete = true` no row that has a unit has another "
            "value, or NULL, as the owner declares",
        ),
        "bounds": Key(
            "a table, below", "none", "the intervals to which SUM, AVG and the like cut the values of columns"
        ),
        "zone": Key(
            "a table of names and time zones",
            "none",
            "columns whose source has times without a zone, each with the zone in which they are: "
            '`zone = { at = "Europe/Berlin" }`. Such a column is a TIMESTAMPTZ',
        ),
        "trust_source": Key(
            "`true` or `false`", "`false`", "skip reading the source once through its declared types"
        ),
        "stable": Key(
            "`true` or `false`",
            "`false`",
            "the source is a view of PostgreSQL or Spark, of which the owner says that each row comes from "
            "rows of one unit (or from public ones), and that reading it never fails",
        ),
    },
    "[tables.NAME.csv]": {
        "delimiter": Key("one character", "`,`", "what stands between two fields, such as `;` or a tab"),
        "encoding": Key(
            "the name of an encoding",
            "`utf-8`",
            "`latin-1`, `windows-1252` or another one of one byte a character, or `utf-16`",
        ),
        "null": Key("a text, or a list of texts", "the empty text", "what is read as NULL"),
        "decimal": Key("`.` or `,`", "`.`", "what stands before the decimals of a number"),
        "thousands": Key(
            "one of `.` `,` `'` and a blank", "none", "what stands between each three digits of a number"
        ),
        "date": Key(
            "`DD`, `MM` and `YYYY` with `.` `/` `-` or a blank between them",
            "`YYYY-MM-DD`, as SQL has it",
            "how dates begin, alone and before a time: `DD.MM.YYYY`",
        ),
        "rename": Key(
            "a table of names",
            "none",
            "columns of the header, each with its name here, for names that are not plain ASCII: "
            '`rename = { "Amount (€)" = "amount" }`',
        ),
    },
}
"""The keys of each TOML table."""
