"""Advise on columns that do not exist, and on arguments of other types."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.advice.joined_tables import find_absent, find_in_tables, has_text, name_of_table
from dpsql.analysis.advice.meant_names import (
    compare_with_value,
    count_key,
    drop_remark,
    find_meant,
    find_measure,
    guess_column,
    is_fitting,
    join_words,
    list_meant,
    name_list,
    quote_text,
)
from dpsql.analysis.advice.refused_statement import (
    Advice,
    FromTable,
    RefusedStatement,
    join_clause,
    rename_column,
)
from dpsql.analysis.aggregate_functions import aggregate_calls, aggregate_name
from dpsql.analysis.compiler import call_name, function_name
from dpsql.errors import Fix, Obstacle
from dpsql.language import find_nodes, replace_name, write_name
from dpsql.policy import CsvSource, TableDomain, ValuesDomain, fold


def advise_on_column(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on a column that does not exist; of another one, only if its values are of that kind."""
    found = _advise_on_column(of, node, one)
    fix, select = one.fix if found is None else found[1], node.find_ancestor(exp.Select)
    if fix is None or select is None or not isinstance(node, exp.Column):
        return found
    kinds = [
        kind
        for n in of.list_tables(select)
        for name, kind in of.catalog.columns(n.table.name)
        if name == fix.text
    ]
    of_day = node.name.lower().endswith(("date", "day")) and not isinstance(
        node.parent, (exp.Binary, exp.Between)
    )
    if kinds and of_day and not node.table and all(kind.moment for kind in kinds):
        day = f"DATE({fix.text})"
        also = tuple(replace(each, text=day) for each in fix.also)
        return day, replace(fix, text=day, guess=f"{fix.text} for {node.name}", also=also)
    if not kinds or any(is_fitting(node, kind) for kind in kinds):
        return found
    listed = [n for n in of.list_tables(select) if not node.table or fold(n.alias) == fold(node.table)]
    return f"columns here: {', '.join(c for n in listed for c in n.columns)[:200]}", None


def _advise_on_column(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    around = node.find_ancestor(exp.Select)
    hidden = [] if around is None or not isinstance(node, exp.Column) else of.list_tables(around)
    own = next(
        (
            n
            for n in hidden
            if fold(n.table.name) == fold(node.args["table"].name if node.args.get("table") else "")
        ),
        None,
    )
    if own is not None and own.column(node.name) is not None and fold(own.alias) != fold(own.table.name):
        return f"did you mean {own.alias}.{node.name}?", replace_name(node.args["table"], own.alias)
    unnamed = name_of_table(of, node, hidden) if isinstance(node, exp.Column) else None
    if unnamed is not None:
        return unnamed
    said = re.fullmatch(r"did you mean ([\w.]+)\?", one.hint or "")
    lacking = isinstance(node, exp.Column) and find_absent(of, node, hidden) is not None
    if said is not None and one.fix is None and isinstance(node, exp.Column) and node.table and not lacking:
        span, parent = of.outline.span(node), node.parent
        sides = [part.sql() for part in parent.args.values()] if isinstance(parent, exp.EQ) else []
        if said[1] in sides:  # it would be compared with itself: the table stands outside of this subquery
            return None, None
        return one.hint, None if span is None or "." not in said[1] else Fix(said[1], *span)
    select, written = node.find_ancestor(exp.Select), of.original(node)
    around = written.find_ancestor(exp.Select)
    if isinstance(written, exp.Column) and around is not None:
        named_call = _name_count(of, written, around)
        named_call = (
            named_call
            or _find_alias(of, written, around)
            or _name_only_number(of, written, around)
            or _count_for_name(of, written)
        )
        if named_call is not None:
            return named_call
    if isinstance(node, exp.Column) and select is not None:
        tables = of.list_tables(select)
        found = _find_misspelt(of, node, tables) or find_meant(of, node, tables)
        found = found or _find_key_of_domain(of, node, tables)
        found = found or name_aggregate(of, node) or _quote_declared_value(of, node, tables)
        found = found or _find_domain_of_table(of, node, tables) or _repeat_number(of, written, around)
        if found is None and (lacking or not any(n.column(node.name) for n in tables)):
            mine = [n for n in tables if not node.table or fold(n.alias) == fold(node.table)]
            found = find_in_tables(of, node, tables) or find_measure(of, node, mine)
            found = found or compare_with_value(of, node, mine) or _name_table(of, node, tables)
            found = found or _name_item(of, node, select)
        if found is not None:
            return found
    if not isinstance(node, exp.Column) or select is None:
        return None
    named = of.list_tables(select)
    here = [n for n in named if not node.table or fold(n.alias) == fold(node.table)] or named
    if (one.hint or "").startswith("did you mean"):
        return list_meant(of, node, here)
    if any(n.column(node.name) for n in here if not node.table):
        return None  # it exists, but not in this place
    return (
        drop_remark(of, node)
        or join_words(of, node, named)
        or advise_on_renamed_column(of, node, one)
        or name_list(of, node, select)
        or quote_text(of, node)
        or _copy_other_side(of, node, here)
        or find_in_tables(of, node, named)
        or _find_by_word(of, node, here)
        or _use_unit(of, node, here)
        or count_key(of, node)
        or _add_inner_key(of, node, select)
        or list_meant(of, node, here)
    )


def advise_on_renamed_column(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on a column that the policy calls otherwise than the header of its file."""
    select = node.find_ancestor(exp.Select)
    if not isinstance(node, exp.Column) or select is None:
        return None
    for named in of.list_tables(select):
        source = named.table.source
        new = dict(source.format.rename).get(node.name) if isinstance(source, CsvSource) else None
        if new is not None and named.column(new) is not None:
            hint, fix, *_ = rename_column(of, node, new)
            return hint, fix and replace(fix, known=True)
    return None


def _name_count(of: RefusedStatement, node: exp.Column, select: exp.Select) -> Advice | None:
    """Advise to name the number itself: `ORDER BY count` means the only COUNT of the select list."""
    if node.table or node.find_ancestor(exp.Order, exp.Having) is None:
        return None
    items = [i for i in select.expressions if call_name(i.unalias()) == fold(node.name)]
    if len(items) != 1:
        return None
    span = of.outline.span(items[0].unalias())
    name = items[0].alias if isinstance(items[0], exp.Alias) else None
    text = write_name(name) if name else None if span is None else of.text[span[0] : span[1]]
    start = node.this.meta.get("start")
    if text is None or start is None:
        return None
    return f"did you mean {text}?", Fix(text, start, node.this.meta["end"] + 1)


def _name_only_number(of: RefusedStatement, node: exp.Column, select: exp.Select) -> Advice | None:
    """Advise to give the only number of the select list the name by which HAVING or ORDER BY calls it."""
    if node.table or node.find_ancestor(exp.Order, exp.Having) is None or node.name.upper() == "ROWNUM":
        return None
    numbers = [i for i in select.expressions if any(aggregate_calls(i.unalias()))]
    counts = not numbers or fold(node.name) == "count"  # HAVING COUNT > 5 beside an AVG
    if counts and select.args.get("group") is not None and fold(node.name) in _COUNT_NAMES:
        at = node.this.meta.get("start")
        fix = (
            None
            if at is None
            else Fix("COUNT(*)", at, node.this.meta["end"] + 1, guess=f"COUNT(*) for {node.name}")
        )
        return "COUNT(*)", fix
    keys = [
        i.alias_or_name for i in select.expressions if fold(node.name) in fold(i.alias_or_name).split("_")
    ]
    if len(keys) == 1:
        return rename_column(of, node, keys[0])
    if len(numbers) != 1 or isinstance(numbers[0], exp.Alias):
        return None
    span = of.outline.span(numbers[0])
    return None if span is None else _give_name(of, span, node.name)


def _find_alias(of: RefusedStatement, node: exp.Column, select: exp.Select) -> Advice | None:
    """Find the name of an item of the select list that differs by a letter or two."""
    if node.table or node.find_ancestor(exp.Order, exp.Having, exp.Qualify, exp.Group) is None:
        return None
    close = difflib.get_close_matches(node.name, [i.alias for i in select.expressions if i.alias], 1, 0.75)
    return rename_column(of, node, close[0]) if close else None


def _count_for_name(of: RefusedStatement, node: exp.Column) -> Advice | None:
    """Write COUNT(*) for the `n` of a formula that has another aggregate: `STDDEV(x) / SQRT(n)`."""
    item, select = node.find_ancestor(exp.Select, exp.Where, exp.Group), node.find_ancestor(exp.Select)
    grouped = select is not None and select.args.get("group") is not None and not select.find(exp.Subquery)
    if grouped and fold(node.name) in _COUNT_NAMES and node.parent is select and "start" in node.this.meta:
        start, end = node.this.meta["start"], node.this.meta["end"] + 1
        return "COUNT(*)", Fix(
            f"COUNT(*) AS {write_name(node.name)}", start, end, guess=f"COUNT(*) for {node.name}"
        )
    at, around = node.this.meta.get("start"), node.parent
    if node.table or fold(node.name) not in _COUNT_NAMES or not isinstance(item, exp.Select) or at is None:
        return None
    while around is not None and around is not select and not any(aggregate_calls(around)):
        around = around.parent
    if around is None or around is select or aggregate_name(around) is not None:
        return None
    return "COUNT(*)", Fix("COUNT(*)", at, node.this.meta["end"] + 1, guess=f"COUNT(*) for {node.name}")


_COUNT_NAMES = frozenset({"n", "count", "cnt", "num", "total", "freq", "frequency", "c", "counts", "number"})
"""What people call the number of rows of a group."""


def _give_name(of: RefusedStatement, span: tuple[int, int], name: str) -> Advice:
    named = f"{of.text[span[0] : span[1]]} AS {write_name(name)}"
    return named, Fix(f" AS {write_name(name)}", span[1], span[1], guess=f"{name} for it")


def _find_misspelt(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """`f.orgin`, where f has a column whose name differs by a letter or two."""
    mine = next((n for n in named if node.table and fold(n.alias) == fold(node.table)), None)
    close = difflib.get_close_matches(fold(node.name), mine.columns, 1, 0.85) if mine is not None else []
    return rename_column(of, node, close[0]) if close else None


def name_aggregate(of: RefusedStatement, node: exp.Column) -> Advice | None:
    """Write the parentheses of `SELECT COUNT x`, which reads as a column COUNT with another name."""
    item, at = node.parent, node.this.meta.get("start")
    named = None if at is None else re.match(r"(?i)(COUNT|SUM|AVG|MIN|MAX|MEDIAN)\s+(\w+)", of.text[at:])
    if named is None or at is None or not isinstance(item, exp.Alias) or fold(item.alias) != fold(named[2]):
        return None
    written = f"{named[1]}({named[2]})"
    return written, Fix(written, at, at + named.end())


def _find_domain_of_table(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """`v.diagnosis = d.diagnosis`, where the values of `v.diagnosis_code` are those of `d.code`."""
    parent = node.parent
    sides = [parent.this, parent.expression] if isinstance(parent, exp.EQ) else [node]
    other = next((side for side in sides if side is not node), None)
    if not isinstance(other, exp.Column) or not node.table or not other.table:
        return None
    mine = next((n for n in named if fold(n.alias) == fold(node.table)), None)
    theirs = next((n for n in named if fold(n.alias) == fold(other.table)), None)
    for column, domain in mine.table.domain.items() if mine is not None and theirs is not None else ():
        if isinstance(domain, TableDomain) and theirs and fold(domain.table) == fold(theirs.table.name):
            fix, second = replace_name(node.this, column), replace_name(other.this, domain.column)
            if fix is not None and second is not None:
                return f"{node.table}.{column} = {other.table}.{domain.column}", replace(fix, also=(second,))
    return None


def _repeat_number(of: RefusedStatement, node: exp.Expr, select: exp.Select | None) -> Advice | None:
    """`n / SUM(n)`, where n is a number of each group: its sum is over all groups."""
    outer = node.parent
    items = select.expressions if select is not None and isinstance(node, exp.Column) else []
    item = next((i for i in items if isinstance(i, exp.Alias) and fold(i.alias) == fold(node.name)), None)
    if item is None or outer is None or not any(aggregate_calls(item.this)):
        return None
    span, at = of.outline.span(item.this), of.query.source.position(node)
    call = of.outline.call_around(at, call_name(outer))
    if span is None or call is None or len(call[2]) != 1:
        return None
    name = of.text[call[0] : of.text.index("(", call[0])]
    written = f"{name}({of.text[span[0] : span[1]]}) OVER ()"
    return written, Fix(written, call[0], call[1])


_COMPARED = (exp.EQ, exp.NEQ, exp.In, exp.Between, exp.Like, exp.ILike)


def _quote_declared_value(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """Quote the text of `clinic = Summit`, if the policy lists it, or has the texts in another table."""
    parent = node.parent
    if node.table or "start" not in node.this.meta:
        return None
    sides = (parent.this, parent.expression) if isinstance(parent, (exp.Or, exp.And)) else ()
    equal = next((s for s in sides if isinstance(s, exp.EQ) and isinstance(s.this, exp.Column)), None)
    for one in named:  # country = DE OR FR
        if equal is None:
            break
        domain = one.table.domain.get(one.column(equal.this.name) or "")
        if isinstance(domain, ValuesDomain) and node.name in domain.values:
            text = f"{equal.this.sql()} = '{node.name}'"
            return text, Fix(text, node.this.meta["start"], node.this.meta["end"] + 1)
    if not isinstance(parent, _COMPARED):
        return None
    if isinstance(parent, (exp.Like, exp.ILike)) and parent.this is not node:
        text = f"'%{node.name}%'"
        return f"{text} is a text", Fix(text, node.this.meta["start"], node.this.meta["end"] + 1, guess=text)
    other = parent.args.get("expression") if parent.this is node else parent.this
    if not isinstance(other, exp.Column):
        return None
    for one in named:
        domain = one.table.domain.get(one.column(other.name) or "")
        values = domain.values if isinstance(domain, ValuesDomain) else ()
        of_table = domain if isinstance(domain, TableDomain) else None
        there = of_table and has_text(of, of.policy.table(of_table.table), of_table.column, node.name)
        if there or node.name in values:
            text = f"'{node.name}'"
            return f"{text} is a text", Fix(text, node.this.meta["start"], node.this.meta["end"] + 1)
    return None


def _name_item(of: RefusedStatement, node: exp.Column, select: exp.Select) -> Advice | None:
    """Name the only call without a name of a subquery in FROM as the query around it does.

    Where each has a name, take the only number that is not named elsewhere.
    """
    sources = [
        getattr(select.args.get("from_"), "this", None),
        *(j.this for j in select.args.get("joins") or ()),
    ]
    derived = [each for each in sources if isinstance(each, exp.Subquery)]
    inner = derived[0].this if len(derived) == 1 else None
    if not isinstance(inner, exp.Select) or inner.args.get("distinct"):
        return None
    if node.table and fold(node.table) != fold(derived[0].alias):
        return None
    unnamed = [i for i, e in enumerate(inner.expressions) if not e.alias and not isinstance(e, exp.Column)]
    read = {fold(c.name) for c in find_nodes(select, exp.Column) if c.find_ancestor(exp.Select) is select}
    numbers = [e.alias for e in inner.expressions if any(aggregate_calls(e)) and fold(e.alias) not in read]
    if not unnamed and len(numbers) == 1:
        return guess_column(of, node, numbers[0])
    block = of.outline.block(of.query.source.position(inner.expressions[0]))
    if len(unnamed) != 1 or block is None or block.from_ is None:
        return None
    items = of.outline.items(block.select.end, block.from_.start)
    if len(items) != len(inner.expressions):
        return None
    begin, end = items[unnamed[0]]
    named = f"{of.text[begin:end].strip()} AS {node.name}"
    return named, Fix(named, begin, end)


def _name_table(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """`AVG(visits)`, where visits is the table."""
    there = of.policy.table(node.name) if node.name.isascii() and not node.table else None
    taken = there is not None and any(n.table is there for n in named)
    joins = [join for n in named if there and not taken and (join := join_clause(of, there, n)) is not None]
    units, select = {n.unit for n in named if n.unit is not None}, node.find_ancestor(exp.Select)
    if there is not None and isinstance(node.parent, exp.Distinct) and not there.public and len(units) == 1:
        return rename_column(of, node, units.pop())
    of_units = there is not None and len(units) == 1 and there.is_key(next(iter(units)))
    if of_units and node.find_ancestor(exp.Group, exp.Select) is not select:  # each row of it is a unit
        return rename_column(of, node, units.pop())
    counts = fold(function_name(node.parent or node) or "") == "count"
    if there is not None and joins and counts:
        if of_units:
            counted = f"DISTINCT {units.pop()}"
            fix = replace_name(node.this, node.name)
            return f"COUNT({counted})", None if fix is None else replace(fix, text=counted)
        keys = re.search(r"USING \((\w+)\)", joins[0][0])
        if keys is None:
            return None
        rows = f"(SELECT {keys[1]}, COUNT(*) AS n FROM {node.name} GROUP BY {keys[1]})"
        return f"{node.name} is a table: {rows} has the number of rows of each {keys[1]}", None
    if there is not None and joins:
        return f"{node.name} is a table: {joins[0][0]}", None
    here = next((n for n in named if not node.table and fold(n.table.name) == fold(node.name)), None)
    at = node.this.meta.get("start")
    if here is not None and counts and at is not None:  # COUNT(visits) FROM visits
        return "COUNT(*)", Fix("*", at, node.this.meta["end"] + 1)
    if here is None or here.unit is None:
        return None
    rows = f"(SELECT COUNT(*) AS n FROM {node.name} GROUP BY {here.unit})"
    return f"{node.name} is a table: {rows} has the number of rows of each {here.unit}", None


def _find_key_of_domain(of: RefusedStatement, node: exp.Column, named: list[FromTable]) -> Advice | None:
    """`v.diagnosis_code = d.diagnosis_code`, where the policy says that the values are those of `d.code`."""
    parent = node.parent
    other = None
    if isinstance(parent, exp.EQ):
        other = parent.expression if parent.this is node else parent.this
    within = (
        None if node.find_ancestor(exp.In) is None or parent is not node.find_ancestor(exp.Select) else parent
    )
    if within is not None and len(within.expressions) == 1:  # code IN (SELECT code FROM codes)
        compared = node.find_ancestor(exp.In)
        other = compared.this if compared is not None else None
        outer = compared.find_ancestor(exp.Select) if compared is not None else None
        named = [*of.list_tables(outer), *named] if outer is not None else named
    if not isinstance(other, exp.Column):
        return None
    mine = [n for n in named if not node.table or fold(n.alias) == fold(node.table)]
    for one in named:
        domain = one.table.domain.get(one.column(other.name) or "")
        there = {fold(n.table.name) for n in mine if n is not one}
        if isinstance(domain, TableDomain) and fold(domain.table) in there:
            return rename_column(of, node, domain.column)
    return None


def _add_inner_key(of: RefusedStatement, node: exp.Column, select: exp.Select) -> Advice | None:
    """Add a column to the groups of the subquery of FROM that has it, where the block around groups by it."""
    first = select.args.get("from_")
    inner = first.this.this if first is not None and isinstance(first.this, exp.Subquery) else None
    group = inner.args.get("group") if isinstance(inner, exp.Select) else None
    if not isinstance(inner, exp.Select) or group is None or not group.expressions or node.table:
        return None
    if not any(n.column(node.name) for n in of.list_tables(inner)):
        return None
    spans = [of.outline.span(each) for each in (inner.expressions[0].unalias(), group.expressions[-1])]
    if None in spans:
        return None
    (shown, grouped), name = [s for s in spans if s is not None], write_name(node.name)
    added = Fix(f", {name}", grouped[1], grouped[1])
    fix = Fix(f"{name}, ", shown[0], shown[0], asks=f"the numbers of each {name}", also=(added,))
    return f"GROUP BY {of.text[grouped[0] : grouped[1]]}, {name} in the subquery", fix


def _copy_other_side(of: RefusedStatement, node: exp.Column, here: list[FromTable]) -> Advice | None:
    """`a.id = b.user_id`, where a has a user_id."""
    parent = node.parent
    if not isinstance(parent, exp.EQ):
        return None
    other = parent.expression if parent.this is node else parent.this
    if not isinstance(other, exp.Column) or fold(other.name) == fold(node.name):
        return None
    known = [c for n in here if (c := n.column(other.name)) is not None]
    return rename_column(of, node, known[0]) if len(known) == 1 and node.table else None


def _find_by_word(of: RefusedStatement, node: exp.Column, here: list[FromTable]) -> Advice | None:
    """`date`, where the only such column is `visit_date`."""
    word = fold(node.name)
    known = [c for n in here for c in n.columns if word in fold(c).split("_")]
    return rename_column(of, node, known[0]) if len(known) == 1 else None


def _use_unit(of: RefusedStatement, node: exp.Column, here: list[FromTable]) -> Advice | None:
    """`COUNT(DISTINCT user_id)`, where the unit is called otherwise."""
    units = [n.unit for n in here if n.unit is not None]
    counted = isinstance(node.parent, exp.Distinct)
    called = "id" in fold(node.name) or fold(node.name).rstrip("s") in ("user", "person", "people", "client")
    if not counted or len(set(units)) != 1 or not called:
        return None
    return rename_column(of, node, units[0])
