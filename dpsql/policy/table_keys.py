"""The keys of `[tables.NAME]` and `[tables.NAME.csv]` in a policy; `policy_keys` has those of all tables."""

from __future__ import annotations

from dpsql.language import CUTS
from dpsql.policy.toml_values import (
    COLUMNS,
    COLUMNS_OF_COLUMNS,
    COLUMNS_OF_TABLES,
    FLAG,
    MOST,
    NULLS,
    RANGES_OF_DAYS,
    RENAMED,
    SETS_OF_COLUMNS,
    TEXT,
    WHOLE,
    ZONES,
    Key,
    ValueKind,
    columns_of_text,
    each,
    refer,
)

TABLE_KEYS: dict[str, Key] = {
    "source": Key(
        ValueKind("a path or a table's name", TEXT.schema),
        "required",
        "a Parquet or CSV file, or a table of the database. Several files are one table by a pattern, "
        "`parts/*.parquet` or `parts/**/*.csv`, or by a folder, `parts/`; folders named `country=DE` "
        "are a column `country`",
    ),
    "csv": Key(
        ValueKind("a table, below", refer("[tables.NAME.csv]")),
        "commas, UTF-8",
        "how the CSV files of `source` are written",
    ),
    "public": Key(FLAG, "`false`", "a public table is free and exact for everybody"),
    "unit": Key(
        ValueKind(
            "a column, `ROW`, or `{ via, table, column }`",
            {"anyOf": [TEXT.schema, columns_of_text("via", "table", "column")]},
        ),
        "required unless public",
        "what is protected",
    ),
    "unit_kind": Key(TEXT, "`unit`, or `row`", "what a unit is; tables of different kinds never join"),
    "unit_period": Key(
        ValueKind("a table, below", refer("[tables.NAME.unit_period]")),
        "none",
        "the unit is what one did in one period, such as a patient in one week; each period has the whole "
        "budget. It is a weaker promise: per person at most epsilon for each period touched",
    ),
    "units_at_least": Key(
        WHOLE,
        "none",
        "a public lower bound on the number of units; it guides the choice of a mechanism for keys "
        "without a declared domain, and no guarantee depends on it",
    ),
    "rows_per_unit": Key(MOST, "that of `[defaults]`", "the same for statements over this table"),
    "groups": Key(MOST, "that of `[defaults]`", "the same for statements over this table"),
    "cut": Key(
        TEXT.with_words("text", {"enum": [*CUTS]}),
        '`"SHARED"`',
        "how intervals of statements over this table have what bounds cut: `SHARED` gives each group "
        "its share and the interval twice that, `WHOLE` each interval all of it, for groups that are "
        "kinds of large units, and `NOISE_ONLY` leaves it out. A statement may say otherwise; of "
        "several tables the widest holds",
    ),
    "columns": Key(
        ValueKind("a table of names and types", each(refer("type of a column"), least=1)),
        "the schema of the source",
        "what exists of the table; a field of a STRUCT is a column, `address.city`",
    ),
    "unique": Key(SETS_OF_COLUMNS, "none", "no two rows agree in these columns, as the owner declares"),
    "same_unit": Key(
        COLUMNS_OF_TABLES,
        "none",
        "keys that lead from one private table to another: all rows of both tables with one value belong to "
        "one unit, as the owner declares. The tables are then joined on the key: "
        '`same_unit = { rental_id = "rental.rental_id" }`. No guarantee depends on it: only rows of one unit '
        "meet, whatever is declared",
    ),
    "owned": Key(
        COLUMNS,
        "none",
        "columns each value of which belongs to one unit, as the owner declares, such as the number of an "
        "order with several rows: the table is then joined with itself on them. No guarantee depends on it",
    ),
    "stands_for": Key(
        TEXT,
        "none",
        "the private table of which this public one is a model, with the same columns: synthetic rows, or "
        "what was published of another year. A stream of checks may expect what is counted of it",
    ),
    "model": Key(TEXT, "the table's name", "the name of the model; tables of one model are read together"),
    "covers": Key(
        RANGES_OF_DAYS,
        "none",
        "columns of dates with the first and the last day that rows have, as the owner declares: there are "
        "rows on both, and none beyond. `covers = { visit_date = [2023-01-01, 2024-12-31] }`: MIN and MAX of "
        "the column over the whole table are these days, free. They are never to be taken from the rows",
    ),
    "determines": Key(
        COLUMNS_OF_COLUMNS,
        "none",
        "columns with others of which all rows with one value of them have one value, as the owner declares: "
        '`determines = { station_id = ["station_name"] }`. `GROUP BY station_id` may then show station_name, '
        "or `MAX(station_name)`: it is a key beside it. No guarantee depends on it",
    ),
    "not_null": Key(
        COLUMNS,
        "none",
        "columns without NULL in rows that have a unit, as the owner declares: as keys they have no "
        "group of NULL. With the unit's column, that no row is without a unit: else answers say `left out: "
        "rows of visits without a patient_id, if any`. A column that the database itself declares NOT NULL "
        "needs no mention, unless its values may not fit the declared type or, texts without a declared "
        "length, `longest_value`",
    ),
    "not_negative": Key(
        COLUMNS,
        "none",
        "columns of numbers without a value below 0 in rows that have a unit, as the owner declares: sums "
        "of them have intervals that are several times narrower. A column of an unsigned type, or with a "
        "complete domain from 0 on, needs no mention. No guarantee depends on it",
    ),
    "domain": Key(
        ValueKind("a table, below", each(refer("domain"))),
        "none",
        "the public values of key columns; with `complete = true` no row that has a unit has another "
        "value, or NULL, as the owner declares",
    ),
    "bounds": Key(
        ValueKind("a table, below", each(refer("bounds"))),
        "none",
        "the intervals to which SUM, AVG and the like cut the values of columns",
    ),
    "zone": Key(
        ZONES,
        "none",
        "columns whose source has times without a zone, each with the zone in which they are: "
        '`zone = { at = "Europe/Berlin" }`. Such a column is a TIMESTAMPTZ',
    ),
    "trust_source": Key(FLAG, "`false`", "skip reading the source once through its declared types"),
    "stable": Key(
        FLAG,
        "`false`",
        "the source is a view of PostgreSQL or Spark, of which the owner says that each row comes from "
        "rows of one unit (or from public ones), and that reading it never fails",
    ),
}
"""The keys of a table."""

CSV_KEYS: dict[str, Key] = {
    "delimiter": Key(
        TEXT.with_words("one character", {"type": "string", "minLength": 1, "maxLength": 1}),
        "`,`",
        "what stands between two fields, such as `;` or a tab",
    ),
    "encoding": Key(
        TEXT.with_words("the name of an encoding"),
        "`utf-8`",
        "`latin-1`, `windows-1252` or another one of one byte a character, or `utf-16`",
    ),
    "null": Key(NULLS, "the empty text", "what is read as NULL"),
    "decimal": Key(
        TEXT.with_words("`.` or `,`", {"enum": [".", ","]}),
        "`.`",
        "what stands before the decimals of a number",
    ),
    "thousands": Key(
        TEXT.with_words("one of `.` `,` `'` and a blank"),
        "none",
        "what stands between each three digits of a number",
    ),
    "date": Key(
        TEXT.with_words("`DD`, `MM` and `YYYY` with `.` `/` `-` or a blank between them"),
        "`YYYY-MM-DD`, as SQL has it",
        "how dates begin, alone and before a time: `DD.MM.YYYY`",
    ),
    "rename": Key(
        RENAMED,
        "none",
        "columns of the header, each with its name here, for names that are not plain ASCII: "
        '`rename = { "Amount (€)" = "amount" }`',
    ),
}
"""The keys of the form of CSV files."""
