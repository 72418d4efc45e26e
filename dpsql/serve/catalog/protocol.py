"""Type of the catalogue, which answers what clients ask of `pg_catalog` and `information_schema`.

It is a protocol of `typing`, so that the server can be tested without the catalogue itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.policy import Policy
    from dpsql.serve.catalog.facts import CatalogAnswer, CatalogDescription, Facts, Route, Signal


class Catalogue(Protocol):
    """Answers questions about tables and settings from the policy. All of it but `knows` blocks."""

    def route(self, text: str) -> Route:
        """Return who answers a statement."""

    def knows(self, text: str, types: Sequence[pa.DataType | None] = ()) -> bool:
        """Return whether it has translated this question before, so that its answer takes no parsing."""

    def describe(
        self, text: str, facts: Facts, types: Sequence[pa.DataType | None] = ()
    ) -> CatalogDescription:
        """Return parameters and columns of a question."""

    def answer(
        self,
        text: str,
        facts: Facts,
        parameters: Sequence[object] = (),
        types: Sequence[pa.DataType | None] = (),
    ) -> CatalogAnswer:
        """Answer a question."""

    def signal(self, text: str, parameters: Sequence[object] = ()) -> Signal | None:
        """Return which connection a question cancels or ends; None if it does neither."""

    def close(self) -> None:
        """Close it."""


class MakeCatalogue(Protocol):
    """What opens the catalogue of a policy, under the name of the database that clients use."""

    def __call__(self, policy: Policy, schema: SchemaDatabase, name: str, /) -> Catalogue:
        """Open it."""
