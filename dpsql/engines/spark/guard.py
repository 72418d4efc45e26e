"""The check that a fact of uniqueness in the policy cannot become false unnoticed: Spark enforces none."""

from __future__ import annotations

from dpsql.errors import PolicyError
from dpsql.policy import ParquetSource, Policy


def check_facts(policy: Policy) -> None:
    """Raise `PolicyError` if a table could change unnoticed after its unique facts were tested."""
    for table in policy.tables.values():
        seen = (
            isinstance(table.source, ParquetSource) and table.source.path.is_file()
        )  # its content is its version
        if table.unique and not (table.public or seen or table.trust_source or policy.data_version):
            raise PolicyError(
                f"tables.{table.name}.unique: Spark enforces no uniqueness, and tables may change unnoticed",
                hint='declare data_version = "1" and change it whenever rows are added, or remove unique',
            )
