"""The type of a release as this package draws it; `dpsql.release` imports the package, not the reverse."""

# ruff: noqa: D102  the attributes are those of dpsql.Release, which describes them

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from fractions import Fraction

    import pyarrow as pa

    from dpsql.privacy import Charge

__all__ = ["Released"]


class Released(Protocol):
    """The attributes of a `dpsql.Release` that are drawn."""

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
