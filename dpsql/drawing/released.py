"""What this room needs of a `dpsql.Release`, which stands above it and draws itself with it."""

# ruff: noqa: D102  the attributes are those of dpsql.Release, which describes them

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from fractions import Fraction

    import pyarrow as pa

    from dpsql.charge import Charge

__all__ = ["Released"]


class Released(Protocol):
    """What is drawn of a `dpsql.Release`, which stands above this room and draws itself with it."""

    @property
    def rows(self) -> pa.Table: ...
    @property
    def table(self) -> pa.Table: ...
    @property
    def counts(self) -> Sequence[str]: ...
    @property
    def selection(self) -> str: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def charge(self) -> Charge: ...
    @property
    def scale(self) -> float: ...
    @property
    def confidence(self) -> Fraction: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def reused(self) -> datetime | None: ...
    @property
    def charged_again(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
