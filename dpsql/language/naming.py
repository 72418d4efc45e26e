"""Find the names in a query that mean tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from dpsql.language.copying import all_of


def tables_in(tree: exp.Expr, databases: Collection[str] = ("main",)) -> Iterator[exp.Table]:
    """Yield the nodes of a query that mean tables: no function, no common table expression.

    `databases` are the names in lower case that may stand before a table's.

    >>> from dpsql.language import parse
    >>> tree = parse("WITH t AS (SELECT * FROM t, u) SELECT * FROM t, main.t, range(3)").tree
    >>> sorted(node.sql() for node in tables_in(tree))
    ['main.t', 't', 'u']
    """
    for node in tree.find_all(exp.Table):
        above = [part.name.lower() for part in node.parts[:-1]]
        plain = isinstance(node.this, exp.Identifier) and not isinstance(node.parent, exp.Into)
        if plain and set(above) <= set(databases) and (above or not _means_cte(node)):
            yield node


def in_main(tree: exp.Expr) -> exp.Expr:
    """Return a parsed statement in which PostgreSQL's default schema, `public`, is DuckDB's: `main`.

    The name of a database before it is left out: there is one.

    >>> from dpsql.language import parse
    >>> parse("SELECT public.t.x FROM clinic.public.t AS t").tree.sql()
    'SELECT main.t.x FROM main.t AS t'
    """
    named: list[exp.Expr] = [n for n in all_of(tree, exp.Table) if _is_public(n.args.get("db"))]
    if named:  # else the word before a column may be the alias of a table, and its table a struct
        named += [n for n in all_of(tree, exp.Column) if _is_public(n.args.get("db"))]
    for node in named:
        node.args["db"].set("this", "main")
        node.set("catalog", None)
    return tree


def _means_cte(node: exp.Table) -> bool:
    return any(cte.alias.lower() == node.name.lower() for cte in visible_ctes(node))


def _is_public(name: exp.Expr | None) -> bool:
    return name is not None and name.name.lower() == "public"


def visible_ctes(node: exp.Expr) -> Iterator[exp.CTE]:
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
