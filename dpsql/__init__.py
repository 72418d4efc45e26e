# ruff: noqa: F403, F405  the names of `dbapi` and `errors` are listed there, in their own `__all__`
"""dpsql: differentially private SQL on DuckDB, PostgreSQL and Spark.

::

    import dpsql
    con = dpsql.connect("dpsql.toml", analyst="alice")

For research without SQL: `dpsql.mechanisms`, `dpsql.estimates` and `dpsql.noise`.

Names load when they are first used, so that `import dpsql` (and the command line's `--help`) stays light.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from dpsql import errors
from dpsql.errors import *
from dpsql.old_objects import made_old
from dpsql.package_version import VERSION

if TYPE_CHECKING:
    from dpsql.database import Database
    from dpsql.dbapi import *
    from dpsql.kernel.loss import Charge
    from dpsql.ledger import Budget
    from dpsql.policy import Policy
    from dpsql.release import Release

__version__ = VERSION

__all__ = [  # noqa: RUF022  grouped: connecting, results, PEP 249's constants and types; exceptions follow
    "connect",
    "Connection",
    "Cursor",
    "Explanation",
    "Database",
    "Policy",
    "Release",
    "Charge",
    "Budget",
    "apilevel",
    "threadsafety",
    "paramstyle",
    "STRING",
    "BINARY",
    "NUMBER",
    "DATETIME",
    "ROWID",
    "Date",
    "Time",
    "Timestamp",
    "DateFromTicks",
    "TimeFromTicks",
    "TimestampFromTicks",
    "Binary",
]
__all__ += errors.__all__

_MODULES = {
    "Database": "dpsql.database",
    "Policy": "dpsql.policy",
    "Release": "dpsql.release",
    "Charge": "dpsql.kernel.loss",
    "Budget": "dpsql.ledger",
}
"""Name of `__all__` -> its module; all other names that are loaded late are in `dpsql.dbapi`."""
_SUBPACKAGES = {"estimates", "mechanisms", "noise"}
"""Modules that are attributes of `dpsql` without an import of their own."""


def __getattr__(name: str) -> object:
    if name in _SUBPACKAGES:
        return import_module(f"dpsql.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
    value: object = getattr(_load(_MODULES.get(name, "dpsql.dbapi")), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: object) -> None:
    """Add `%%dpsql` to a notebook: `%load_ext dpsql`."""
    load = import_module("dpsql.notebook").load
    load(shell)


def _load(module: str) -> ModuleType:
    """Import a module, without searches for garbage among what its imports make: they find none."""
    with made_old():
        return import_module(module)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
