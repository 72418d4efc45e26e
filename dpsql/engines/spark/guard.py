"""The check that a fact of uniqueness in the policy cannot become false unnoticed: Spark enforces none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.errors import PolicyError
from dpsql.policy import ParquetSource

if TYPE_CHECKING:
    from dpsql.policy import Policy

__all__ = ["check_facts"]


def check_facts(policy: Policy) -> None:
    """Raise `PolicyError` where rows could come after a vouched fact was tested, and nobody would know."""
    for table in policy.tables.values():
        seen = isinstance(table.source, ParquetSource) and table.source.path.is_file()  # by its content
        if table.unique and not (table.public or seen or table.trust_source or policy.data_version):
            raise PolicyError(
                f"tables.{table.name}.unique: Spark keeps no fact true, and a table there may change unseen",
                hint='declare data_version = "1" and bump it whenever rows come, or leave unique out',
            )
