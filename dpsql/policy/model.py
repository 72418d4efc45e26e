"""The dataclasses `Policy` and `Table`, which are frozen and validated when they are made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpsql.policy import rules
from dpsql.policy.budget import AnalystPolicy, BudgetPolicy
from dpsql.policy.fingerprint import fingerprint
from dpsql.policy.length_rules import LONGEST
from dpsql.policy.names import Names
from dpsql.policy.parts import Domain, Source, Unit
from dpsql.types import SqlType

__all__ = ["Policy", "Table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table. Analysts cannot use tables that are not declared.

    Attributes
    ----------
    name
        As declared; compared without case.
    source
        Where its rows are.
    public, unit
        A private table has a unit, a public one has none.
    columns
        Names and types in order; None: they are taken from the source's schema.
    unique
        Sets of columns that the owner declares unique over the whole table.
    domain
        Public domains of columns.
    trust_source
        Skip reading the source once through its declared types.
    """

    name: str
    source: Source
    public: bool = False
    unit: Unit | None = None
    columns: Mapping[str, SqlType] | None = None
    unique: tuple[tuple[str, ...], ...] = ()
    domain: Mapping[str, Domain] = field(default_factory=Names)
    trust_source: bool = False

    def __post_init__(self) -> None:
        for name, value in rules.checked_table(self).items():
            object.__setattr__(self, name, value)


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
    """The engine that holds the private tables: its name or address, see `engine_rules.ADDRESSES`."""
    timeout: int = 3600
    """Seconds after which an engine other than DuckDB stops a statement; its charge is kept."""
    analysts: Mapping[str, AnalystPolicy] = field(default_factory=dict)
    share_releases: bool = False
    """Whether an analyst may be given a release made for another one, charged to the former's own cap."""
    data_version: str | None = None
    """Changed by the owner when the data change; None: a hash of the files' content."""
    longest_value: int = LONGEST
    """Bytes of UTF-8 of the longest private value that is read; longer ones are NULL, on every engine."""
    fingerprint: str = field(init=False, repr=False, compare=False)
    """Hash of the parts of the policy that answers depend on; budgets and caps are not among them."""

    def __post_init__(self) -> None:
        for name, value in rules.checked_policy(self).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "fingerprint", fingerprint(self))

    def table(self, name: str) -> Table | None:
        """Return the table of that name, compared without case; None if it is not declared."""
        return self.tables.get(name)

    @property
    def id(self) -> str:
        """The identifier of the policy in the ledger: the path of its file relative to the ledger.

        It survives edits of the policy (the budget spent so far must) and moving the folder as a whole,
        and differs between two policies that name one ledger by mistake.
        """
        if self.path is None:
            return "python"
        return Path(os.path.relpath(self.path, self.budget.ledger.absolute().parent)).as_posix()
