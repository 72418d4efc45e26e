"""Put the policy's views into the statements that read them, as common table expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from dpsql.language import Explain, Query, copied, tables_in
from dpsql.policy import Policy, View, fold

_Statement = TypeVar("_Statement")


def with_views(statement: _Statement, policy: Policy) -> _Statement:
    """Return a statement with the SELECTs of the views that it reads as its first common table expressions.

    There they see none of the statement's own common table expressions. Where the statement, or a view, has
    one of a view's name, the view gets another name.
    """
    if isinstance(statement, Explain):
        return replace(statement, query=with_views(statement.query, policy))
    if not policy.views or not isinstance(statement, Query):
        return statement
    made = _Expansion(statement, policy)
    return made.query if made.names else statement  # type: ignore[return-value]  # a query, as was given


class _Expansion:
    """Puts the views into a copy of a query."""

    def __init__(self, query: Query, policy: Policy) -> None:
        self.policy = policy
        self.names: dict[str, str] = {}
        """The folded names of the views that are read, those that others read first, and their new names."""
        self.databases = {"main"} | ({fold(policy.database.stem)} if policy.database is not None else set())
        self.trees: dict[str, exp.CTE] = {}
        tree = copied(query.tree)
        texts = [tree, *(view.tree for view in policy.views.values())]
        self.taken = {fold(cte.alias) for each in texts for cte in each.find_all(exp.CTE)}
        self.taken |= {fold(name) for name in policy.tables}
        self._put(tree, None, query)
        if self.names:
            self._put_first(tree)
        self.query = replace(query, tree=tree, views=tuple(policy.views[name].name for name in self.names))

    def _put_first(self, tree: exp.Query) -> None:
        """Put the views before the common table expressions of a query."""
        while isinstance(tree, exp.Subquery) and tree.args.get("with_") is None:
            tree = tree.this
        clause = tree.args.get("with_")
        listed = [self.trees[name] for name in self.names]
        first = exp.With(expressions=[*listed, *(clause.expressions if clause is not None else ())])
        if clause is not None and clause.args.get("recursive"):
            first.set("recursive", True)
        tree.set("with_", first)

    def _put(self, tree: exp.Query, at: int | None, query: Query) -> None:
        """Let the names in a query mean the common table expressions of the views that they name."""
        for node in list(tables_in(tree, self.databases)):
            view = self.policy.views.get(node.name) if node.name.isascii() else None
            if view is not None:
                self._read(node, view, query.source.position(node) if at is None else at, query)

    def _read(self, node: exp.Table, view: View, at: int, query: Query) -> None:
        name = fold(view.name)
        if name not in self.names:
            made = copied(view.tree)
            self._put(made, at, query)
            own = view.name
            while fold(own) in self.taken or (own != view.name and own in self.policy.views):
                own += "_"
            self.names[name] = own
            self.taken.add(fold(own))
            alias = exp.TableAlias(this=exp.to_identifier(own, quoted=True))
            self.trees[name] = exp.CTE(this=made, alias=alias)
            for each in self.trees[name].walk():
                each.meta.clear()
                each.meta["view"] = (at, view.name)
                if isinstance(each, exp.Select):
                    each.meta["select"] = -1
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=copied(node.this)))
        named = exp.to_identifier(self.names[name], quoted=True)
        named.meta.update(node.this.meta)
        node.set("this", named)
        node.set("db", None)
        node.set("catalog", None)
