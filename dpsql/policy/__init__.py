"""The owner's policy: reads `dpsql.toml` into a `Policy`. Analysts may read all of it.

=======================  =====================================================================
``load``                 TOML -> the dataclasses; ``budget``, ``serving`` and ``references`` read their own
                         tables
``model``, ``table``,    the dataclasses, each with the checks of its own fields; ``model`` also makes of a
``budget``, ``serving``  policy what proofs rest on
``table_parts``          the parts of a table: its files, unit and domains
``column_values``        the bounds and domains of a column; conversion of values to the column's type
``references``           paths of rows to their unit, the checks of tables against each other, and views
``part_declarations``    the date by which units are in parts, or of which they have a period
``zones``                the offsets of local times from UTC
``policy_keys``          the keys of each TOML table, with kinds, defaults and meanings; ``table_keys`` has
                         those of tables
``toml_values``          how the value of a key is read; one TOML table read by its keys
``names``                ASCII names compared without case; policy errors
=======================  =====================================================================
"""

from __future__ import annotations

from dpsql.kernel.facts import fold
from dpsql.policy.budget import AnalystPolicy, BudgetPolicy, GroupPolicy
from dpsql.policy.column_values import ColumnBounds, fit, fit_bounds
from dpsql.policy.load import load
from dpsql.policy.model import Policy
from dpsql.policy.names import Address, Names, engine_kind, same_name
from dpsql.policy.part_declarations import UnitParts, UnitPeriod, UnitPeriods
from dpsql.policy.policy_keys import KEYS
from dpsql.policy.references import View, describe_protected, find_owned_keys, is_one_type, path_of
from dpsql.policy.serving import HttpConfig, McpConfig, ServeConfig
from dpsql.policy.table import Table
from dpsql.policy.table_parts import (
    MOST_ROWS,
    Assumed,
    BooleanDomain,
    CsvFormat,
    CsvSource,
    DatabaseSource,
    Defaults,
    Domain,
    EnumDomain,
    FileSource,
    ParquetSource,
    RangeDomain,
    Source,
    TableDomain,
    Unit,
    UnitColumn,
    UnitRow,
    UnitVia,
    UploadedSource,
    ValuesDomain,
    ViewSource,
    files_of,
    partitions,
    split_pattern,
)
from dpsql.policy.toml_values import show_length

__all__ = [
    "KEYS",
    "MOST_ROWS",
    "Address",
    "AnalystPolicy",
    "Assumed",
    "BooleanDomain",
    "BudgetPolicy",
    "ColumnBounds",
    "CsvFormat",
    "CsvSource",
    "DatabaseSource",
    "Defaults",
    "Domain",
    "EnumDomain",
    "FileSource",
    "GroupPolicy",
    "HttpConfig",
    "McpConfig",
    "Names",
    "ParquetSource",
    "Policy",
    "RangeDomain",
    "ServeConfig",
    "Source",
    "Table",
    "TableDomain",
    "Unit",
    "UnitColumn",
    "UnitParts",
    "UnitPeriod",
    "UnitPeriods",
    "UnitRow",
    "UnitVia",
    "UploadedSource",
    "ValuesDomain",
    "View",
    "ViewSource",
    "describe_protected",
    "engine_kind",
    "files_of",
    "find_owned_keys",
    "fit",
    "fit_bounds",
    "fold",
    "is_one_type",
    "load",
    "partitions",
    "path_of",
    "same_name",
    "show_length",
    "split_pattern",
]
