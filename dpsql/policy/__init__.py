"""The owner's policy: reads `dpsql.toml` into a `Policy`. Analysts may read all of it.

========================  ==================================================================
``load``, ``load_table``  TOML -> the dataclasses (``section`` reads one TOML table)
``model``, ``table``,     the dataclasses, each with the checks of its own fields (with ``domain_rules``,
``budget``, ``parts``     ``engine_rules``, ``length_rules``, ``bounds_rules``, ``accounting_rules``)
``files``                 the files of a table, and the format of CSV files
``serving``               what the server is told, read by ``load_serving``
``rules``                 the checks of tables against each other
``paths``                 the tables through which rows find their unit
``keys``, ``schema``      the keys of each TOML table, with their meanings; the JSON Schema made of them
``lines``                 the lines of the file in which keys stand
``names``                 ASCII names compared without case; policy errors
``assumed``               what an answer rests on that its statement does not say
``values``                conversion of a domain's values to the column's type
``views``                 queries that statements read like tables
``fingerprint``           a hash of the parts that answers depend on
========================  ==================================================================
"""

from __future__ import annotations

from dpsql.policy.assumed import Assumed
from dpsql.policy.bounds_rules import ColumnBounds, as_number, checked_bounds
from dpsql.policy.budget import AnalystPolicy, BudgetPolicy, GroupPolicy
from dpsql.policy.engine_rules import engine_kind
from dpsql.policy.files import (
    CsvFormat,
    CsvSource,
    FileSource,
    ParquetSource,
    files_of,
    partitions,
    split_pattern,
)
from dpsql.policy.keys import KEYS, Key
from dpsql.policy.length_rules import shown_length
from dpsql.policy.load import load
from dpsql.policy.model import Policy
from dpsql.policy.names import Names, fold, same_name
from dpsql.policy.parts import (
    MOST_ROWS,
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
from dpsql.policy.paths import path_of, protected
from dpsql.policy.rules import is_one_type
from dpsql.policy.serving import Address, HttpConfig, McpConfig, ServeConfig
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
    "checked_bounds",
    "engine_kind",
    "files_of",
    "fit",
    "fold",
    "is_one_type",
    "load",
    "partitions",
    "path_of",
    "protected",
    "same_name",
    "shown_length",
    "split_pattern",
]
