"""Writes the text of the commented policy for `dpsql init`."""

from __future__ import annotations

import json
import os
import re
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.kernel.loss import exact
from dpsql.lazy_dataclass import dataclass
from dpsql.owner.units import is_bare_key, names_person, names_rows
from dpsql.policy.names import key_path, name_problem
from dpsql.policy.policy_keys import SCHEMA
from dpsql.policy.table_parts import CsvFormat
from dpsql.render.grid import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpsql.owner import Found, FoundColumn
    from dpsql.types import SqlType


_HEAD = """\
#:schema {schema}
# What analysts may ask of this data, and how much. Written by `dpsql init` from names and types alone: no row
# was read. What is not declared here does not exist for them, and all that is written here is public to them.
#
# Next: delete what they need not see, state the public values of the columns they group by, and let
# `dpsql check` verify it all against the data. What check prints is private: it is for you alone.
"""


@dataclass(frozen=True, slots=True)
class Via:
    """A child table's link to its parent: `column` here equals `parent_column` of the parent table."""

    column: str
    parent: str
    parent_column: str


@dataclass(slots=True)
class DeclaredTable:
    """One table of the policy that `dpsql init` writes."""

    found: Found
    """What its source declares of itself."""
    unit: str | Via | None
    """A column, "ROW", a link to the parent, or None for a public table."""
    unit_kind: str | None = None
    """The word for its unit; None: the default."""
    kinds: dict[str, SqlType] = field(default_factory=dict)
    """The types that differ from those found: the owner's for a CSV file."""
    domains: dict[str, str] = field(default_factory=dict)
    """Column -> its public values, as TOML."""
    instead: Via | None = None
    """Where each row is to be a unit: a way from the rows to units of another table."""
    vouched: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Keys that are to be unique -> the table whose rows find their unit through them."""
    same_unit: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Columns that name rows of another table, TABLE.COLUMN -> whether these surely are of one unit."""
    references: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Columns that may name rows of a public table -> the table and its column."""

    @property
    def name(self) -> str:
        """The name of the table in the policy, made of its file's name."""
        return self.found.name

    def kind(self, column: FoundColumn) -> SqlType | None:
        """Return the SQL type to declare for a column; None if it cannot be declared."""
        if name_problem(column.name):
            return None
        return self.kinds.get(column.name, column.kind)


_ANALYSTS = """\
# Who may ask, each with a cap of its own; nobody else may. Without a list anybody may, under any name: dpsql
# does not verify names.
# [analysts.alice]
# epsilon = 1.0
"""


_DEFAULTS = """\
# No constant bounds what one unit contributes, so none cuts. How much of it counts is found privately:
# by each statement for a part of its epsilon, or once for all statements over all rows of a table, by
#   dpsql bounds {tables}
# which charges 1/20 of epsilon for each, also to every analyst.
"""


def _write_defaults(tables: list[DeclaredTable]) -> list[str]:
    """Say where bounds of statements that write none come from, if a table has units with several rows."""
    private = [table for table in tables if table.unit not in (None, "ROW")]
    names = [table.name for table in private if not _propose_key(table)] or [
        private[0].name for _ in private[:1]
    ]
    return [_DEFAULTS.format(tables=escape_controls(" ".join(names))[:90])] if names else []


def policy_text(tables: list[DeclaredTable], amounts: Mapping[str, str], policy: Path) -> str:
    """Return the text for the file `policy`; `amounts` holds the budget's numbers as the owner wrote them."""
    base = policy.absolute().parent
    databases = {table.found.database for table in tables if table.found.database is not None}
    paths = [f"path = {quote_toml(_relative_path(database, base))}" for database in databases]
    engines = dict.fromkeys(table.found.engine for table in tables if table.found.engine)
    paths += [f"engine = {quote_toml(engine)}" for engine in engines]
    parts = [
        _HEAD.format(schema=SCHEMA.as_uri()),
        *_write_version(tables),
        *(_write_section("database", [(path, "only ever read")]) for path in paths),
        _write_section("budget", list(_write_budget(amounts, f"{policy.stem}-ledger.sqlite"))),
        *_write_defaults(tables),
        _ANALYSTS,
        *(_write_table(table, base) for table in tables),
    ]
    return "\n".join(parts)


_VERSION = """\
# {said}
data_version = "1"
"""


def _write_version(tables: list[DeclaredTable]) -> list[str]:
    """Declare a version of the data where the rows of an engine may change unnoticed."""
    if not any(table.found.engine for table in tables):
        return []
    return [
        _VERSION.format(said="Change it whenever rows come or go: dpsql cannot see that a table changed.")
    ]


def quote_toml(text: str) -> str:
    r"""Return a text in quotes, as TOML writes a string.

    >>> print(quote_toml('say "hi"\n'))
    "say \"hi\"\n"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _relative_path(path: str | Path, base: Path) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


def _write_section(key: str, lines: list[tuple[str, str]], above: str = "") -> str:
    """Write a table's lines, their comments in one column."""
    widest = max((len(line) for line, comment in lines if comment and len(line) <= 50), default=0)
    texts = [f"{line.ljust(widest)}  # {comment}" if comment else line for line, comment in lines]
    return "\n".join([f"{above}[{key}]", *texts]) + "\n"


DELTA = "1e-6"
"""The delta of a new policy."""

AMOUNTS = (
    ("epsilon", "5", "all that can ever be spent, by everybody together"),
    ("delta", "1e-6", "a chance left out of the promise; far below one over the number of units"),
    ("max_epsilon_per_query", "1", "the most one statement may take"),
    ("default_epsilon", "0.5", "for statements that name none"),
    ("default_delta", "1e-9", "the same for delta"),
)


def _write_budget(amounts: Mapping[str, str], ledger: str) -> Iterator[tuple[str, str]]:
    for name, example, comment in AMOUNTS:
        yield f"{name} = {amounts[name]}" if name in amounts else f"# {name} = {example}", comment
        if name == "delta" and exact(amounts.get("delta", "0").strip('"')):
            yield 'accounting = "zcdp"', "the same promise for about three times as many small statements:"
            yield "", 'costs add up that grow with the square of epsilon. "pure" adds epsilons'
    yield f"ledger = {quote_toml(ledger)}", "beside this file: what was spent and what was answered"


def _write_table(table: DeclaredTable, base: Path) -> str:
    key, found = key_path("tables", table.name), table.found
    source = found.source if found.in_database else _relative_path(found.source, base)
    lines = [(f"source = {quote_toml(source)}", "")]
    if found.stable:
        lines.append(("stable = true", "a view: you say that each row comes from rows of one unit"))
    if table.unit is None:
        lines.append(("public = true", "free and exact for everybody"))
    elif isinstance(table.unit, Via):
        about = f"whom to protect: whose row of {table.unit.parent} has this {table.unit.column}"
        lines.append((f"unit = {_write_link(table.unit)}", escape_controls(about)[:100]))
    else:
        if table.instead is not None:
            about = (
                f"all rows together of whose row of {table.instead.parent} has this {table.instead.column}"
            )
            lines.append((f"# unit = {_write_link(table.instead)}", escape_controls(about)[:100]))
        what = "each row" if table.unit == "ROW" else f"all rows of one {table.unit} together"
        lines.append((f"unit = {quote_toml(table.unit)}", f"whom to protect: {what}"))
    if table.unit_kind is not None:
        lines.append(
            (
                f"unit_kind = {quote_toml(table.unit_kind)}",
                "one word for the same people; tables of different kinds never join",
            )
        )
    lines += [
        *_write_unique(table),
        *_write_not_null(table),
        *_propose_not_negative(table),
        *_write_same_unit(table),
        *_write_determines(table),
    ]
    sections = [_write_section(key, lines)]
    if found.csv is not None and found.csv != CsvFormat():
        sections.append(_write_section(f"{key}.csv", list(_write_csv_format(found.csv))))
    sections.append(_write_section(f"{key}.columns", list(_write_columns(table))))
    if table.unit is not None:
        sections.append(_write_section(f"{key}.domain", list(_write_domains(table)), _ABOUT_DOMAINS))
        bounds = list(_propose_bounds(table))
        sections += [_write_section(f"{key}.bounds", bounds, _ABOUT_BOUNDS)] if bounds else []
    return "\n".join(sections)


def _write_link(via: Via) -> str:
    """Write a link as the policy does."""
    parts = {"via": via.column, "table": via.parent, "column": via.parent_column}
    return "{ " + ", ".join(f"{name} = {quote_toml(value)}" for name, value in parts.items()) + " }"


def _write_unique(table: DeclaredTable) -> list[tuple[str, str]]:
    facts = [fact for fact in table.found.unique if not any(map(name_problem, fact))]
    said = "the database's own keys"
    for (column,), child in table.vouched.items():
        facts.append((column,))
        said = (
            f"{child} finds its unit through {column}: no two rows may share one; `dpsql check` verifies it"
        )
    proposed = _propose_key(table) if (table.unit,) not in facts else []
    if facts:
        return [(f"unique = {json.dumps(facts)}", escape_controls(said)[:140]), *proposed]
    if table.unit is None or proposed:
        return proposed
    return [('# unique = [["a", "b"]]', "sets of columns you vouch are unique; COUNT(*) can then count rows")]


def _propose_key(table: DeclaredTable) -> list[tuple[str, str]]:
    """Propose that the unit's column is the table's key, where its name says so, with what is gained."""
    unit = table.unit
    if not isinstance(unit, str) or unit == "ROW":
        return []
    first = is_bare_key(unit) and names_person(unit, table.name) and unit == table.found.columns[0].name
    if not first and not names_rows(unit, table.name, unit):
        return []
    gain = f"if each {unit} has one row by construction: COUNT(*) then needs no bound, and has less noise"
    return [(f"# unique = {json.dumps([[unit]])}", escape_controls(gain)[:140])]


def _write_not_null(table: DeclaredTable) -> list[tuple[str, str]]:
    """Declare what the database keeps from being NULL; of the unit, rows with a NULL are never counted."""
    if table.unit is None:
        return []
    names = set(table.found.not_null) - {table.unit}
    listed = [c.name for c in table.found.columns if c.name in names and table.kind(c) is not None]
    return [(f"not_null = {json.dumps(listed)}", "the database's own NOT NULL")] if listed else []


def _propose_not_negative(table: DeclaredTable) -> Iterator[tuple[str, str]]:
    """Propose the columns that may hold amounts as those without a value below 0, with what is gained."""
    names = [column.name for column in _list_amounts(table)]
    if names:
        said = "where no value is below 0: sums are several times more accurate; `dpsql check` verifies it"
        yield f"# not_negative = {json.dumps(names)}", said


def _write_same_unit(table: DeclaredTable) -> Iterator[tuple[str, str]]:
    """Declare the keys with which rows of two tables belong to one unit; propose those that may be such."""
    for sure, mark in ((True, ""), (False, "# ")):
        pairs = [(c, target) for c, (target, said) in table.same_unit.items() if said is sure]
        if not pairs or (not sure and any(said for _, said in table.same_unit.values())):
            continue
        listed = ", ".join(f"{key_path(column)} = {quote_toml(target)}" for column, target in pairs)
        others = " and ".join(dict.fromkeys(target.partition(".")[0] for _, target in pairs))
        said = (
            f"rows of {table.name} and {others} with one of these belong to one unit: they are joined on it"
        )
        yield (
            f"{mark}same_unit = {{ {listed} }}",
            escape_controls(said if sure else f"if {said}; `dpsql check` verifies it")[:140],
        )


def _write_determines(table: DeclaredTable) -> Iterator[tuple[str, str]]:
    """Propose the columns that may have one value for each value of another, as their names say."""
    if table.unit is None:
        return
    names = [c.name for c in table.found.columns if c.name != table.unit]
    stems = {
        name: found[1] for name in names if (found := re.fullmatch(r"(?i)(\w+)_(?:id|code|key|no)", name))
    }
    labels = {
        name: [other for other in names if other.lower() in (f"{stem}_name".lower(), f"{stem}_label".lower())]
        for name, stem in stems.items()
    }
    listed = ", ".join(f"{key_path(n)} = {json.dumps(others)}" for n, others in labels.items() if others)
    if listed:
        said = "if rows with one value have one name; `dpsql check` verifies it"
        yield f"# determines = {{ {listed} }}", said


def _write_csv_format(form: CsvFormat) -> Iterator[tuple[str, str]]:
    common = CsvFormat()
    if form.delimiter != common.delimiter:
        yield f"delimiter = {quote_toml(form.delimiter)}", "what separates two fields"
    if form.encoding != common.encoding:
        yield f"encoding = {quote_toml(form.encoding)}", "found from the first bytes of the file"
    if form.decimal != common.decimal:
        yield f"decimal = {quote_toml(form.decimal)}", "what stands before the decimals of a number"
    if form.delimiter == ";":
        other = "," if form.decimal == "." else "."
        yield f'# thousands = "{other}"', "what stands between each three digits of a number"
        yield '# date = "DD.MM.YYYY"', "how dates are written, if not as 2024-12-31"
    yield '# null = ["", "NA"]', "the texts that mean NULL"
    if form.rename:
        pairs = ", ".join(f"{quote_toml(old)} = {quote_toml(new)}" for old, new in form.rename)
        yield f"rename = {{ {pairs} }}", "names in the header, and what the columns are called here"


def _write_columns(table: DeclaredTable) -> Iterator[tuple[str, str]]:
    if table.found.unnamed:
        number = table.found.unnamed
        yield f"# {number} column{'s' if number > 1 else ''} without a name:", "left out"
    columns = table.found.columns
    if table.unit is None:  # everybody may read a public STRUCT as a whole
        columns = tuple(dict.fromkeys(column.whole or column for column in columns))
    for column in columns:
        kind, name = table.kind(column), escape_controls(column.name)
        if kind is None:
            what = "its name is not plain ASCII" if name_problem(column.name) else f"it is {column.physical}"
            yield f"# {name[:60]} is left out:", f"{escape_controls(what)[:80]}, which is not supported"
            continue
        comment = ""
        if column.name in table.found.folders:
            comment = "in the names of folders, which have no types: say INTEGER, DATE, ... if it is no text"
        elif column.physical is None and kind.name == "TIMESTAMPTZ" and column.name not in table.kinds:
            comment = "its times are written with an offset"
        elif column.physical is None and column.name not in table.kinds:
            comment = "a CSV file has no types: say BIGINT, DOUBLE, DATE, ... where it is no text"
        elif column.physical is not None and column.physical.startswith("ENUM") and str(kind) == "VARCHAR":
            comment = "an ENUM; its values are public only where you declare them"
        elif column.physical is not None and column.physical not in (
            str(kind),
            "FLOAT",
            *_NAMES.get(str(kind), ()),
        ):
            comment = f"{column.physical} in the source"
        yield f"{key_path(column.name)} = {quote_toml(str(kind))}", escape_controls(comment)[:100]


_NAMES = {"TIMESTAMPTZ": ("TIMESTAMP WITH TIME ZONE",)}
"""Types with the names that engines have for them."""

_ABOUT_DOMAINS = """\
# Public values of columns that analysts group by, never to be looked up in the rows: what is written here is
# known without them. A column without: grouping by it costs some delta as well.
"""


def _write_domains(table: DeclaredTable) -> Iterator[tuple[str, str]]:
    for column in table.found.columns:
        kind = table.kind(column)
        if kind is None or column.name == table.unit:
            continue
        name = key_path(column.name)
        if column.name in table.domains:
            yield f"{name} = {table.domains[column.name]}", ""
        elif kind.name == "BOOLEAN":
            yield f'{name} = "BOOLEAN"', ""
        elif column.name in table.references:
            other, theirs = map(quote_toml, table.references[column.name])
            yield f"# {name} = {{ table = {other}, column = {theirs} }}", "the values of a public table"
        elif kind.integer:
            yield f"# {name} = {{ from = ..., to = ... }}", ""
        elif kind.moment or kind.name == "DATE":
            yield f"# {name} = {{ from = 2024-01-01, to = ... }}", ""
        elif kind.name == "VARCHAR":
            yield f'# {name} = ["...", "..."]', 'or { table = "a public table", column = "its column" }'


_ABOUT_BOUNDS = """\
# Where SUM, AVG and the like cut the values of a column, so that no row counts for more: round numbers
# that you know without the rows. Bounds read off the rows tell something of them; wrong ones cost accuracy.
"""


def _propose_bounds(table: DeclaredTable) -> Iterator[tuple[str, str]]:
    """Propose numbers to edit for the columns that may hold amounts."""
    for column in _list_amounts(table):
        kind = table.kind(column)
        large = kind is None or kind.name != "DECIMAL" or kind.precision - kind.scale > 2
        yield f"# {key_path(column.name)} = {{ from = 0, to = {100 if large else 1} }}", ""


def _list_amounts(table: DeclaredTable) -> Iterator[FoundColumn]:
    """Yield the columns that may hold amounts: numbers, and neither keys nor references."""
    if table.unit is None:
        return
    keys = {table.unit.column if isinstance(table.unit, Via) else table.unit}
    keys |= {name for fact in (*table.found.unique, *table.vouched) for name in fact if len(fact) == 1}
    for column in table.found.columns:
        kind = table.kind(column)
        known = kind is None or not kind.numeric or column.name in keys | table.domains.keys()
        if not known and not column.name.lower().endswith(("id", "_key", "_no")):
            yield column
