"""The owner's policy: reads `dpsql.toml` into a `Policy`. Analysts may read all of it.

========================  ==================================================================
``load``, ``load_table``  TOML -> the dataclasses; ``budget``, ``serving`` and ``views`` read their own tables
``model``, ``table``,     the dataclasses, each with the checks of its own fields
``budget``, ``serving``,
``parts``, ``views``
``files``                 the files of a table, and the format of CSV files
``columns``, ``values``   the bounds and domains of a column; conversion of values to the column's type
``addresses``             where the server listens, and the engine
``rules``                 paths of rows to their unit, and the checks of tables against each other
``keys``                  the keys of each TOML table, with their kinds, defaults and meanings
``kinds``, ``section``    how the value of a key is read; one TOML table read by its keys
``schema``                the JSON Schema made of the keys
``names``                 ASCII names compared without case; policy errors
``kernel_facts``          what proofs rest on, made of a policy
========================  ==================================================================
"""

from __future__ import annotations

from dpsql.kernel.facts import fold
from dpsql.policy.addresses import Address, engine_kind
from dpsql.policy.budget import AnalystPolicy, BudgetPolicy, GroupPolicy
from dpsql.policy.columns import ColumnBounds, as_number, fit_bounds
from dpsql.policy.files import (
    CsvFormat,
    CsvSource,
    FileSource,
    ParquetSource,
    files_of,
    partitions,
    split_pattern,
)
from dpsql.policy.keys import KEYS
from dpsql.policy.kinds import show_length
from dpsql.policy.load import load
from dpsql.policy.model import Policy
from dpsql.policy.names import Names, same_name
from dpsql.policy.parts import (
    MOST_ROWS,
    Assumed,
    BooleanDomain,
    DatabaseSource,
    Defaults,
    Domain,
    EnumDomain,
    RangeDomain,
    Source,
    TableDomain,
    Unit,
    UnitColumn,
    UnitRow,
    UnitVia,
    Value,
    ValuesDomain,
    ViewSource,
)
from dpsql.policy.rules import describe_protected, is_one_type, path_of
from dpsql.policy.section import Key
from dpsql.policy.serving import HttpConfig, McpConfig, ServeConfig
from dpsql.policy.table import Table
from dpsql.policy.values import fit
from dpsql.policy.views import View

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
    "Key",
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
    "UnitRow",
    "UnitVia",
    "Value",
    "ValuesDomain",
    "View",
    "ViewSource",
    "as_number",
    "describe_protected",
    "engine_kind",
    "files_of",
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
