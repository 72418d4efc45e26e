"""What is known of relations and expressions of an outer query: on which releases' noise they depend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from dpsql.lazy_dataclass import dataclass

ReleaseNames = frozenset[str]
"""Names of released relations."""

NONE: ReleaseNames = frozenset()


@dataclass(frozen=True, slots=True)
class Dependence:
    """What the value of a column, or of an expression, depends on."""

    noise: ReleaseNames = NONE
    ends: ReleaseNames = NONE
    """The releases of which it is, or holds, an end of an interval."""
    chosen: ReleaseNames = NONE
    """Those of which it is one that noise chose."""


CLEAN = Dependence()


@dataclass(frozen=True, slots=True)
class RelationRows:
    """The rows of a relation."""

    columns: tuple[tuple[str, Dependence], ...] | None
    """The folded names of its columns and their values; None: they are not known."""
    others: Dependence = CLEAN
    """The value of a column whose name is not known."""
    present: ReleaseNames = NONE
    order: ReleaseNames = NONE

    @property
    def values(self) -> tuple[Dependence, ...]:
        """The values of all columns."""
        return (self.others,) if self.columns is None else tuple(value for _, value in self.columns)

    def value(self, name: str) -> Dependence | None:
        """Return the value of a column by its folded name; None: it has no such column."""
        if self.columns is None:
            return self.others
        found = [value for own, value in self.columns if own == name]
        return merge_dependences(found) if found else None


@dataclass(eq=False, slots=True)
class SelectScope:
    """The items of the FROM clause of a SELECT, and the names that its list gives."""

    items: list[tuple[str, RelationRows]] = field(default_factory=list)
    aliases: dict[str, list[Dependence]] = field(default_factory=dict)
    windows: ReleaseNames = NONE
    """The noise in named windows."""

    def found(self, table: str, name: str) -> tuple[list[Dependence], bool]:
        """Return what a column can mean here, and whether it is certain that it means one of these."""
        items = [(alias, rows) for alias, rows in self.items if not table or alias == table]
        found = [rows.value(name) for _, rows in items]
        own = self.aliases.get(name, []) if not table else []
        whole = [value for alias, rows in items if not table and alias == name for value in rows.values]
        named = any(value is not None for value in found) and all(r.columns is not None for _, r in items)
        certain = bool(table and items) or bool(own) or named
        return [*(value for value in found if value is not None), *own, *whole], certain

    @property
    def values(self) -> list[Dependence]:
        """The values of all columns."""
        return [value for _, rows in self.items for value in rows.values]

    @property
    def order(self) -> ReleaseNames:
        """The noise that orders the rows."""
        return frozenset[str]().union(*(rows.order for _, rows in self.items))

    @property
    def present(self) -> ReleaseNames:
        """The noise by which rows are there."""
        return frozenset[str]().union(*(rows.present for _, rows in self.items))


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What is around a query: common table expressions, and the SELECTs that it may refer to."""

    ctes: Mapping[str, RelationRows] = field(default_factory=dict)
    scopes: tuple[SelectScope, ...] = ()
    parameters: ReleaseNames = NONE
    """The names of the parameters of functions that are arguments."""

    def inside(self, scope: SelectScope) -> QueryContext:
        """Return what is around the expressions of a SELECT."""
        return replace(self, scopes=(scope, *self.scopes))


def merge_dependences(values: Iterable[Dependence]) -> Dependence:
    """Return what several values depend on together."""
    noise, ends, chosen = NONE, NONE, NONE
    for value in values:
        noise, ends, chosen = noise | value.noise, ends | value.ends, chosen | value.chosen
    return Dependence(noise, ends, chosen)
