"""Search and copy trees of the parser; find the names in a query that mean tables, and those of columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from sqlglot import exp

from dpsql.lazy_pattern import lazy_pattern

MARK = "dpsql_fn_"
"""Prefix of a function's name in the parsed tree. The parser knows none of these names, so every call
stays a plain call with its arguments as typed, instead of one of several hundred node types."""

TITLE = "title"
"""Under this key the metadata of a node have its text."""
LARGEST = "largest"
"""Under this one, those of a sum by ranges of its values: the place of the key, its values for the last."""

_CALL = lazy_pattern(r"(?i)(?:(?:CAST\s*)?\(\s*)*(\w+)\s*\(")
_Node = TypeVar("_Node", bound=exp.Expr)


def find_nodes(node: exp.Expr, *types: type[_Node]) -> list[_Node]:
    """Return the nodes of some types in a tree, in the order of `Expr.find_all`, in less time.

    >>> from dpsql.language import parse
    >>> [node.name for node in find_nodes(parse("SELECT a + b FROM t").tree, exp.Column, exp.Table)]
    ['a', 'b', 't']
    """
    return [each for each in walk_tree(node) if isinstance(each, types)]


def walk_tree(node: exp.Expr, ends: Callable[[exp.Expr], bool] | None = None) -> list[exp.Expr]:
    """Return the nodes of a tree, in the order of `Expr.walk`, in less time; none below those that end it.

    >>> from dpsql.language import parse
    >>> [type(node).__name__ for node in walk_tree(parse("SELECT a + 1").tree.selects[0])]
    ['Add', 'Column', 'Literal', 'Identifier']
    """
    found = [node]
    kind: type[exp.Expr] = exp.Expr
    for each in found:
        if type(each) is exp.Identifier or (ends is not None and ends(each)):
            continue
        for value in each.args.values():
            if not value or type(value) is str:
                continue
            if isinstance(value, kind):
                found.append(value)
            elif type(value) is list:
                for part in value:
                    if isinstance(part, kind):
                        found.append(part)  # noqa: PERF401  a list of its own takes longer for few parts
    return found


def read_nodes(tree: exp.Expr) -> tuple[tuple[object, ...], list[tuple[object, dict[str, object] | None]]]:
    """Return what the nodes of a tree hold in their places, and beside it their comments and positions.

    It stays as it is when the tree changes. What the answer says of a block ("note") is left out.

    >>> from dpsql.language import parse
    >>> held, _ = read_nodes(parse("SELECT a FROM t").tree)
    >>> [held == read_nodes(parse(text).tree)[0] for text in ("SELECT  a FROM t", "SELECT b FROM t")]
    [True, False]
    """
    held, metas = list[object](), list[tuple[object, dict[str, object] | None]]()
    for node in walk_tree(tree):
        held.append(type(node))
        for key, value in node.args.items():
            if value is None or value is False:
                continue
            if isinstance(value, exp.Expr):
                held.append(key)
            elif type(value) is list:
                held.append((key, *(None if isinstance(each, exp.Expr) else each for each in value)))
            else:
                held.append((key, value))
        meta = node._meta  # noqa: SLF001  the property makes a dictionary for every node
        if meta and "note" in meta:
            meta = {key: value for key, value in meta.items() if key != "note"}
        metas.append((node.comments and tuple(node.comments), meta.copy() if meta else None))
    return tuple(held), metas


def list_given(node: exp.Expr) -> set[str]:
    """Return the names of the arguments that a node of the parser has.

    >>> sorted(list_given(exp.select("a").from_("t")))
    ['expressions', 'from_']
    """
    return {name for name, value in node.args.items() if value}


def make_call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Make a call of a function of dpsql by its own name, which no dialect reads in another way."""
    return exp.Anonymous(this=f"{MARK}{name}", expressions=list(arguments))


def copy_tree(node: _Node, *without: str) -> _Node:
    """Return a copy of a tree, as `Expr.copy` does, in less time: what nodes hold beside nodes is shared.

    Of the node itself, the arguments `without` are left out; each keeps its place for what is set then.

    >>> from dpsql.language import parse
    >>> tree = parse("SELECT a + 1 FROM t").tree
    >>> copy_tree(tree) == tree, copy_tree(tree) is tree
    (True, False)
    >>> copy_tree(tree, "from_").sql()
    'SELECT a + 1'
    """
    made = _copy_node(node)
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
                args[key] = child = _copy_node(value)
                child.parent, child.arg_key = new, key
                waiting.append((value, child))
            elif type(value) is list:
                listed: list[object] = []
                args[key] = listed
                for part in value:
                    if isinstance(part, kind):
                        child = _copy_node(part)
                        child.parent, child.arg_key, child.index = new, key, len(listed)
                        waiting.append((part, child))
                        listed.append(child)
                    else:
                        listed.append(part)
            else:
                args[key] = value
    return made


def transform_tree(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a copy of an expression with `change` applied to its parts, not below those that it changes.

    The nodes that `change` gets are those of the expression itself, each before those below it and in the
    order of the text; those in subqueries are not given to it. What it makes belongs to no other tree.
    """
    whole = change(node)
    if whole is not node:
        return whole
    if isinstance(node, exp.Query):
        return copy_tree(node)
    made = _copy_node(node)
    waiting = [*_fill_copy(node, made)][::-1]
    while waiting:
        old, parent, key, index = waiting.pop()
        new = change(old)
        if new is not old:
            above: exp.Expr | None = parent
            while above is not None:
                above._hash, above = None, above.parent  # noqa: SLF001  it is no longer that of the original
        elif isinstance(old, exp.Query):
            new = copy_tree(old)
        else:
            new = _copy_node(old)
            waiting += [*_fill_copy(old, new)][::-1]
        new.parent, new.arg_key, new.index = parent, key, index
        if index is None:
            parent.args[key] = new
        else:
            parent.args[key][index] = new
    return made


def _fill_copy(node: exp.Expr, made: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, str, int | None]]:
    """Give the copy of a node what it holds beside nodes; yield its nodes and their places in the copy."""
    for key, value in node.args.items():
        made.args[key] = [*value] if type(value) is list else value
        if isinstance(value, exp.Expr):
            yield value, made, key, None
        elif type(value) is list:
            for i, each in enumerate(value):
                if isinstance(each, exp.Expr):
                    yield each, made, key, i


def _copy_node(node: _Node) -> _Node:
    """Return the copy of a node without its parts."""
    made = type(node)()
    if node.comments is not None:
        made.comments = list(node.comments)
    meta = node._meta  # noqa: SLF001  the property makes a dictionary for every node
    if meta is not None:
        made._meta = meta.copy()  # noqa: SLF001
    made._hash = node._hash  # noqa: SLF001  the copy is equal
    return made


def name_query(query: exp.Expr, alias: str, *, quoted: bool = True) -> exp.Subquery:
    """Return a query as an item of FROM under a name."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=quoted)))


def find_tables(tree: exp.Expr, databases: Collection[str] = ("main",)) -> Iterator[exp.Table]:
    """Yield the nodes of a query that mean tables: no function, no common table expression.

    `databases` are the names in lower case that may stand before a table's.

    >>> from dpsql.language import parse
    >>> tree = parse("WITH t AS (SELECT * FROM t, u) SELECT * FROM t, main.t, range(3)").tree
    >>> sorted(node.sql() for node in find_tables(tree))
    ['main.t', 't', 'u']
    """
    for node in tree.find_all(exp.Table):
        above = [part.name.lower() for part in node.parts[:-1]]
        plain = isinstance(node.this, exp.Identifier) and not isinstance(node.parent, exp.Into)
        if plain and set(above) <= set(databases) and (above or not _is_cte(node)):
            yield node


def rename_public_schema(nodes: Sequence[exp.Expr]) -> None:
    """Write DuckDB's default schema, `main`, for that of PostgreSQL, `public`, in the nodes of a statement.

    The name of a database before it is left out: there is one.

    >>> from dpsql.language import parse
    >>> parse("SELECT public.t.x FROM clinic.public.t AS t").tree.sql()
    'SELECT main.t.x FROM main.t AS t'
    """
    named: list[exp.Expr] = [n for n in nodes if isinstance(n, exp.Table) and _is_public(n.args.get("db"))]
    if named:  # else the word before a column may be the alias of a table, and its table a struct
        named += [n for n in nodes if isinstance(n, exp.Column) and _is_public(n.args.get("db"))]
    for node in named:
        node.args["db"].set("this", "main")
        node.set("catalog", None)


def separate_distinct_arguments(nodes: Sequence[exp.Expr]) -> None:
    """Give each DISTINCT among the nodes of a statement only the first argument of its call.

    The parser gives all of them to DISTINCT, as MySQL counts rows, and writes them as one row. ORDER BY
    stands at the last argument. `COUNT(DISTINCT a, b)` stays what it is.

    >>> from dpsql.language import parse
    >>> parse("SELECT STRING_AGG(DISTINCT a, ',' ORDER BY a) FROM t").tree.sql("duckdb")
    "SELECT DPSQL_FN_STRING_AGG(DISTINCT a, ',' ORDER BY a) FROM t"
    """
    for node in nodes:
        if not isinstance(node, exp.Distinct):
            continue
        order = node.parent if isinstance(node.parent, exp.Order) else None
        call = node.parent if order is None else order.parent
        others = node.expressions[1:]
        if not isinstance(call, exp.Anonymous) or not others or call.name.lower().endswith("count"):
            continue
        node.set("expressions", node.expressions[:1])
        if order is not None:
            order.replace(node)
            order.set("this", others[-1])
            others[-1] = order
        call.set("expressions", [*call.expressions, *others])


def _is_cte(node: exp.Table) -> bool:
    return any(cte.alias.lower() == node.name.lower() for cte in list_visible_ctes(node))


def _is_public(name: exp.Expr | None) -> bool:
    return name is not None and name.name.lower() == "public"


def list_visible_ctes(node: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the common table expressions that a name at a node may mean, those that go before others first.

    Of each query around the node these are all, or those before the one that the node stands in.
    """
    child: exp.Expr = node
    parent = node.parent
    while parent is not None:
        clause = parent.args.get("with_")
        listed = clause.expressions if isinstance(clause, exp.With) else []
        places = [i for i, cte in enumerate(listed) if cte is child]
        yield from reversed(listed[: places[0]] if places else listed)
        if not isinstance(parent, exp.With):
            child = parent
        parent = parent.parent


def title_of(node: exp.Expr) -> str:
    """Return the name of a column without an alias: its text as the statement has it.

    >>> from dpsql.language import parse
    >>> [title_of(node) for node in parse("SELECT SUM( x ),  count(*) /2, a.b FROM t").tree.selects]
    ['SUM( x )', 'count(*) /2', 'b']
    """
    if isinstance(node, exp.Column):
        return str(node.name)
    text = node.meta_get(TITLE)
    if text is None:
        made = copy_tree(node)  # the generator changes what it writes
        text = made.sql("duckdb", copy=False, normalize_functions=False, comments=False).replace(MARK, "")
    return str(text)


def keep_title(old: exp.Expr, new: exp.Expr) -> exp.Expr:
    """Give a node the title of that in whose place it stands; return it."""
    text = old.meta_get(TITLE)
    if text is not None:
        new.meta[TITLE] = text
    return new


def is_named(node: exp.Expr) -> bool:
    """Return whether an item of a select list has a name of its own."""
    return isinstance(node, (exp.Alias, exp.Column, exp.Star)) or bool(node.args.get("alias"))


def name_calls(tree: exp.Expr, selects: Sequence[exp.Select], *, every: bool) -> None:
    """Name the calls of subqueries that have no alias as PostgreSQL does: `RANK() OVER (..)` is `rank`.

    Those to which no column outside refers only if `every`: no other dialect knows them by such a name.
    """
    nested = [s for s in selects if isinstance(s.parent, exp.CTE) or _is_item(s.parent)]
    if all(is_named(item) for select in nested for item in select.expressions):
        return
    read = [node for node in walk_tree(tree) if isinstance(node, exp.Column)]
    for select in nested:
        own = {id(node) for node in walk_tree(select)}
        asked = {node.name.lower() for node in read if id(node) not in own}
        items = select.expressions
        names = [item.output_name.lower() if is_named(item) else _name_call(item) for item in items]
        for item, name in zip(items, names, strict=True):
            if name and not is_named(item) and names.count(name) == 1 and (every or name in asked):
                item.replace(exp.alias_(copy_tree(item), name, quoted=True, copy=False))


def _is_item(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Subquery) and isinstance(node.parent, (exp.From, exp.Join))


def _name_call(item: exp.Expr) -> str:
    node, written = item, _CALL.match(title_of(item))
    while isinstance(node, (exp.Window, exp.Filter, exp.WithinGroup, exp.Cast, exp.Paren)):
        node = node.this
    if isinstance(node, exp.Column):
        return str(node.name).lower()
    called = written is not None and isinstance(node, exp.Func) and not isinstance(node, exp.Binary)
    return written[1].lower() if written is not None and called else ""
