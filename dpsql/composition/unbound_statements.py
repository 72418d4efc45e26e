"""Say why an outer query does not bind, and refuse one that may fail: a failure would come after the charge.

What the engine says of released columns becomes a refusal. A conversion of texts is tried on all values that
its text may have: those of a constant, of a public table, or the declared ones of a released key. Where these
are not known, it may fail.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.composition.existence import READS_ROWS, aggregates
from dpsql.composition.prepared import PreparedPublic
from dpsql.engines import UnboundQuery
from dpsql.errors import Fix, OperationalError, ProgrammingError, QueryRefused
from dpsql.kernel.tree import literal_sql, quote
from dpsql.language import (
    AllGroups,
    Outline,
    Query,
    Statement,
    TopK,
    find_nodes,
    list_given,
    read_clause,
    walk_tree,
)
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import fold

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.analysis.text_conversions import TextConversion
    from dpsql.engines.schema_database import SchemaDatabase

_TYPES = lazy_pattern(r"No function matches the given name and argument types '([^(']+)\((.*)\)'")
_GROUPED = lazy_pattern(r'column "([^"\n]{1,100})" must appear in the GROUP BY clause')
_TWICE = lazy_pattern(r'Ambiguous reference to column name "([^"\n]{1,100})"')
_ORDERED = lazy_pattern(r'Could not ORDER BY column "([^"\n]{1,100})"')
_ELAPSED = lazy_pattern(r"(?is)(DAY|EPOCH)S?\s+FROM\s+(MIN|MAX|MEDIAN)\s*\((.*)\)")


def refuse_unbound(query: Query, problem: UnboundQuery) -> QueryRefused:
    """Return the refusal of a statement whose outer query does not bind.

    The engine saw released columns alone. Its words are told where nothing better is known of them: they are
    about the statement's text.
    """
    what, name = problem.missing_name
    if what:
        said, at = f"there is no {what} {name}", _last(query, name)
        return query.source.refuse(said, at, *_find_meant(query, name, at), unknown=what)
    if (found := _TYPES.search(problem.message)) is not None:
        return _refuse_types(query, *found.groups())
    if 'for the function call "+(' in problem.message:
        return _refuse_added_text(query)
    if (found := _GROUPED.search(problem.message)) is not None:
        said, at = f"{found[1]} is neither grouped nor aggregated", _last(query, found[1])
        written = f"ANY_VALUE({found[1]})"
        fix = (
            None if at is None else Fix(written, at, at + len(found[1]), asks=f"any {found[1]} of each group")
        )
        return query.source.refuse(said, at, f"add it to GROUP BY, or take {written}", fix)
    if (found := _ORDERED.search(problem.message)) is not None:
        return _refuse_order_by(query, found[1])
    if "same number of result columns" in problem.message:
        return _different_widths(query, problem)
    if "WHERE clause cannot contain aggregates" in problem.message:
        return _compared_with_all(query)
    if "cannot contain window functions" in problem.message:
        return _windows_in_having(query)
    if problem.message.startswith("Window functions are not supported here"):
        return _window_without_over(query)
    if (found := _TWICE.search(problem.message)) is not None:
        said = f"column {found[1]} is in several relations"
        return query.source.refuse(said, _last(query, found[1]), "name the relation before it")
    if (
        problem.message.startswith("ORDER BY non-integer literal")
        and (quoted := _quote_name(query)) is not None
    ):
        return quoted
    named = re.search(r'"([^"]+)"', problem.message)
    return query.source.refuse(problem.message, _last(query, named[1]) if named else None)


def refuse_public(statement: Statement, prepared: PreparedPublic) -> QueryRefused | None:
    """Return the refusal of a public statement that does not bind, as far as it is known why."""
    try:
        prepared.engines.schema_database.describe_over({}, prepared.sql)
    except UnboundQuery as problem:
        refused = refuse_unbound(statement, problem) if isinstance(statement, Query) else None
        return None if refused is None or refused.message == problem.message else refused
    return None


def _different_widths(query: Query, problem: UnboundQuery) -> QueryRefused:
    """Return the refusal of a set operation of which one SELECT has more columns than the one before."""
    for node in walk_tree(query.tree):
        if isinstance(node, exp.SetOperation):
            first, second = len(node.this.selects), len(node.expression.selects)
            if first != second and second:
                said = f"the SELECT before this one has another number of columns: {first}, not {second}"
                hint = (
                    f"as many in each: {'NULL AS name' if second < first else 'NULL'} stands for one it lacks"
                )
                return query.source.refuse(said, node.expression.selects[0].unalias(), hint)
    return query.source.refuse(problem.message)


def _find_meant(query: Query, name: str, at: int | None) -> tuple[str | None, Fix | None]:
    """Return the hint and the fix of a name that no released column has: a near one, or Oracle's ROWNUM."""
    text = query.source.text
    first = re.search(r"(?i)\s+(?:WHERE|AND)\s+ROWNUM\s*(<=?)\s*(\d+)", text)
    if first is not None and fold(name) == "rownum":
        limit = f" LIMIT {int(first[2]) - (first[1] == '<')}"
        return limit.strip(), Fix("", *first.span(), also=(Fix(limit, len(text), len(text)),))
    unnamed = [*re.finditer(rf"(?i)\b\w+\(\s*(?:\w+\.)?{re.escape(name)}\s*\)(?=\s*,|\s+FROM\b)", text)]
    unnamed = [m for m in unnamed if at is None or not m.start() < at < m.end()]
    if len(unnamed) == 1:
        written = f"{unnamed[0][0]} AS {name}"
        return written, Fix(f" AS {name}", unnamed[0].end(), unnamed[0].end())
    known = {n.alias for n in walk_tree(query.tree) if isinstance(n, exp.Alias)}
    known |= {n.name for n in walk_tree(query.tree) if isinstance(n, exp.Column)} - {name}
    close = difflib.get_close_matches(name, sorted(known - {name}), 1, 0.7)
    if not close and isinstance(query.tree, exp.Select):
        derived = getattr(query.tree.args.get("from_"), "this", None)
        inner = derived.this if isinstance(derived, exp.Subquery) else None
        return _name_number(query, inner, name) or (None, None)
    if not close or at is None:
        return None, None
    return f"did you mean {close[0]}?", Fix(close[0], at, at + len(name))


def _quote_name(query: Query) -> QueryRefused | None:
    """Return the refusal of ORDER BY with a text that is the name of a column: names are in double quotes."""
    texts = {n.alias for n in walk_tree(query.tree) if isinstance(n, exp.Alias)}
    tokens = [t for t in Outline.of(query.source.text).tokens if t.token_type == TokenType.STRING]
    named = [t for t in tokens if t.text in texts]
    if not named:
        return None
    last, said = named[-1], "ORDER BY has a text, which orders nothing"
    written = f'"{last.text}"'
    return query.source.refuse(said, last.start, written, Fix(written, last.start, last.end + 1))


def _last(query: Query, name: str) -> int | None:
    """Return the last place of a name in the statement's text; None if it is not there."""
    places = [t.start for t in Outline.of(query.source.text).tokens if fold(t.text) == fold(name)]
    return places[-1] if places else None


def _refuse_types(query: Query, name: str, given: str) -> QueryRefused:
    """Return the refusal of a function that has no form for the types that it is given."""
    if name in ("+", "-") and given == "VARCHAR, INTERVAL":
        return _refuse_moved_text(query)
    if name == "+" and "VARCHAR" in given:
        return _refuse_added_text(query)
    types = given.replace("STRING_LITERAL", "VARCHAR").replace("INTEGER_LITERAL", "INTEGER")
    said = f"{name} is not allowed with ({types}): released numbers are DOUBLE"
    words = ("extract", "date_part", "datepart") if name == "date_part" else (name,)
    outline, text = Outline.of(query.source.text), query.source.text
    at = next((t.start for t in outline.tokens if t.text.lower() in words), None)
    call = None if at is None else outline.call_around(at, text[at:].split("(")[0].strip())
    elapsed = None if call is None else _ELAPSED.fullmatch(", ".join(call[2]).strip())
    if call is not None and name == "round" and len(call[2]) == 2 and call[2][0].isdigit():
        written = f"ROUND({call[2][1]}, {call[2][0]})"
        return query.source.refuse(said, at, written, Fix(written, call[0], call[1]))
    if call is None or elapsed is None:
        return query.source.refuse(said, at)
    part, aggregate, value = elapsed.groups()
    # Of dates and of points of time alike, these are seconds for each row.
    seconds = f"{aggregate}(EXTRACT(EPOCH FROM ({value})))"
    written = f"TRUNC({seconds} / 86400)" if part.upper() == "DAY" else seconds
    said = f"{aggregate.upper()} of a time between two is a number, which has no {part.upper()}"
    return query.source.refuse(said, at, written, Fix(written, call[0], call[1]))


def _refuse_moved_text(query: Query) -> QueryRefused:
    """Return the refusal of a text that an INTERVAL is added to, as MySQL reads days."""
    said, outline = (
        "an INTERVAL is added to a DATE or TIMESTAMP, or taken from one",
        Outline.of(query.source.text),
    )
    moved = (
        node for node in find_nodes(query.tree, exp.Add, exp.Sub) if isinstance(node.expression, exp.Interval)
    )
    sides = [node.this.unnest() for node in moved]
    spans = {
        span for side in sides if isinstance(side, exp.Column) and (span := outline.span(side)) is not None
    }
    if len(spans) != 1:
        return query.source.refuse(said, None, "CAST(.. AS DATE)")
    (span,) = spans
    written = f"CAST({query.source.text[slice(*span)]} AS DATE)"
    return query.source.refuse(said, span[0], written, Fix(written, *span))


def _refuse_order_by(query: Query, name: str) -> QueryRefused:
    """Return the refusal of ORDER BY a name that no column of a set operation has."""
    at, tree = _last(query, name), query.tree
    while isinstance(tree, exp.SetOperation):
        tree = tree.this
    named = _name_number(query, tree, name) or ("name a column of the first SELECT, or its place", None)
    return query.source.refuse(f"there is no column {name}", at, *named)


def _name_number(query: Query, tree: exp.Expr | None, name: str) -> tuple[str, Fix] | None:
    """Return the hint and the fix that give the only number of a query the name that it is called by."""
    items = tree.expressions if isinstance(tree, exp.Select) else []
    numbers = [item for item in items if not isinstance(item, (exp.Alias, exp.Column, exp.Star))]
    span = Outline.of(query.source.text).span(numbers[0]) if len(numbers) == 1 else None
    if span is None:
        return None
    written = query.source.text[span[0] : span[1]]
    return f"{written} AS {name}", Fix(f" AS {name}", span[1], span[1], guess=f"{name} for it")


def _compared_with_all(query: Query) -> QueryRefused:
    """Return the refusal of an aggregate in WHERE over released rows: it is a subquery over all of them."""
    said, tree = "WHERE has no aggregates: it reads one row at a time", query.tree
    select = tree if isinstance(tree, exp.Select) else None
    where = read_clause(select) if select is not None else None
    calls = [] if where is None else [n for n in walk_tree(where) if aggregate_name(n) is not None]
    block, grouped = Outline.of(query.source.text).block(0), select is not None and select.args.get("group")
    clause = None if block is None else block.clause(TokenType.WHERE)
    if grouped and block is not None and clause is not None:
        moved = f"HAVING {query.source.text[clause.end + 1 : block.stop(clause)].strip()}"
        at = block.before(TokenType.HAVING)
        added = Fix("", clause.start, block.stop(clause), also=(Fix(f" {moved} ", at, at),))
        return query.source.refuse(
            said, clause.start, moved, None if isinstance(where, exp.Connector) else added
        )
    first = select.args["from_"].this if select is not None and len(calls) == 1 else None
    span = Outline.of(query.source.text).span(calls[0]) if isinstance(first, exp.Table) else None
    if span is None or first is None:
        return query.source.refuse(said, calls[0] if calls else None, "(SELECT MAX(n) FROM ..)")
    written = f"(SELECT {query.source.text[span[0] : span[1]]} FROM {first.name})"
    return query.source.refuse(said, calls[0], written, Fix(written, *span))


def _windows_in_having(query: Query) -> QueryRefused:
    """Return the refusal of a window in HAVING or WHERE: QUALIFY has them."""
    said, text = "HAVING and WHERE have no windows: QUALIFY selects by them", query.source.text
    block = Outline.of(text).block(0)
    having = None if block is None else block.clause(TokenType.HAVING) or block.clause(TokenType.WHERE)
    if block is None or having is None or block.clause(TokenType.QUALIFY) is not None:
        return query.source.refuse(said, None, "QUALIFY ..")
    condition = text[having.end + 1 : block.stop(having)].strip()
    at = block.before(TokenType.QUALIFY)
    if re.search(r"(?i)\b(AND|OR)\b", condition):
        return query.source.refuse(said, having.start, f"QUALIFY {condition}")
    moved = Fix(f"QUALIFY {condition} ", at, at) if at > block.stop(having) else None
    changed = Fix("QUALIFY", having.start, having.end + 1)
    fix = changed if moved is None else Fix("", having.start, block.stop(having), also=(moved,))
    return query.source.refuse(said, having.start, f"QUALIFY {condition}", fix)


_ROW_WINDOWS = lazy_pattern(
    r"(?i)\b(?:LAG|LEAD|(?:DENSE_|PERCENT_)?RANK|CUME_DIST|ROW_NUMBER|FIRST_VALUE|LAST_VALUE|NTILE)\s*\((?:[^()]|\([^()]*\))*\)(?!\s*OVER\b)"
)


def _window_without_over(query: Query) -> QueryRefused:
    """Return the refusal of LAG and the like without OVER, which is in the order of the first group key."""
    said, tree, text = "this function is a window: OVER says in which order", query.tree, query.source.text
    group = tree.args.get("group") if isinstance(tree, exp.Select) else None
    keys = group.expressions if group is not None else []
    span = Outline.of(text).span(keys[0]) if keys else None
    calls = [*_ROW_WINDOWS.finditer(text)]
    if span is None or not calls:
        return query.source.refuse(said, None, "LAG(n) OVER (ORDER BY ..)")
    ranked = re.fullmatch(
        r"(?is)((?:DENSE_|PERCENT_)?RANK|ROW_NUMBER|CUME_DIST)\s*\(\s*(\S.*)\)", calls[0][0]
    )
    if ranked is not None:
        written = f"{ranked[1]}() OVER (ORDER BY {ranked[2].strip()} DESC)"
        return query.source.refuse(
            said, calls[0].start(), written, Fix(written, *calls[0].span(), guess="DESC")
        )
    over = f" OVER (ORDER BY {text[slice(*span)]})"
    fixes = [Fix(over, m.end(), m.end()) for m in calls]
    first = replace(fixes[0], guess="the order", also=tuple(fixes[1:]))
    return query.source.refuse(said, calls[0].start(), f"{calls[0][0]}{over}", first)


_MOST_TRIED = 100_000
"""The most declared groups of which a conversion is tried."""
_CONDITIONED = (exp.Connector, exp.Not, exp.Where, exp.Having, exp.Qualify, exp.If, exp.Join, exp.Filter)
"""What reads a condition."""


def refuse_several_rows(query: Query, outer: exp.Query, plans: Mapping[str, Plan]) -> None:
    """Refuse a subquery in the place of a value that has a row of each of several declared groups."""
    for sub in find_nodes(outer, exp.Subquery):
        inner = sub.this
        if isinstance(sub.parent, READS_ROWS) or not isinstance(inner, exp.Select):
            continue
        if list_given(inner) - {"expressions", "from_"} or aggregates(inner):
            continue
        plan = plans.get(fold(inner.args["from_"].this.name)) if inner.args.get("from_") else None
        if plan is None or plan.domain_size is None or not isinstance(plan.selection, (AllGroups, TopK)):
            continue
        most = plan.selection.k if isinstance(plan.selection, TopK) else plan.selection.limit
        size = plan.domain_size - plan.outside
        if min(size, size if most is None else most) > 1:
            raise query.source.refuse(
                f"a subquery in the place of a value has one row, and this one has {size:,} groups",
                plan.query.tree.args.get("group"),
                "leave GROUP BY out, or choose one group in WHERE",
            )


def refuse_failing(
    query: Query, made: Sequence[TextConversion], database: SchemaDatabase, plans: Mapping[str, Plan]
) -> None:
    """Refuse a statement with a conversion that may fail; `plans` has those of its released relations."""
    for each in made:
        if _may_fail(each, database, plans):
            raise _refuse(query, each)


def _may_fail(made: TextConversion, database: SchemaDatabase, plans: Mapping[str, Plan]) -> bool:
    """Return whether a conversion fails for some value that its text may have, as far as is known."""
    rows, least = _find_values(made, plans)
    if rows is None or made.tried is None:
        return True
    fails = f"{made.value} IS NOT NULL AND {made.tried} IS NULL"
    with suppress(OperationalError, ProgrammingError, QueryRefused):
        found = database.run(f"SELECT COUNT(*), COUNT(*) FILTER (WHERE {fails}) FROM ({rows}) AS r")
        known, failing = (column[0].as_py() for column in found.columns)
        return bool(known < least or failing)
    return True


def _find_values(made: TextConversion, plans: Mapping[str, Plan]) -> tuple[str | None, int]:
    """Return the SELECT of all values `v` of a text, and how many rows it has at least; None if not known."""
    if made.text is not None:
        return f"SELECT {literal_sql(made.text)} AS v", 1
    if made.origin is None:
        return None, 0
    table, column = made.origin
    if made.public:
        return f"SELECT {quote(column)} AS v FROM main.{quote(table)}", 0
    plan = plans[fold(table)]
    output = next((o for o in plan.outputs if fold(o.name) == fold(column)), None)
    size, sparse = plan.domain_size, plan.compiled.sparse is not None
    if output is None or output.kind != "key" or size is None or size > _MOST_TRIED or sparse:
        return None, 0
    # The private tables are empty there, so it has the declared groups alone.
    return f"SELECT k{output.of} AS v FROM ({plan.compiled.sql}) AS g", size - plan.outside


def _refuse(query: Query, made: TextConversion) -> QueryRefused:
    """Return the refusal of a conversion over released rows that may fail after the charge."""
    source, tree, outline = query.source, query.tree, Outline.of(query.source.text)
    if made.text is not None:
        texts = find_nodes(tree, exp.Literal)
        text = next((n for n in texts if n.args.get("is_string") and str(n.this) == made.text), None)
        if text is not None and isinstance(text.parent, exp.Add):
            return _refuse_added_text(query)
        return source.refuse(f"this text is not a valid {made.type}", text, f"CAST(NULL AS {made.type})")
    said = f"a text of {made.column} may not be a valid {made.type}"
    if made.type == "strptime":
        said = f"a text of {made.column} may not have the format"
        call = next((t for t in outline.tokens if t.text.lower() == "strptime"), None)
        if call is None:
            return source.refuse(said, _find_last(outline, made.column), "try_strptime(..)")
        return source.refuse(said, call.start, "try_strptime", Fix("try_strptime", call.start, call.end + 1))
    if made.type.startswith("date"):
        said = f"{made.type} reads no part of a time from {made.column}"
        return source.refuse(said, _find_last(outline, made.column), "name the part: 'month'")
    for cast in find_nodes(tree, exp.Cast):
        span = outline.span(cast.this)
        reads = any(fold(n.name) == fold(made.column) for n in find_nodes(cast.this, exp.Column))
        if span is None or not reads or isinstance(cast, exp.TryCast):
            continue
        before = re.search(r"(?i)\bCAST\s*\(\s*\Z", source.text[: span[0]])
        if before is not None:
            start = before.start()
            return source.refuse(said, start, "TRY_CAST", Fix("TRY_CAST", start, start + len("CAST")))
        behind = re.compile(r"\s*::\s*(\w+)(?!\s*\()").match(source.text, span[1])
        if behind is not None:
            written = f"TRY_CAST({source.text[slice(*span)]} AS {behind[1]})"
            return source.refuse(said, span[0], written, Fix(written, span[0], behind.end()))
    named = [n for n in find_nodes(tree, exp.Column) if fold(n.name) == fold(made.column)]
    if made.type == "BOOLEAN":
        at = next((n for n in named if isinstance(n.parent, _CONDITIONED)), named[0] if named else None)
        said = f"a condition must be BOOLEAN, {made.column} is VARCHAR"
        key = (
            None
            if at is None or at.find_ancestor(exp.Ordered) is None
            else re.search(
                r"(?i)\bORDER\s+BY\s+[\w.]+\s+(AND)\s+[\w.]+(?:\s+(?:ASC|DESC))?\s*(?:LIMIT\b|;|\Z)",
                source.text,
            )
        )
        if key is not None:
            return source.refuse(said, at, "a comma", Fix(",", key.start(1) - 1, key.end(1)))
        return source.refuse(said, at, f"{made.column} = '..'")
    at = next((n for n in named if isinstance(n.parent, (exp.Binary, exp.Between, exp.In))), None)
    span = None if at is None else outline.span(at)
    if at is None or span is None:
        return source.refuse(
            said, at or _find_last(outline, made.column), f"TRY_CAST({made.column} AS {made.type})"
        )
    written = f"TRY_CAST({source.text[slice(*span)]} AS {made.type})"
    return source.refuse(said, at, written, Fix(written, *span))


def _refuse_added_text(query: Query) -> QueryRefused:
    """Return the refusal of `+` between a number and a text, which `||` joins."""
    every, outline = [*find_nodes(query.tree, exp.Add)], Outline.of(query.source.text)
    written = [add for add in every if any(_is_word(each) for each in (add.this, add.expression))] or every
    places = (_find_plus(query.source.text, outline, add) for add in written)
    plus = sorted(at for at in places if at >= 0)
    said = "+ adds numbers, and one of these is a text"
    if not plus or len(plus) < len(written):
        return query.source.refuse(said, None, "|| joins texts")
    fixes = [Fix("||", at, at + 1) for at in plus]
    return query.source.refuse(said, plus[0], "||", replace(fixes[0], also=tuple(fixes[1:])))


def _find_plus(text: str, outline: Outline, add: exp.Add) -> int:
    """Return the place of a `+` between two operands of which one is found in the text; -1: none is."""
    left, right = outline.span(add.this), outline.span(add.expression)
    if right is not None:
        return text.rfind("+", 0, right[0])
    return -1 if left is None else text.find("+", left[1])


def _is_word(node: exp.Expr) -> bool:
    """Return whether a node is a text, and no number."""
    return (
        isinstance(node, exp.Literal) and node.is_string and re.fullmatch(r"[-+\d.eE\s]*", node.name) is None
    )


def _find_last(outline: Outline, name: str) -> int | None:
    """Return the last place of a name in a text; None if it is not there."""
    return next((t.start for t in reversed(outline.tokens) if fold(t.text) == fold(name)), None)
