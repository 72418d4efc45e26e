# ruff: noqa: D102  the fields are described in `model`
"""The fields of a policy and its tables that the rules and the fingerprint read.

`Policy` and `Table` call the rules when they are made, so the rules cannot import them. The rules use these
protocols instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from dpsql.policy.budget import AnalystPolicy, BudgetPolicy
from dpsql.policy.parts import Domain, Source, Unit
from dpsql.types import SqlType


class TableFields(Protocol):
    """The fields of a `Table`."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> Source: ...
    @property
    def public(self) -> bool: ...
    @property
    def unit(self) -> Unit | None: ...
    @property
    def columns(self) -> Mapping[str, SqlType] | None: ...
    @property
    def unique(self) -> tuple[tuple[str, ...], ...]: ...
    @property
    def domain(self) -> Mapping[str, Domain]: ...


class PolicyFields(Protocol):
    """The fields of a `Policy`."""

    @property
    def budget(self) -> BudgetPolicy: ...
    @property
    def tables(self) -> Mapping[str, TableFields]: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def database(self) -> Path | None: ...
    @property
    def engine(self) -> str: ...
    @property
    def timeout(self) -> int: ...
    @property
    def analysts(self) -> Mapping[str, AnalystPolicy]: ...
    @property
    def data_version(self) -> str | None: ...
    @property
    def longest_value(self) -> int: ...
