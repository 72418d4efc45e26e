"""Copy trees of the parser."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

_Node = TypeVar("_Node", bound=exp.Expr)


def copied(node: _Node) -> _Node:
    """Return a copy of a tree, as `Expr.copy` does, in less time: what nodes hold beside nodes is shared.

    >>> from dpsql.language import parse
    >>> tree = parse("SELECT a + 1 FROM t").tree
    >>> copied(tree) == tree, copied(tree) is tree
    (True, False)
    """
    made = _alone(node)
    waiting: list[tuple[exp.Expr, exp.Expr]] = [(node, made)]
    while waiting:
        old, new = waiting.pop()
        args = new.args
        for key, value in old.args.items():
            if isinstance(value, exp.Expr):
                args[key] = child = _alone(value)
                child.parent, child.arg_key = new, key
                waiting.append((value, child))
            elif type(value) is list:
                args[key] = [_inside(new, key, i, each, waiting) for i, each in enumerate(value)]
            else:
                args[key] = value
    return made


def _inside(
    new: exp.Expr, key: str, index: int, value: object, waiting: list[tuple[exp.Expr, exp.Expr]]
) -> object:
    """Return the copy of an item of a list."""
    if not isinstance(value, exp.Expr):
        return value
    child = _alone(value)
    child.parent, child.arg_key, child.index = new, key, index
    waiting.append((value, child))
    return child


def _alone(node: _Node) -> _Node:
    """Return the copy of a node without its parts."""
    made = type(node)()
    meta, known = node._meta, node._hash  # noqa: SLF001  the property makes a dictionary for every node
    if node.comments is not None:
        made.comments = list(node.comments)
    if meta is not None:
        made.meta.update(meta)
    made._hash = known  # noqa: SLF001  the copy is equal
    return made
