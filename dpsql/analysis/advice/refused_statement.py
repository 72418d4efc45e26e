"""A refused statement as advice reads it: its text, its tables, and what the policy says of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.compiler import list_declared_tables
from dpsql.analysis.schema_catalog import Catalog
from dpsql.errors import Fix, Obstacle, QueryRefused, QuerySyntaxError
from dpsql.language import (
    BlockText,
    Explain,
    Outline,
    Query,
    find_nodes,
    parse,
    replace_name,
    walk_tree,
    write_name,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Policy, Table, TableDomain, UnitColumn, UnitVia, fold, path_of

_SET_OPERATIONS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)

Advice = tuple[str | None, Fix | None] | tuple[str | None, Fix | None, str]
"""A hint, its fix, and perhaps a message that says better what is wrong."""


@dataclass(frozen=True, slots=True)
class FromTable:
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
class RefusedStatement:
    """A refused statement, with its text and what the policy and the tables' schema say."""

    query: Query
    policy: Policy
    catalog: Catalog
    outline: Outline = field(init=False)
    _written: exp.Expr | None = field(default=None, init=False)
    """The tree of the text as it was typed, once it was parsed."""

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

    def original(self, node: exp.Expr) -> exp.Expr:
        """Return the node of the whole statement at a node's place in the text; itself if none is there."""
        at, written = self.query.source.position(node), self._parse()
        if written is None:
            return node
        same = (n for n in find_nodes(written, type(node)) if self.query.source.position(n) == at)
        return next(same, node)

    def _parse(self) -> exp.Expr | None:
        """Return the tree of the text, which nobody changes; None if it does not parse."""
        if self._written is None:
            with suppress(QueryRefused, QuerySyntaxError):
                whole = parse(self.text)
                query = whole.query if isinstance(whole, Explain) else whole
                self._written = query.tree if isinstance(query, Query) else self.query.tree
        return self._written

    def call(self, node: exp.Expr) -> tuple[int, int, tuple[str, ...]] | None:
        """Return where the call of a node stands, as it is written, and its arguments; None if it is none."""
        start = self.query.source.position(node)
        token = next((t for t in self.outline.tokens if t.start == start), None)
        found = None if token is None else self.outline.call_around(start, token.text)
        return found if found is not None and found[0] == start else None

    def list_tables(self, select: exp.Select) -> list[FromTable]:
        """Return the declared tables of a FROM clause."""
        return [
            FromTable(node.alias_or_name, table, node, self.columns(table))
            for node, table in list_declared_tables(self.policy, select)
        ]

    def items(self, select: exp.Select, block: BlockText, begin: int) -> list[tuple[str, str]]:
        """Return the text of each item of a select list without its name, and its name, "" for none."""
        spans = [] if block.from_ is None else self.outline.items(begin, block.from_.start)
        if len(spans) != len(select.expressions):
            return []
        found = list[tuple[str, str]]()
        for (start, end), item in zip(spans, select.expressions, strict=True):
            text, name = self.text[start:end], item.alias if isinstance(item, exp.Alias) else ""
            named = re.search(rf"(?is)\s+(?:AS\s+)?\"?{re.escape(name)}\"?\Z", text) if name else None
            bare = re.sub(
                r"(?i)\A(?:DISTINCT\b|TOP\b\s*(?:\(\s*\d+\s*\)|\d+))\s*",
                "",
                text if named is None else text[: named.start()],
            )
            found.append((bare, "" if named is None else name))
        return found

    def outermost(self, node: exp.Expr) -> BlockText | None:
        """Return the text of the block around a node if the block is the whole statement; else None."""
        block, first = self.outline.block(self.query.source.position(node)), self.outline.block(0)
        several = block is not None and any(t.token_type in _SET_OPERATIONS for t in block.clauses)
        return block if block == first and not several else None

    def columns(self, table: Table) -> tuple[str, ...]:
        """Return the names of a declared table's columns."""
        return tuple(name for name, _ in self.catalog.columns(table.name))


def change_all(fixes: list[Fix]) -> Advice | None:
    """Return the advice to make all of several changes, of which the hint shows the first; None for none."""
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def add_clause(text: str, at: int, clause: str) -> Fix:
    """Return the fix that adds a clause at a place, with blanks around it."""
    before = "" if at and text[at - 1].isspace() else " "
    after = " " if at < len(text) and not text[at].isspace() and text[at] not in ");" else ""
    return Fix(f"{before}{clause}{after}", at, at)


def add_row_condition(text: str, block: BlockText, condition: str) -> Fix:
    """Return the fix that adds a condition to WHERE, behind what stands there."""
    where = block.clause(TokenType.WHERE)
    if where is None:
        return add_clause(text, block.before(TokenType.WHERE), f"WHERE {condition}")
    begin, at = where.end + 1, len(text[: block.stop(where)].rstrip())
    if not re.search(r"(?i)\bOR\b", text[begin:at]):
        return Fix(f" AND {condition}", at, at)
    return Fix(f" ({text[begin:at].strip()}) AND {condition}", begin, at)


def rename_column(of: RefusedStatement, node: exp.Column, name: str) -> Advice:
    """Return the advice to write another name for a column."""
    return f"did you mean {write_name(name)}?", replace_name(node.this, name)


def join_clause(of: RefusedStatement, table: Table, to: FromTable) -> tuple[str, int] | None:
    """Return the clause that joins a table to one of FROM, and the place behind that."""
    joined = to.node.parent if isinstance(to.node.parent, exp.Join) else to.node
    ends = [n.meta["end"] + 1 for n in walk_tree(joined) if "end" in n.meta]
    if not ends or table is to.table:
        return None
    starts = [n.meta["start"] for n in walk_tree(joined) if "start" in n.meta]
    for token in of.outline.tokens:  # behind the parentheses that close then
        between = of.text[min(starts) : max(ends)]
        if token.start >= max(ends) and token.text == ")" and between.count("(") > between.count(")"):
            ends.append(token.end + 1)
    select = to.node.find_ancestor(exp.Select)
    owner = to.table.unit
    if isinstance(owner, UnitVia) and fold(owner.table) == fold(table.name):
        on = f"ON {to.alias}.{owner.via} = {table.name}.{owner.column}"
        return f"JOIN {table.name} {f'USING ({owner.via})' if owner.via == owner.column else on}", max(ends)
    if to.table.unit is not None and table.unit is not None:
        mine = table.unit.column if isinstance(table.unit, UnitColumn) else None
        path = path_of(of.policy.tables, to.table)  # of the table that has the unit, if it is another one
        via = path[-1].unit if path else None
        unit = via.column if isinstance(via, UnitColumn) else to.unit
        if mine is None or unit is None:
            return None
        same = fold(mine) == fold(unit) and to.unit is not None
        both = dict.fromkeys((*table.key_columns, *to.table.key_columns))
        keys = [k for k in both if to.column(k) and k in of.columns(table) and fold(k) != fold(mine)]
        several = [n for n in of.list_tables(select) if n.column(mine)] if select is not None else []
        if same and len(several) > 1 and joined.args.get("on") is not None:
            tied = " AND ".join(f"{to.alias}.{key} = {table.name}.{key}" for key in (mine, *keys))
            return f"JOIN {table.name} ON {tied}", max(ends)
        on = f"USING ({', '.join([mine, *keys])})" if same else f"ON {to.alias}.{unit} = {table.name}.{mine}"
        return f"JOIN {table.name} {on}", max(ends)
    for column, domain in to.table.domain.items():
        if isinstance(domain, TableDomain) and fold(domain.table) == fold(table.name):
            if fold(column) == fold(domain.column):
                return f"JOIN {table.name} USING ({column})", max(ends)
            return f"JOIN {table.name} ON {to.alias}.{column} = {table.name}.{domain.column}", max(ends)
    keys = [key for key in table.key_columns if to.column(key) is not None]
    return (f"JOIN {table.name} USING ({keys[0]})", max(ends)) if table.public and len(keys) == 1 else None


def replace_forms(
    *forms: tuple[str, str], hint: str = "", asks: str = "", guess: str = "", provided: str = ""
) -> Callable[[RefusedStatement, exp.Expr, Obstacle], Advice | None]:
    """Return what advises by the text alone: to write the first of several patterns that it has otherwise.

    The hint shows what is written, or says that a part is left out, if it is not given.
    """

    def advise(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
        for form, written in forms:
            found = [
                m for m in re.finditer(f"(?is){form}", of.text) if of.text.count("'", 0, m.start()) % 2 == 0
            ]
            fixes = [Fix(m.expand(written), *m.span()) for m in found]
            if fixes:
                told = found[0].expand(asks)
                first = replace(fixes[0], also=tuple(fixes[1:]), asks=told, guess=guess, provided=provided)
                return hint or fixes[0].text.strip() or "leave it out", first
        return None

    return advise
