"""The policy as the rest of dpsql sees it: frozen, validated when made, whether from a file or in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from dpsql.charge import Charge
from dpsql.policy import budget_rules, rules
from dpsql.policy.fingerprint import fingerprint
from dpsql.policy.length_rules import LONGEST
from dpsql.policy.names import Names
from dpsql.policy.parts import Domain, Source, Unit
from dpsql.types import SqlType

__all__ = ["AnalystPolicy", "BudgetPolicy", "Policy", "Table"]


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """What may be spent in all, what one statement may take, and where it is written down.

    Numbers may be given as `dpsql.charge.exact` reads them (`5`, `"0.7"`, `0.7`); they are held exact.

    Attributes
    ----------
    epsilon, delta
        The policy's total.
    max_epsilon_per_query
        The most one statement may take; None for no such cap.
    max_failures
        How many of an analyst's private statements may fail before further ones are refused. What runs counts
        as if it failed, so this is also how many may run at the same time.
    max_cancelled
        The same for statements that the analyst cancels; None: 20, or `max_failures` if that is more.
    max_failures_total, max_cancelled_total
        The same for all analysts together; None: ten times as many.
    default_epsilon, default_delta
        For statements that name none; None: such statements are refused.
    ledger
        The ledger's file.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    max_epsilon_per_query: Fraction | None = None
    max_failures: int = 3
    default_epsilon: Fraction | None = None
    default_delta: Fraction | None = None
    ledger: Path = Path("dpsql-ledger.sqlite")
    max_failures_total: int | None = None
    max_cancelled: int | None = None
    max_cancelled_total: int | None = None

    def __post_init__(self) -> None:
        budget_rules.read_numbers(self, "budget")
        object.__setattr__(self, "ledger", Path(self.ledger))

    @property
    def total(self) -> Charge:
        """The policy's whole budget."""
        return Charge(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class AnalystPolicy:
    """One analyst's own cap beside the policy's total, which still binds.

    The name `*` stands for each analyst who is not listed. Where somebody is listed, and `*` is not, all
    others are refused. Names are compared exactly; dpsql does not verify who gives one.
    """

    name: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        budget_rules.read_numbers(self, "analysts", self.name)

    @property
    def charge(self) -> Charge:
        """The cap as a charge."""
        return Charge(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class Table:
    """One declared table. What is not declared does not exist.

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
        Sets of columns the owner vouches are unique over the whole table.
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
    """What the owner allows: tables with their privacy units and public domains, and the budget.

    Raises `PolicyError`, naming the key, for anything inconsistent. `load` reads one from `dpsql.toml`.
    """

    budget: BudgetPolicy
    tables: Mapping[str, Table]
    path: Path | None = None
    """The file it was read from."""
    database: Path | None = None
    """The owner's DuckDB database; opened read-only."""
    engine: str = "duckdb"
    """Which engine holds the private tables: `duckdb`, `spark`, `sc://..` or `postgresql://..`."""
    timeout: int = 3600
    """Seconds after which an engine other than DuckDB stops a statement; its charge is kept."""
    analysts: Mapping[str, AnalystPolicy] = field(default_factory=dict)
    share_releases: bool = False
    """Whether an analyst may be given a release made for another one, charged to the former's own cap."""
    data_version: str | None = None
    """Bumped by the owner when the data changed; None: a hash of the content, where it is in files."""
    longest_value: int = LONGEST
    """Bytes of UTF-8 of the longest private value that is read; longer ones are NULL, on every engine."""
    fingerprint: str = field(init=False, repr=False, compare=False)
    """Hash of everything in the policy that an answer can depend on, thus not of budgets and caps."""

    def __post_init__(self) -> None:
        for name, value in rules.checked_policy(self).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "fingerprint", fingerprint(self))

    def table(self, name: str) -> Table | None:
        """Return the table of that name, compared without case; None if it is not declared."""
        return self.tables.get(name)

    @property
    def id(self) -> str:
        """What the ledger knows the policy by: its file's place relative to the ledger.

        It survives edits of the policy (the budget spent so far must) and moving the folder as a whole,
        and differs between two policies that name one ledger by mistake.
        """
        if self.path is None:
            return "python"
        return Path(os.path.relpath(self.path, self.budget.ledger.absolute().parent)).as_posix()
