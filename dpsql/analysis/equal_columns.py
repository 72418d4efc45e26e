"""Find columns that conditions equate with others, and one of them that is public."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dpsql.analysis.row_conditions import KnownRows
from dpsql.kernel.tree import Binary, Cast, Column, Expr, Paren


def find_equal_columns(
    known: KnownRows, conditions: Iterable[Expr], listed: Callable[[str], bool]
) -> Mapping[str, Expr]:
    """Return a column for each private column that conditions equate with it.

    It is one of a public item, else one whose values are public, as `listed` says.
    """
    found: dict[str, Expr] = {}
    for names in _find_classes(known, conditions):
        public = [n for n in names if n.partition(".")[0] in known.items]
        sure = public or [n for n in names if not known.columns[n].type.moment and listed(n)]
        for name in names if sure else ():
            chosen, wanted = known.columns[sure[0]], known.columns[name]
            if name in public or name == sure[0]:
                continue
            if chosen.type == wanted.type:
                found[name] = chosen.node
            elif public and chosen.type.integer and wanted.type.integer:
                found[name] = Cast(chosen.node, wanted.type, bounded=True)
    return found


def _find_classes(known: KnownRows, conditions: Iterable[Expr]) -> list[list[str]]:
    """Return the names of columns that are equal to each other, in order."""
    found: list[set[str]] = []
    for condition in conditions:
        pair = _read_pair(known, condition)
        if pair is not None:
            touched = [s for s in found if s & pair]
            found = [s for s in found if s not in touched]
            found.append(pair.union(*touched))
    return [sorted(names) for names in found]


def _read_pair(known: KnownRows, condition: Expr) -> set[str] | None:
    while isinstance(condition, Paren):
        condition = condition.inner
    if not isinstance(condition, Binary) or condition.operator != "=":
        return None
    names = [_find_name(known, side) for side in (condition.left, condition.right)]
    if names[0] is None or names[1] is None:
        return None
    a, b = known.columns[names[0]].type, known.columns[names[1]].type
    return {names[0], names[1]} if a == b or (a.integer and b.integer) else None


def _find_name(known: KnownRows, node: Expr) -> str | None:
    """Return the name of a column, also of an integer that is converted to a wider one."""
    if isinstance(node, Cast) and node.type.integer and not node.safe:
        node = node.operand
    name = f"{node.table}.{node.name}" if isinstance(node, Column) else ""
    return name if name in known.columns else None
