"""Search and copy trees of the parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlglot import exp

_Node = TypeVar("_Node", bound=exp.Expr)


def all_of(node: exp.Expr, *types: type[_Node]) -> list[_Node]:
    """Return the nodes of some types in a tree, in the order of `Expr.find_all`, in less time.

    >>> from dpsql.language import parse
    >>> [node.name for node in all_of(parse("SELECT a + b FROM t").tree, exp.Column, exp.Table)]
    ['a', 'b', 't']
    """
    return [each for each in walked(node) if isinstance(each, types)]


def walked(node: exp.Expr, ends: Callable[[exp.Expr], bool] | None = None) -> list[exp.Expr]:
    """Return the nodes of a tree, in the order of `Expr.walk`, in less time; none below those that end it.

    >>> from dpsql.language import parse
    >>> [type(node).__name__ for node in walked(parse("SELECT a + 1").tree.selects[0])]
    ['Add', 'Column', 'Literal', 'Identifier']
    """
    found = [node]
    kind: type[exp.Expr] = exp.Expr
    for each in found:
        if ends is not None and ends(each):
            continue
        for value in each.args.values():
            if isinstance(value, kind):
                found.append(value)
            elif isinstance(value, list):
                for part in value:
                    if isinstance(part, kind):
                        found.append(part)  # noqa: PERF401  a list of its own takes longer for few parts
    return found


def copied(node: _Node, *without: str) -> _Node:
    """Return a copy of a tree, as `Expr.copy` does, in less time: what nodes hold beside nodes is shared.

    Of the node itself, the arguments `without` are left out; each keeps its place for what is set then.

    >>> from dpsql.language import parse
    >>> tree = parse("SELECT a + 1 FROM t").tree
    >>> copied(tree) == tree, copied(tree) is tree
    (True, False)
    >>> copied(tree, "from_").sql()
    'SELECT a + 1'
    """
    made = _alone(node)
    if without:
        made._hash = None  # noqa: SLF001  it is no longer that of the original
    kind: type[exp.Expr] = exp.Expr
    waiting: list[tuple[exp.Expr, exp.Expr]] = [(node, made)]
    while waiting:
        old, new = waiting.pop()
        args = new.args
        for key, value in old.args.items():
            if old is node and key in without:
                args[key] = None
            elif isinstance(value, kind):
                args[key] = child = _alone(value)
                child.parent, child.arg_key = new, key
                waiting.append((value, child))
            elif type(value) is list:
                listed: list[object] = []
                args[key] = listed
                for part in value:
                    if isinstance(part, kind):
                        child = _alone(part)
                        child.parent, child.arg_key, child.index = new, key, len(listed)
                        waiting.append((part, child))
                        listed.append(child)
                    else:
                        listed.append(part)
            else:
                args[key] = value
    return made


def transformed(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a copy of an expression with `change` applied to its parts, not below those that it changes.

    The nodes that `change` gets are those of the expression itself, each before those below it and in the
    order of the text; those in subqueries are not given to it. What it makes belongs to no other tree.
    """
    whole = change(node)
    if whole is not node:
        return whole
    if isinstance(node, exp.Query):
        return copied(node)
    made = _alone(node)
    waiting = [*_places(node, made)][::-1]
    while waiting:
        old, parent, key, index = waiting.pop()
        new = change(old)
        if new is not old:
            above: exp.Expr | None = parent
            while above is not None:
                above._hash, above = None, above.parent  # noqa: SLF001  it is no longer that of the original
        elif isinstance(old, exp.Query):
            new = copied(old)
        else:
            new = _alone(old)
            waiting += [*_places(old, new)][::-1]
        new.parent, new.arg_key, new.index = parent, key, index
        if index is None:
            parent.args[key] = new
        else:
            parent.args[key][index] = new
    return made


def _places(node: exp.Expr, made: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, str, int | None]]:
    """Give the copy of a node what it holds beside nodes; yield its nodes and their places in the copy."""
    for key, value in node.args.items():
        made.args[key] = [*value] if type(value) is list else value
        if isinstance(value, exp.Expr):
            yield value, made, key, None
        elif type(value) is list:
            for i, each in enumerate(value):
                if isinstance(each, exp.Expr):
                    yield each, made, key, i


def _alone(node: _Node) -> _Node:
    """Return the copy of a node without its parts."""
    made = type(node)()
    if node.comments is not None:
        made.comments = list(node.comments)
    meta = node._meta  # noqa: SLF001  the property makes a dictionary for every node
    if meta is not None:
        made._meta = meta.copy()  # noqa: SLF001
    made._hash = node._hash  # noqa: SLF001  the copy is equal
    return made
