"""Columns of an outer query that are computed from released numbers: what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.analysis import Plan
from dpsql.composition.error_bars import Columns
from dpsql.composition.terms import Call, Fold, Form, Known, Opaque, Term, kept, listed
from dpsql.composition.tracing import Rows, United, traced_rows
from dpsql.language import all_of
from dpsql.policy import fold
from dpsql.prepared import Relation

_NO_ERROR = {
    "low": "an end of an interval",
    "high": "an end of an interval",
    "stddev": "a standard deviation",
    "gap": "a gap",
    "p_value": "a p-value",
    "rank": "a rank",
    "quantile": "a quantile",
    "left_out": "an estimate of what is left out",
    "bound": "",
    "key": "",
}


def numbered(
    relations: Sequence[Relation], plans: Sequence[Plan]
) -> tuple[dict[str, dict[int, int | str]], list[tuple[int, int]]]:
    """Number the released numbers: by relation and place, and the release and the number of each.

    Relations of one release have the same numbers.
    """
    found: dict[str, dict[int, int | str]] = {}
    numbers: dict[tuple[int, int], int] = {}
    for relation in relations:
        own, count = found.setdefault(fold(relation.name), {}), 0
        for place, output in enumerate(plans[relation.release].outputs):
            if output.kind == "count":
                own[place] = numbers.setdefault((relation.release, count), len(numbers))
                count += 1
            else:
                own[place] = _NO_ERROR[output.kind]
    return found, list(numbers)


def derived(
    tree: exp.Expr, columns: Columns, released: Mapping[str, Mapping[int, int | str]], width: int, skip: set[int]
) -> tuple[exp.Expr, dict[int, Term], dict[int, str]] | None:
    """Return a query with hidden columns, the terms of its columns in these, and why others have none.

    The tree is changed. The places `skip` are not looked at.
    """
    rows = traced_rows(tree, columns, released, width)
    if rows is None:
        return None
    terms: dict[int, Term] = {}
    why: dict[int, str] = {}
    for place, (_, term) in enumerate(rows.columns):
        if place in skip or isinstance(term, Known):
            continue
        if isinstance(term, Opaque):
            why[place] = term.why
        else:
            terms[place] = _shown(rows, place, term)
    return tree, terms, why


def _shown(rows: Rows, place: int, term: Term) -> Term:
    """Return a term in the names of hidden columns of the outermost query."""
    if isinstance(term, Form):
        if isinstance(rows, United):
            return Form("", (("1", rows.hidden(str(place))),))
        return Form("", tuple((f if f == "1" else rows.hidden(f), rows.hidden(form)) for f, form in term.parts))
    return kept(term, rows.hidden)


def releases_of(term: Term, relations: Sequence[Relation]) -> frozenset[int]:
    """Return the releases that a term may be made of: all that are read."""
    del term
    return frozenset(relation.release for relation in relations)


__all__ = ["Call", "Fold", "all_of", "derived", "listed", "numbered", "releases_of"]
