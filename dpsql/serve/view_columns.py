"""The columns of the policy's views, for the catalogue; nothing is run."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.composition import describe_view
from dpsql.errors import Error
from dpsql.language import Options
from dpsql.types import HUGEINT, VARCHAR, SqlType, column_type

if TYPE_CHECKING:
    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.policy import Policy

Columns = tuple[tuple[str, SqlType], ...]


def view_columns(policy: Policy, schema: SchemaDatabase) -> dict[str, Columns]:
    """Return names and types of the columns of each view; none of a view that is refused by itself."""
    budget = policy.budget
    defaults = Options(
        epsilon=budget.default_epsilon, delta=budget.default_delta, confidence=Fraction(95, 100)
    )
    found: dict[str, Columns] = {}
    for name, view in policy.views.items():
        try:
            described = describe_view(view, policy, schema, defaults)
        except Error:
            continue
        names, types = (described.column(place).to_pylist() for place in (0, 1))
        found[name] = tuple((column, _type(kind)) for column, kind in zip(names, types, strict=True))
    return found


def _type(text: str) -> SqlType:
    """Return a type as the engine writes it; those that no column of a policy has are shown as near ones."""
    try:
        return column_type(text)
    except ValueError:
        return HUGEINT if text.startswith(("HUGEINT", "UHUGEINT", "DECIMAL")) else VARCHAR
