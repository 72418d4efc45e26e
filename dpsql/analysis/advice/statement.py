"""The statement that advice is about, with its text, its policy, and the schema of its tables."""

from __future__ import annotations

from dataclasses import field

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.catalog import Catalog
from dpsql.errors import Fix
from dpsql.language import BlockText, Outline, Query
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, UnitColumn, fold

_SET_OPERATIONS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)

Advice = tuple[str | None, Fix | None] | tuple[str | None, Fix | None, str]
"""A hint, its fix, and perhaps a message that says better what is wrong."""


@dataclass(frozen=True, slots=True)
class Named:
    """A declared table in a FROM clause, under its alias."""

    alias: str
    table: Table
    node: exp.Table
    columns: tuple[str, ...]

    def column(self, name: str) -> str | None:
        """Return a column by its folded name."""
        return next((c for c in self.columns if fold(c) == fold(name)), None)

    @property
    def unit(self) -> str | None:
        """The column that holds the privacy unit."""
        return self.table.unit.column if isinstance(self.table.unit, UnitColumn) else None


@dataclass(slots=True)
class Statement:
    """A refused statement."""

    query: Query
    policy: Policy
    catalog: Catalog
    outline: Outline = field(init=False)

    def __post_init__(self) -> None:
        self.outline = Outline.of(self.query.source.text)

    @property
    def text(self) -> str:
        """The statement as it was typed."""
        return self.query.source.text

    @property
    def has_options(self) -> bool:
        """Whether the clause of options was typed."""
        return any(t.text.upper() == "DIFFERENTIAL_PRIVACY" for t in self.outline.tokens)

    def named(self, select: exp.Select) -> list[Named]:
        """Return the declared tables of a FROM clause."""
        first = select.args.get("from_")
        nodes = [first.this if first is not None else None, *(j.this for j in select.args.get("joins") or ())]
        found = []
        for node in nodes:
            table = (
                self.policy.table(node.name) if isinstance(node, exp.Table) and node.name.isascii() else None
            )
            if table is not None and isinstance(node, exp.Table):
                found.append(Named(node.alias_or_name, table, node, self.columns(table)))
        return found

    def outermost(self, node: exp.Expr) -> BlockText | None:
        """Return the block around a node if it is the whole statement; else None."""
        block, first = self.outline.block(self.query.source.position(node)), self.outline.block(0)
        several = block is not None and any(t.token_type in _SET_OPERATIONS for t in block.clauses)
        return block if block == first and not several else None

    def columns(self, table: Table) -> tuple[str, ...]:
        """Return the names of a declared table's columns."""
        return tuple(name for name, _ in self.catalog.columns(table.name))


def clause_at(text: str, at: int, clause: str) -> Fix:
    """Return the fix that adds a clause at a place, with blanks around it."""
    before = "" if at and text[at - 1].isspace() else " "
    after = " " if at < len(text) and not text[at].isspace() and text[at] not in ");" else ""
    return Fix(f"{before}{clause}{after}", at, at)
