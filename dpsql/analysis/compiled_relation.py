"""Compiled relations, public or private, and the scopes that resolve column names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import field
from operator import is_

from sqlglot import exp

from dpsql.analysis.typed_expression import Typed
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr, Query
from dpsql.kernel.tree import Source as TreeSource
from dpsql.language import StatementText, replace_name, write_name
from dpsql.lazy_dataclass import dataclass, replace
from dpsql.policy import fold
from dpsql.types import SqlType


@dataclass(frozen=True, slots=True)
class Owner:
    """The privacy unit of a private relation: its kind, its type, and whether each row is a unit."""

    kind: str
    type: SqlType | None
    row: bool = False
    table: str = ""
    """The table, if each of its rows is a unit."""
    every: str = ""
    """The length of a period, if a unit is what one did in one period."""

    @property
    def words(self) -> str:
        """What one unit is, in words."""
        if self.row:
            return f"row of {self.table}"
        return f"{self.kind} and {self.every}" if self.every else self.kind


CELL = tree.Column("", "")
"""Stands for a column of a relation, whose generated name is `c0`, `c1`, ..., by its place."""


def list_value(
    name: str,
    value: Typed,
    *,
    fact: bool,
    borrowed: bool = False,
    nulls: bool = True,
    not_negative: bool = False,
) -> Typed:
    """Return the column of a select list that holds an expression."""
    return Typed(
        CELL,
        value.type,
        name=name,
        unit=value.unit,
        domain=value.domain,
        link=value.link if value.is_column else "",
        span=value.span,
        fact=fact,
        borrowed=borrowed,
        bounds=value.bounds,
        nulls=nulls,
        most=value.most if value.is_column and not nulls else None,
        not_negative=not_negative,
        decimal=value.decimal,
    )


@dataclass(frozen=True, slots=True)
class Relation:
    """A compiled SELECT with generated column names. A private one has the hidden unit in column `u`.

    `unique` holds sets of column places that are unique within a unit (private) or in the relation (public).
    `repeats` says that a unit may have more rows than the policy's bound for the tables that are read.
    """

    query: Query
    columns: tuple[Typed, ...]
    owner: Owner | None = None
    unique: frozenset[frozenset[int]] = frozenset()
    repeats: bool = False
    origins: dict[tuple[str, str], Origin] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """The origins made of it so far, by the generated name and the alias in FROM; `replace` keeps none."""

    def unique_in(self, origin: Origin) -> frozenset[frozenset[Expr]]:
        """Return the sets of unique columns, of the relation as it is in FROM."""
        return frozenset(frozenset(origin.columns[i].node for i in places) for places in self.unique)


@dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression. Each reference to it is a subquery of its own."""

    name: str
    query: exp.Expr
    columns: tuple[str, ...]
    visible: tuple[Cte, ...]
    """The common table expressions before it, which it may name."""


def find_cte(name: str, ctes: tuple[Cte, ...]) -> Cte | None:
    """Return the last of the visible common table expressions with a name; None if there is none."""
    return next((cte for cte in reversed(ctes) if fold(cte.name) == fold(name)), None)


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a select list: its expression and the name it gets."""

    node: exp.Expr
    name: str
    borrowed: bool = False
    """Whether `*` means it, which names no column of a parent table (see `Typed.borrowed`)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A relation of a FROM clause under its alias: its visible names and its compiled columns."""

    alias: str
    names: tuple[str, ...]
    columns: tuple[Typed, ...]
    _named: dict[str, list[Typed]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def find_columns(self, key: str) -> list[Typed]:
        """Return the columns with a folded name; the names are folded at the first use."""
        if not self._named:
            found: dict[str, list[Typed]] = {}
            for name, column in zip(self.names, self.columns, strict=True):
                found.setdefault(fold(name), []).append(column)
            self._named.update(found)
        return self._named.get(key, [])

    def may_have(self, node: exp.Column) -> bool:
        """Return whether a name may mean one of the columns, whatever table it names: a quick check."""
        field = node.args.get("table") is not None and any("." in name for name in self.names)
        return field or bool(self.find_columns(fold(node.name)))

    def map_columns(self, change: Callable[[Typed], Typed]) -> Origin:
        """Return the relation with `change` applied to each column; itself if it changes none."""
        made = tuple(map(change, self.columns))
        same = all(map(is_, made, self.columns))
        return self if same else Origin(self.alias, self.names, made)


@dataclass(frozen=True, slots=True)
class Block:
    """The SELECT block around an expression: the owner of its rows, and what the expression may contain."""

    owner: Owner | None
    unit: Expr | None
    """The expression of the hidden unit; None for public rows."""
    ctes: tuple[Cte, ...] = ()
    depth: int = 1
    columns: tuple[Expr, ...] = ()
    """All generated columns of the block's rows, which make an ORDER BY total."""
    named: dict[str, exp.Expr] = field(default_factory=dict)
    """The windows of the WINDOW clause, by folded name."""
    windows: bool = False
    """Whether window functions are allowed here."""
    find_values: Callable[[Typed], Typed] | None = None
    """Return an expression over the block's rows with its public values; None: nobody asks for them."""

    def choose(self, made: Typed, value: Typed, *, sure: bool) -> Typed:
        """Return what chooses one of the values that an expression has in several rows, or NULL.

        Its public values are those of the expression. `sure` says that there always is a row to choose.
        """
        known = value if self.find_values is None else self.find_values(value)
        return replace(made, domain=known.domain, span=known.span, nulls=known.nulls or not sure)


@dataclass(slots=True)
class Scope:
    """The names that an expression may use: columns of FROM, then aliases of the select list."""

    source: StatementText
    origins: tuple[Origin, ...] = ()
    merged: dict[str, Typed] = field(default_factory=dict)
    """Columns merged by USING, by folded name."""
    aliases: dict[str, Typed] = field(default_factory=dict)
    intercept: Callable[[exp.Expr], Typed | None] | None = None
    """Called first for every node; in grouped blocks it returns keys and aggregates as columns."""
    block: Block | None = None
    """The block around the expression; None where subqueries and windows are not allowed."""
    memo: dict[int, Typed] = field(default_factory=dict)
    """Compiled expressions by the `id` of their node. A subquery compiled again would get new names."""
    outer: Scope | None = None
    """The outer scope of a correlated subquery."""

    def copy(self) -> Scope:
        """Return a scope with the same names, to which aliases can be added separately."""
        return replace(self, merged=dict(self.merged), aliases=dict(self.aliases), memo={})

    def join(self, origin: Origin) -> Scope:
        """Return the scope of the rows of this one joined with a relation."""
        return Scope(self.source, (*self.origins, origin), dict(self.merged))

    @property
    def columns(self) -> list[Typed]:
        """The columns that FROM gives, each with its type."""
        return [column for origin in self.origins for column in origin.columns]

    def has(self, key: str) -> bool:
        """Return whether a column of FROM has a folded name."""
        return key in self.merged or any(o.find_columns(key) for o in self.origins)

    def may_have(self, node: exp.Column) -> bool:
        """Return whether a column may be found here: a quick check before `resolve`."""
        table, key = node.args.get("table"), fold(node.name)
        if table is not None and self._find_field(node) is not None:
            return True
        if self.outer is not None or (table is None and (key in self.merged or key in self.aliases)):
            return True
        origins = [o for o in self.origins if table is None or fold(o.alias) == fold(table.name)]
        return any(o.find_columns(key) for o in origins)

    def resolve(self, node: exp.Column) -> Typed:
        """Return the column that a name refers to: columns before aliases. An ambiguous name is refused."""
        name, key = node.name, fold(node.name)
        table = node.args.get("table")
        if table is not None and (field := self._find_field(node)) is not None:
            return self.resolve(field)
        if len(node.parts) > 2 and self.outer is not None and self.outer.may_have(node):
            return self.outer.resolve(node)
        if node.args.get("catalog") or (node.args.get("db") and fold(node.args["db"].name) != "main"):
            raise self.source.refuse("a column is named as table.column, or main.table.column", node)
        if not name.isascii():
            raise self.source.refuse("names outside ASCII are not supported", node)
        if table is None and key in self.merged:
            return self.merged[key]
        origins = self.origins
        if table is not None:
            origins = tuple(o for o in origins if fold(o.alias) == fold(table.name))[:1]
        found = [(origin.alias, column) for origin in origins for column in origin.find_columns(key)]
        found = [f for f in found if not f[1].borrowed] or found
        if len(found) > 1:
            first, *others = dict.fromkeys(alias for alias, _ in found)
            if not others:
                raise self.source.refuse(f"column {name} occurs twice", node, "give one of them another name")
            alone = isinstance(node.parent, exp.Join)  # ON has nothing but the column
            hint = f"USING ({name})" if alone else f"write {first}.{name} or {others[0]}.{name}"
            if not {first, others[0]} <= {*re.findall(r"\w+", self.source.text)}:
                hint = f"give the subquery a name, such as q, and write q.{name} of it"
            raise self.source.refuse(f"column {name} is in several tables", node, hint)
        if found:
            return found[0][1]
        if table is None and key in self.aliases:
            return self.aliases[key]
        if self.outer is not None and (table is None or not origins):
            return self.outer.resolve(node)
        if table is None:
            raise self._refuse_unknown(node, name, [n for o in origins for n in o.names] + list(self.aliases))
        if not origins:
            known = [f"{o.alias}.{n}" for o in self.origins for n in o.names]
            raise self._refuse_unknown(node, f"{fold(table.name)}.{name}", known)
        raise self._refuse_unknown(node, f"{origins[0].alias}.{name}", list(origins[0].names))

    def _find_field(self, node: exp.Column) -> exp.Column | None:
        """Return the column that a name with dots means if it is a field: `address.city` or `t.address.city`.

        A field is a column named as such. A table of FROM with the column goes before it.
        """
        parts = [part.name for part in node.parts]
        if len(parts) == 2 and any(o.find_columns(fold(parts[1])) for o in self._find_origins(parts[0])):
            return None
        if len(parts) > 2 and fold(parts[0]) == "main" and self._find_origins(parts[1]):
            parts = parts[1:]
        whole, below = ".".join(parts), ".".join(parts[1:])
        place = {"start": node.parts[0].meta.get("start"), "end": node.parts[-1].meta.get("end")}
        if len(parts) > 2 and any(o.find_columns(fold(below)) for o in self._find_origins(parts[0])):
            return _name_column(below, place, parts[0])
        return _name_column(whole, place) if self.has(fold(whole)) else None

    def _find_origins(self, name: str) -> list[Origin]:
        """Return the relations of FROM with an alias: one, or none."""
        return [o for o in self.origins if fold(o.alias) == fold(name)][:1]

    def _refuse_unknown(self, node: exp.Column, name: str, known: list[str]) -> Exception:
        own = name if known and "." in known[0] else node.name
        close = difflib.get_close_matches(own, list(dict.fromkeys(known)), 2)
        close = [each for each in close if not _has_other_word(own, each)]
        shown = ", ".join(dict.fromkeys(known))
        fields = [n for n in known if fold(n).startswith(f"{fold(own)}.")]
        if fields:
            struct = f"it is a STRUCT: name one of its fields, such as {fields[0]}"
            return self.source.refuse(f"there is no column {name}", node, struct, unknown="column")
        hint, fix = f"columns here: {shown[:200]}" if shown else None, None
        if close:
            whole = "." in close[0]  # with a table or STRUCT before it
            hint = f"did you mean {close[0] if whole else write_name(close[0])}?"
            fix = replace_name(node.this, close[0]) if not whole else None
            near = difflib.get_close_matches(own, close, 2, 0.75)
            sure = len(near) == 1 and fold(near[0][:1]) == fold(own[:1])
            if fix is not None and not sure and not difflib.get_close_matches(own, near[:1], 1, 0.85):
                fix = replace(fix, guess=f"{close[0]} for {own}")
        return self.source.refuse(f"there is no column {name}", node, hint, fix, unknown="column")


def _has_other_word(name: str, other: str) -> bool:
    """Return whether names have the same words but for one: `patient_name` is no `patient_id`.

    >>> _has_other_word("patient_name", "patient_id"), _has_other_word("visit_dat", "visit_date")
    (True, False)
    """
    words = [*zip(name.lower().split("_"), other.lower().split("_"), strict=False)]
    same = name.count("_") == other.count("_") == 1
    return same and any(difflib.SequenceMatcher(None, a, b).ratio() < 0.6 for a, b in words)


def _name_column(name: str, place: dict[str, int | None], table: str | None = None) -> exp.Column:
    """Return a column's name as a node, at a place of the statement."""
    made = exp.to_identifier(name, quoted=True)
    made.meta.update({key: value for key, value in place.items() if value is not None})
    return exp.Column(this=made, table=exp.to_identifier(table, quoted=True) if table else None)


@dataclass(frozen=True, slots=True)
class From:
    """A compiled FROM clause: its source, scope, owner, and the expression of the hidden unit.

    `unique` holds sets of generated columns that are unique within a unit (or, if public, at all), `repeats`
    is that of `Relation`.
    """

    source: TreeSource
    scope: Scope
    owner: Owner | None
    unit: Expr | None
    unique: frozenset[frozenset[Expr]] = field(default_factory=frozenset)
    repeats: bool = False

    def repeats_beside(self, right: Relation, pairs: Iterable[tuple[Typed, Typed]]) -> bool:
        """Return whether a unit may have more rows once rows are joined of which each meets several.

        Of two private sides one must have a row for each unit, and a public left side a unique key that is
        equated.
        """
        if self.repeats or right.repeats or right.owner is None:
            return True
        if self.owner is not None:
            return frozenset() not in self.unique | right.unique
        equated = {a.node for a, b in pairs if a.type == b.type or (a.type.integer and b.type.integer)}
        return not any(places <= equated for places in self.unique)


def select_list(unit: Expr | None, prefix: str, values: Iterable[Expr]) -> tuple[tree.Item, ...]:
    """Return the items of a SELECT over owned rows: the hidden unit `u`, then the values."""
    hidden = () if unit is None else (tree.Item(unit, "u"),)
    return (*hidden, *tree.items(prefix, values))
