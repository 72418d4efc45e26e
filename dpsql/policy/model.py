"""The dataclass `Policy`, which is frozen and validated when it is made.

The kernel's `Facts` are made of it, and of what the schema database knows of its tables.

Models are public tables that stand for private ones, such as synthetic rows. Streams of checks expect what
they count (`EXPECT n = MODELS`). What is public of a policy is told to all, so no guarantee depends on which
rows these are: what stands for a table may be wrong, which costs misses.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol

from dpsql.kernel.facts import ByColumn, ByParent, ByPeriod, ByRow, Facts, Home, TableFacts, Unit, fold
from dpsql.lazy_dataclass import dataclass
from dpsql.policy.budget import AnalystPolicy, BudgetPolicy, GroupPolicy
from dpsql.policy.names import Names, check_engine, check_names, key_path, suggest, wrong
from dpsql.policy.part_declarations import UnitParts, UnitPeriod, UnitPeriods, check_parts, find_periods
from dpsql.policy.references import View, check_owned_keys, check_tables, check_views
from dpsql.policy.serving import ServeConfig
from dpsql.policy.table import Table
from dpsql.policy.table_parts import (
    AUTO,
    DatabaseSource,
    Defaults,
    Most,
    UnitColumn,
    UnitRow,
    UnitVia,
    UploadedSource,
    read_zone,
)
from dpsql.policy.toml_values import KEEP, LONGEST, read_keep, read_length
from dpsql.types import SqlType

Models = Mapping[str, Mapping[str, str]]
"""By the name of a model, the public table that stands for each private one."""


def read_models(tables: Mapping[str, Mapping[str, object]]) -> Models:
    """Read the keys `stands_for` and `model` of all tables; a table without `model` is one by itself."""
    found: dict[str, dict[str, str]] = {}
    for name, raw in tables.items():
        place = key_path("tables", name)
        stands, model = raw.get("stands_for"), raw.get("model", name)
        if stands is None:
            if "model" in raw:
                raise wrong(f"{place}.model", "is for tables that stand for others", "write stands_for")
            continue
        if not isinstance(stands, str):
            raise wrong(f"{place}.stands_for", "expected the name of a table", 'write stands_for = "visits"')
        if not isinstance(model, str) or not model.strip() or "," in model:
            raise wrong(f"{place}.model", "expected a name, without a comma", 'write model = "2023"')
        stand_ins = found.setdefault(model.strip(), {})
        if fold(stands) in map(fold, stand_ins):
            raise wrong(f"{place}.stands_for", f"two tables of the model {model.strip()} stand for {stands}")
        stand_ins[stands] = name
    return {model: Names(stand_ins) for model, stand_ins in found.items()}


def check_models(models: Models, tables: Mapping[str, Table]) -> None:
    """Check that public tables stand for private ones."""
    for stand_ins in models.values():
        for stands, name in stand_ins.items():
            place, own, other = key_path("tables", name, "stands_for"), tables.get(name), tables.get(stands)
            if other is None:
                raise wrong(place, f"there is no table {stands!r}", suggest(stands, tables, "tables"))
            if other.public:
                raise wrong(place, f"{stands!r} is public: nothing has to stand for it", "leave it out")
            if own is None or not own.public:
                raise wrong(place, "what stands for a private table is public", "write public = true")


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: the tables with their privacy units and public domains, and the budget.

    Raises `PolicyError`, naming the key, for anything inconsistent. `load` reads one from `dpsql.toml`.
    """

    budget: BudgetPolicy
    tables: Mapping[str, Table]
    path: Path | None = None
    """The file it was read from."""
    database: Path | None = None
    """The owner's DuckDB database; opened read-only."""
    engine: str = "duckdb"
    """The engine that holds the private tables: its name or address, one of `addresses.ENGINES`."""
    timeout: int = 3600
    """Seconds after which an engine other than DuckDB stops a statement; its charge is kept."""
    analysts: Mapping[str, AnalystPolicy] = field(default_factory=dict)
    share_releases: bool = False
    """Whether an analyst may be given a release made for another one, charged to the former's own cap."""
    data_version: str | None = None
    """Changed by the owner when the data change; None: a hash of the files' content."""
    longest_value: int = LONGEST
    """Bytes of UTF-8 of the longest private value that is read; longer ones are NULL, on every engine."""
    keep: int = KEEP
    """Bytes of memory for exact counts of earlier statements; 0: none are kept. No answer depends on it."""
    defaults: Defaults = field(default_factory=Defaults)
    """Bounds for statements that write none."""
    views: Mapping[str, View] = field(default_factory=dict)
    """Queries that statements read like tables."""
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    """Caps on several analysts together."""
    parts: Mapping[str, UnitParts] = field(default_factory=dict)
    """By the kind of a unit, the date by which units of that kind are in parts; at most one kind has one."""
    models: Models = field(default_factory=dict)
    """Public tables that stand for private ones. No private answer depends on them."""
    serve: ServeConfig | None = None
    """Where and how analysts are served; None if the policy does not say."""
    time_zone: str = "UTC"
    """The zone of times that a statement writes without an offset where an instant is wanted."""
    _fingerprints: dict[tuple[str, ...], str] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """The fingerprints computed so far, by the names of tables."""

    def __post_init__(self) -> None:
        check_engine(self.engine, self.database, self.timeout)
        if not self.tables:
            raise wrong("tables", "a policy declares at least one table")
        tables = check_names(self.tables, "tables")
        check_tables(tables)
        check_owned_keys(tables)
        for table in tables.values() if self.engine == "duckdb" else ():
            if table.stable:
                raise wrong(table.place("stable"), "is for views of PostgreSQL or Spark", "leave it out")
        views = check_views(self.views, tables)
        self.budget.check()
        for name, analyst in self.analysts.items():
            if name != analyst.name:
                raise wrong(key_path("analysts", name), f"holds an analyst named {analyst.name!r}")
            analyst.check()
        for name, group in self.groups.items():
            if name != group.name:
                raise wrong(key_path("groups", name), f"holds a group named {group.name!r}")
            group.check(self.analysts)
        check_parts(self.parts, tables, self.budget, self.engine)
        check_models(self.models, tables)
        object.__setattr__(self, "time_zone", read_zone(self.time_zone, "time_zone"))
        object.__setattr__(self, "longest_value", read_length(self.longest_value))
        object.__setattr__(self, "keep", read_keep(self.keep))
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "views", views)
        object.__setattr__(self, "analysts", dict(self.analysts))
        object.__setattr__(self, "groups", dict(self.groups))
        object.__setattr__(self, "parts", dict(self.parts))

    @property
    def unit_parts(self) -> UnitParts | None:
        """The date by which units are in parts; None if no kind of unit has parts."""
        return next(iter(self.parts.values()), None) or find_periods(self.tables)

    def fingerprint(self, tables: Iterable[Table]) -> str:
        """Return a hash of what is declared of some tables, in any order, and of their engine."""
        chosen = sorted(tables, key=lambda table: fold(table.name))
        key = tuple(table.name for table in chosen if self.table(table.name) is table)
        if len(key) == len(chosen) and key in self._fingerprints:
            return self._fingerprints[key]
        database = self.database if any(isinstance(t.source, DatabaseSource) for t in chosen) else None
        folder = None if self.path is None else self.path.parent
        content = _to_texts(["1", self.engine, database, self.longest_value, chosen], folder)
        text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
        made = hashlib.sha256(text.encode()).hexdigest()
        if len(key) == len(chosen):
            self._fingerprints[key] = made
        return made

    def table(self, name: str) -> Table | None:
        """Return the table of that name, compared without case; None if it is not declared."""
        return self.tables.get(name)

    def most(self, table: Table, name: str) -> int | None:
        """Return the constant for `rows_per_unit` or `groups` of a table; None if no number is declared."""
        own = getattr(table, name)
        found: Most | None = getattr(self.defaults, name) if own is None else own
        return None if found == AUTO else found

    @property
    def id(self) -> str:
        """The identifier of the policy in the ledger: the path of its file relative to the ledger.

        It survives edits of the policy (the budget spent so far must) and moving the folder as a whole,
        and differs between two policies that name one ledger by mistake.
        """
        if self.path is None:
            return "python"
        return Path(os.path.relpath(self.path, self.budget.ledger.absolute().parent)).as_posix()


def _to_texts(thing: object, base: Path | None) -> object:
    """Return a value as nested lists of texts, each with its type, so that different values differ.

    Paths are relative to `base`, the policy's folder: formatting, comments and the folder change nothing.
    """
    if isinstance(thing, (list, tuple)):
        return [_to_texts(item, base) for item in thing]
    if isinstance(thing, Mapping):
        return [[str(name), _to_texts(item, base)] for name, item in thing.items()]
    if isinstance(thing, Path):
        return ["path", Path(os.path.relpath(thing, base)).as_posix() if base else thing.as_posix()]
    if isinstance(thing, UploadedSource):
        return ["uploaded", thing.digest]
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts = [_to_texts(getattr(thing, f.name), base) for f in dataclasses.fields(thing)]
        return [type(thing).__name__, *parts]
    return [type(thing).__name__, str(thing)]


class KnownTables(Protocol):
    """What is known of the declared tables beside the policy."""

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """Return the names and types of a table's columns, in order."""

    def unique(self, table: str) -> tuple[tuple[str, ...], ...]:
        """Return the declared sets of unique columns; of a public table, those that hold for its rows."""

    def not_null(self, table: str, column: str) -> bool:
        """Return whether no row of a private table that has a unit has NULL in a column."""

    def listed_domains(self) -> Mapping[str, SqlType]:
        """Return the names of the tables of listed domains, with the types of their values."""

    def places_of_domains(self) -> Mapping[str, int]:
        """Return for each of these tables a number that all its places are less than."""

    def number_values(self, table: str, column: str) -> tuple[tuple[str | bool, int], ...]:
        """Return the listed values of a column that are parts of units, with their numbers."""


def facts_of(policy: Policy, known: KnownTables, names: Iterable[str] | None = None) -> Facts:
    """Return the facts on which proofs rest: of all tables, or of some with those through which they belong.

    A proof needs those of the tables that its query reads. What is declared of a public table is tested on
    its rows, which takes time.
    """
    chosen = policy.tables if names is None else _add_parents(policy, names)
    tables = [policy.tables[name] for name in policy.tables if name in chosen]
    return _collect_facts(policy, tables, known, known.unique)


def declared_facts_of(policy: Policy, known: KnownTables) -> Facts:
    """Return the facts of all tables as the policy declares them, untested, for the ledger to tell of.

    They differ from those on which proofs rest in unique columns that a public table does not have.
    """
    return _collect_facts(policy, policy.tables.values(), known, lambda name: policy.tables[name].unique)


Unique = Callable[[str], Iterable[tuple[str, ...]]]
"""Returns the sets of unique columns of a table."""


def _collect_facts(policy: Policy, chosen: Iterable[Table], known: KnownTables, unique: Unique) -> Facts:
    tables = tuple(_describe_table(table, known, unique) for table in chosen)
    domains = sorted(known.listed_domains().items(), key=lambda found: found[0])
    places = tuple(sorted(known.places_of_domains().items()))
    return Facts(tables, tuple(domains), places, home_of(policy, known))


def home_of(policy: Policy, known: KnownTables) -> Home | None:
    """Return what the parts of units are; None if no kind of unit has parts."""
    declared = policy.unit_parts
    if declared is None:
        return None
    listed = declared.columns if isinstance(declared, UnitPeriods) else [(declared.table, declared.column)]
    kinds = []
    for name, column in listed:
        table = policy.tables[name]
        types = {fold(each): sql_type for each, sql_type in known.columns(table.name)}
        found = types.get(fold(column))
        dataclasses.replace(declared, table=name, column=column).check_type(found, table)
        kinds.append(str(found))
    for (name, column), kind in zip(listed, kinds, strict=True):
        if (kind == "DATE") is not (kinds[0] == "DATE"):
            raise wrong(
                key_path("tables", name, "unit_period", "column"),
                f"{column} is {kind}, and that of {listed[0][0]} {kinds[0]}: periods of both are compared",
                "name columns of one type",
            )
    (own, date), *others = ((fold(name), fold(column)) for name, column in listed)
    if declared.every is None:
        values = known.number_values(*listed[0]) if kinds[0] in ("VARCHAR", "BOOLEAN") else ()
        return Home(declared.kind, own, date, "value", kinds[0], values=values)
    periods = isinstance(declared, UnitPeriods)
    return Home(declared.kind, own, date, declared.period, ", ".join(kinds), tuple(others), periods)


def _add_parents(policy: Policy, names: Iterable[str]) -> set[str]:
    """Return the names of tables, and of those through which their rows belong to units."""
    found, waiting = set[str](), [*names]
    while waiting:
        table = policy.table(waiting.pop())
        if table is None or table.name in found:
            continue
        found.add(table.name)
        if isinstance(table.unit, UnitVia):
            waiting.append(table.unit.table)
    return found


def _describe_table(table: Table, known: KnownTables, unique: Unique) -> TableFacts:
    columns = known.columns(table.name)
    return TableFacts(
        name=fold(table.name),
        unit=_convert_unit(table),
        columns=tuple((fold(name), sql_type) for name, sql_type in columns),
        unique=frozenset(frozenset(map(fold, names)) for names in unique(table.name)),
        not_null=frozenset(
            fold(name) for name, _ in columns if not table.public and known.not_null(table.name, name)
        ),
        kind="" if table.unit is None else table.unit.kind,
    )


def _convert_unit(table: Table) -> Unit | None:
    match table.unit:
        case UnitPeriod(column=column, date=date):
            return ByPeriod(fold(column), fold(date), table.unit.period)
        case UnitColumn(column=column):
            return ByColumn(fold(column))
        case UnitRow():
            return ByRow()
        case UnitVia(via=via, table=parent, column=key):
            return ByParent(fold(via), fold(parent), fold(key))
    return None
