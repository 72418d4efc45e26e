"""Find out what to write in the place of an obstacle: the hint and the fix of its refusal.

Advice reads the statement, the policy and the schema of the tables; whether a fix helps is tried later,
with the whole statement. A refusal is recognised by words of its message.

``survey`` finds all obstacles, and advises on joins; ``refused_statement`` is what all read.
``suggested_changes`` advises on calls that are not known or not released, ``foreign_forms`` on forms and
``foreign_functions`` on functions that others have, by ``alike_functions``, ``unknown_names`` and
``meant_names`` on columns,
``argument_types`` on types of arguments, ``group_keys`` on keys of groups, ``wrong_level`` on misplaced
aggregates, ``row_windows`` on windows over rows, ``misplaced_parts`` on others and on columns,
``lifted_parts`` on what belongs into a subquery, ``listed_rows`` on statements that list rows or units,
``joined_tables`` on conditions of joins, ``written_values`` on how numbers and days are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice import (
    argument_types,
    foreign_forms,
    foreign_functions,
    group_keys,
    joined_tables,
    lifted_parts,
    listed_rows,
    misplaced_parts,
    row_windows,
    suggested_changes,
    survey,
    unknown_names,
    written_values,
    wrong_level,
)
from dpsql.analysis.advice.refused_statement import Advice, FromTable, RefusedStatement, add_clause
from dpsql.analysis.aggregate_functions import aggregate_name
from dpsql.analysis.compiler import function_name
from dpsql.analysis.scalar_functions import find_nearest_function
from dpsql.errors import Fix, Obstacle, QueryRefused
from dpsql.language import BlockText, find_nodes, list_conjuncts, replace_name, walk_tree
from dpsql.policy import fold

__all__ = ["RefusedStatement", "advise"]


def move_condition(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise on an unknown function with DISTINCT or `*`, or on an aggregate in WHERE."""
    close = find_nearest_function(function_name(node) or "")
    if close is not None:
        return f"did you mean {close}?", replace_name(node, close)
    where = node.find_ancestor(exp.Where) if aggregate_name(node) is not None else None
    if where is None or where.find_ancestor(exp.Select) is not node.find_ancestor(exp.Select):
        return None
    block = of.outline.block(node.meta.get("start", 0))
    clause = block.clause(TokenType.WHERE) if block is not None else None
    if block is None or clause is None:
        return None
    text = of.text
    stop = block.stop(clause)
    condition = text[clause.end + 1 : stop].strip()
    if len(list_conjuncts(where.this)) != 1:
        return "HAVING filters groups by a count: move this condition there", None
    at = block.before(TokenType.HAVING)
    removed = Fix("", clause.start, stop)
    return f"HAVING {condition}", replace(add_clause(text, at, f"HAVING {condition}"), also=(removed,))


def move_average(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Move a condition on aggregates alone from WHERE to HAVING, where there are groups."""
    select, where = node.find_ancestor(exp.Select), node.find_ancestor(exp.Where)
    grouped = select is not None and select.args.get("group") is not None and aggregate_name(node) is not None
    if where is None or not grouped or select is not where.parent:
        return None
    of_rows = walk_tree(where.this, lambda each: aggregate_name(each) is not None)
    return None if any(isinstance(each, exp.Column) for each in of_rows) else move_condition(of, node, one)


def advise_on_distinct(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise to select declared values instead of SELECT DISTINCT, or else to count the groups."""
    if not isinstance(node, exp.Select):
        node = node.find_ancestor(exp.Select) or node
    if not isinstance(node, exp.Select) or any(
        aggregate_name(n) for e in node.expressions for n in walk_tree(e)
    ):
        return None
    named, spans = of.list_tables(node), [of.outline.span(i.unalias()) for i in node.expressions]
    if {fold(i.unalias().name) for i in node.expressions} <= {fold(n.unit) for n in named if n.unit}:
        return listed_rows.count_rows(of, node, one)
    places = [s for s in spans if s is not None]
    block = of.outline.block(places[0][0]) if places else None
    if len(places) < len(spans) or block is None or node.args.get("group") is not None:
        return None
    text = of.text
    word = text.upper().find("DISTINCT", block.select.end)
    if word < 0 or text[word : places[0][0]].split() != [text[word : word + len("DISTINCT")]]:
        return None
    plain = Fix("", word, places[0][0])
    return _read_declared_values(node, named, plain) or _count_units(of, named, places, block, plain)


def advise_on_private_distinct(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise to select declared values instead of SELECT DISTINCT; None where none are declared."""
    found = advise_on_distinct(of, node, one)
    return found if found is not None and "dp_domain" in (found[0] or "") else None


def advise_on_joined_distinct(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Advise to select declared values instead of the SELECT DISTINCT that a release is joined with."""
    listed = [n for n in find_nodes(of.query.tree, exp.Select) if n.args.get("distinct") is not None]
    found = [
        advice
        for n in listed
        if (advice := advise_on_distinct(of, n, one)) and "dp_domain" in (advice[0] or "")
    ]
    return found[0] if found else None


def _read_declared_values(select: exp.Select, named: list[FromTable], plain: Fix) -> Advice | None:
    """Return the change that reads the declared values of the only column."""
    column = select.expressions[0].unalias()
    read = [name for name, value in select.args.items() if value]
    if len(named) != 1 or len(select.expressions) != 1 or not isinstance(column, exp.Column):
        return None
    table, node = named[0].table, named[0].node
    own = next((c for c in table.domain if fold(c) == fold(column.name)), None)
    if (
        own is None
        or set(read) - {"expressions", "from_", "distinct", "kind"}
        or "start" not in node.this.meta
    ):
        return None
    relation = f"dp_domain({table.name}.{own})"
    there = Fix(relation, node.this.meta["start"], node.this.meta["end"] + 1)
    asks = "the values that the policy declares"
    return f"FROM {relation}", replace(plain, also=(there,), asks=asks)


def _count_units(
    of: RefusedStatement, named: list[FromTable], places: list[tuple[int, int]], block: BlockText, plain: Fix
) -> Advice | None:
    """Return the change that counts the units of each group."""
    units = {n.unit for n in named if n.unit is not None}
    if len(units) != 1:
        return None
    (unit,), text = units, of.text
    keys, count = ", ".join(text[a:b] for a, b in places), f"COUNT(DISTINCT {unit})"
    last, at = places[-1][1], block.before(TokenType.GROUP_BY)
    also = (Fix(f", {count}", last, last), add_clause(text, at, f"GROUP BY {keys}"))
    asks = f"which {keys} have how many {unit}"
    return f"SELECT {keys}, {count} ... GROUP BY {keys}", replace(plain, also=also, asks=asks)


_ADVICE: tuple[tuple[str, Callable[[RefusedStatement, exp.Expr, Obstacle], Advice | None]], ...] = (
    ("there is no column ", group_keys.name_items),
    ("there is no column ", foreign_functions.write_around),
    ("there is no column ", misplaced_parts.unquote_place),
    ("there is no column ", misplaced_parts.limit_groups),
    ("there is no column ", misplaced_parts.move_to_having),
    ("there is no column ", misplaced_parts.compare_in_qualify),
    ("there is no column ", joined_tables.advise_on_using),
    ("there is no column rowid", foreign_forms.count_numbered),
    ("there is no column ", unknown_names.advise_on_column),
    ("there is no column ", written_values.advise_on_clock),
    ("names outside ASCII are not supported", unknown_names.advise_on_renamed_column),
    (" is not allowed with (", foreign_forms.concatenate_texts),
    ("date_diff is not allowed with (", argument_types.subtract_years),
    (" is not allowed with (", foreign_functions.join_conditions),
    ("WIDTH_BUCKET takes a value", foreign_functions.write_alike),
    ("the table function ", foreign_functions.show_budget),
    ("WIDTH_BUCKET takes a value", foreign_functions.bound_buckets),
    (" takes one argument", foreign_functions.move_epsilon),
    (" takes one expression", foreign_functions.round_number),
    ("GROUP BY ", group_keys.number_items),
    ("ORDER BY may name ", group_keys.order_by_last),
    (" is not allowed in this form", foreign_functions.write_alike),
    ("time_bucket is not allowed with (VARCHAR", suggested_changes.write_interval),
    (" is not allowed with (", suggested_changes.advise_on_date_part),
    (" is not allowed with (", suggested_changes.write_part_out),
    ("date_bin is not among the functions", suggested_changes.write_interval),
    ("strptime is not allowed with (DATE", foreign_functions.read_day),
    (" is not allowed with (", argument_types.advise_on_types),
    (" is not among the functions allowed", foreign_functions.write_alike),
    ("the function ", foreign_functions.write_alike),
    ("the function ", foreign_functions.show_budget),
    (" is not allowed with (", foreign_functions.write_alike),
    ("this is not supported in FROM", foreign_forms.enclose_subquery),
    ("this function is not allowed", foreign_forms.write_in),
    ("comparisons with ALL or ANY", foreign_forms.write_in),
    ("this function is not allowed", foreign_functions.choose_part),
    ("a private table is only counted", foreign_forms.join_parameters),
    ("this is not supported ", foreign_functions.write_method),
    ("access to a field is not supported", foreign_functions.write_method),
    ("a private table is only counted", foreign_functions.write_method),
    (" takes one expression", foreign_functions.bound_values),
    (" has no argument ", foreign_functions.bound_values),
    (": select a count", listed_rows.count_groups),
    ("this is neither a group key nor a count", wrong_level.show_key),
    ("this is neither a group key nor a count", misplaced_parts.count_shown_unit),
    ("this is neither a group key nor a count", wrong_level.list_aggregates),
    (" are not supported: ", foreign_functions.write_type),
    (" is not cast to ", foreign_functions.replace_cast),
    ("WITHINGROUP is not supported", wrong_level.compare_with_quantile),
    (" is not among the functions allowed", lifted_parts.lift_unit_key),
    ("a subquery used as a value selects one aggregate", lifted_parts.join_lookup),
    ("GROUP is not supported here", lifted_parts.order_for_largest),
    (" is not among the functions allowed", misplaced_parts.take_all_rows),
    ("its result changes from call to call", misplaced_parts.take_all_rows),
    (" is not allowed in this form", misplaced_parts.drop_number_of_key),
    (" is not among the functions allowed", suggested_changes.advise_on_aggregate),
    (" is not among the functions allowed", wrong_level.advise_on_nested_aggregate),
    (" are compared only after a conversion", foreign_functions.join_conditions),
    (" are compared only after a conversion", foreign_forms.separate_comparisons),
    (" are compared only after a conversion", argument_types.advise_on_comparison),
    (" over many units is not released", suggested_changes.advise_on_values),
    ("a window over private rows must PARTITION BY", row_windows.partition_by_unit),
    ("a window over private rows must PARTITION BY", row_windows.advise_on_window),
    ("a private table is only counted", wrong_level.advise_on_windowed_count),
    ("a private table is only counted", row_windows.advise_on_window),
    ("a private table is only counted", listed_rows.count_rows),
    ("ORDER BY and LIMIT select groups", row_windows.take_whole_windows),
    ("ORDER BY and LIMIT select groups", listed_rows.count_rows),
    ("this is neither a group key nor a count", wrong_level.advise_on_row_condition),
    ("this is neither a group key nor a count", misplaced_parts.order_by_average),
    ("this is neither a group key nor a count", lifted_parts.lift_qualify),
    ("this is neither a group key nor a count", lifted_parts.aggregate_window),
    ("this is neither a group key nor a count", misplaced_parts.group_by_order),
    ("this is neither a group key nor a count", group_keys.group_by_items),
    (" JOIN needs a condition", joined_tables.advise_on_missing_condition),
    ("JOIN has no condition", joined_tables.advise_on_missing_condition),
    ("access to a field is not supported", joined_tables.advise_on_outer_join),
    (" is in several tables", joined_tables.advise_on_ambiguous_column),
    ("this is neither a group key nor a count", wrong_level.advise_on_plain_value),
    (" is not allowed in this form", wrong_level.advise_on_nested_aggregate),
    (" is not allowed in this form", move_condition),
    (" is not among the functions allowed", move_average),
    (" is not among the functions allowed", wrong_level.advise_on_average_in_where),
    ("the function ", foreign_forms.advise_on_starred_function),
    ("an INTERVAL is added to a DATE", foreign_forms.cast_moved_text),
    (" are compared only after", foreign_forms.quote_date),
    (" of the privacy unit over many units", foreign_forms.count_instead),
    (" has other arguments: it is written", foreign_forms.join_parameters),
    (" has other arguments: it is written", foreign_forms.list_shares),
    ("makes a list, and a release has one number", foreign_functions.choose_quantile),
    (" takes VARCHAR arguments", foreign_forms.cast_arguments),
    ("a tuple is not supported here", foreign_forms.compare_with_patterns),
    ("a tuple is not supported here", foreign_forms.list_tuple),
    ("this text is not a valid BOOLEAN", foreign_forms.write_or),
    ("if takes a condition and one or two results", foreign_forms.write_results),
    (" takes one expression", foreign_forms.count_all_rows),
    ("there is no table ", foreign_forms.list_texts),
    ("there is no table ", foreign_forms.write_as),
    ("LIMIT as a percentage", foreign_forms.drop_percent),
    ("WITH TIES depends on exact counts", foreign_forms.drop_ties),
    ("IS takes NULL, TRUE or FALSE", foreign_forms.compare_with_values),
    ("a condition must be BOOLEAN", joined_tables.complete_condition),
    ("a condition must be BOOLEAN", foreign_forms.list_comparisons),
    ("a condition must be BOOLEAN", foreign_forms.separate_keys),
    ("a condition must be BOOLEAN", foreign_forms.compare_with_zero),
    ("a count cannot be a group key", misplaced_parts.drop_number_of_key),
    (" is not among the functions allowed", misplaced_parts.count_units_by_condition),
    ("`*` is not a value", foreign_forms.count_unit_of_table),
    ("IF is not supported", foreign_forms.write_case),
    ("meets WHERE", joined_tables.compare_declared_column),
    ("meets WHERE", foreign_forms.write_pattern),
    ("a subquery used as a value has one row", wrong_level.advise_on_several_rows),
    ("COUNT(DISTINCT ...) takes one expression", wrong_level.advise_on_several_values),
    (", so no group has enough of them to be shown", group_keys.drop_key),
    ("SELECT DISTINCT would release", advise_on_distinct),
    ("SELECT DISTINCT would release", listed_rows.count_rows),
    ("DISTINCT over private rows must select", advise_on_private_distinct),
    ("released and private rows do not meet", lifted_parts.join_lateral),
    ("released and private rows do not meet", advise_on_joined_distinct),
    ("released and private rows do not meet", listed_rows.count_rows),
    ("a private statement is one SELECT", listed_rows.count_rows),
    ("no private table reaches the outermost SELECT", listed_rows.count_existing),
    ("no private table reaches the outermost SELECT", listed_rows.count_rows),
    (" is not among the functions allowed", group_keys.copy_item),
    (" is not allowed with (", group_keys.copy_item),
    ("the privacy unit cannot be a group key", listed_rows.count_units_by_number),
    ("the privacy unit cannot be a group key", group_keys.drop_key),
    (" needs a public domain", group_keys.take_public_values),
    (", and a threshold needs a public domain", lifted_parts.select_released),
    (", and this needs a public domain", lifted_parts.select_least),
    (" needs a public domain", group_keys.add_unit),
    (" are not declared: say in how many groups ", group_keys.add_unit),
    (" are not declared: say in how many groups ", group_keys.take_public_values),
    (" needs a public domain", group_keys.say_which_days),
    (" are not declared: say in how many groups ", group_keys.say_which_days),
    ("a threshold selects groups and needs a GROUP BY", group_keys.group_by_items),
    ("QUALIFY selects among groups of GROUP BY", row_windows.advise_on_window),
    (" takes one condition", foreign_functions.write_alike),
    ("the share of rows below a quantile", suggested_changes.advise_on_share),
    ("the share of rows below a quantile", suggested_changes.exchange_share),
    ("IN takes a list", foreign_forms.write_between),
    ("IN takes a list", foreign_forms.write_contains),
    ("IN takes a list", suggested_changes.select_units_of_table),
    ("is compared with a year", written_values.compare_year),
    (" are compared only after a conversion", written_values.compare_year),
    ("an INTERVAL is added to a DATE", suggested_changes.write_type_of_date),
    ("this text is not a valid ", foreign_forms.compare_with_null),
    ("a DATE has none", foreign_forms.drop_time_and_offset),
    ("no value in the public domain of the keys", foreign_forms.ask_for_null),
    ("this text has an offset or a zone", foreign_forms.drop_offset),
    ("this text is not a valid BIGINT", suggested_changes.write_month_number),
    ("this text is not a valid DATE", written_values.compare_month),
    ("this text is not a valid DATE", written_values.bound_month),
    ("this text is not a valid DATE", written_values.take_last_day),
    ("this text is not a valid TIMESTAMP", written_values.take_last_day),
    ("this text is not a valid DATE", written_values.advise_on_date),
    ("this text is not a valid TIMESTAMP", written_values.advise_on_date),
    ("this text is not a valid ", written_values.advise_on_number),
    ("a window function is allowed only in the select list", misplaced_parts.move_window),
    ("a window function is allowed only in the select list", lifted_parts.lift_window),
    ("this would be a release for each row", lifted_parts.join_release),
    ("this is not supported ", lifted_parts.join_lateral),
    ("IN takes a subquery of one column", lifted_parts.keep_compared_column),
    (" has other arguments: it is written", suggested_changes.advise_on_missing_value),
    (" is supported only over a subquery that counts groups", lifted_parts.order_for_argument),
    ("HINTS is not supported", foreign_forms.drop_clause),
    ("SAMPLE is not supported here", foreign_forms.drop_sample),
    ("INTO is not supported here", foreign_forms.drop_into),
    (" is not supported here", foreign_forms.drop_clause),
    ("FORMAT is not supported here", foreign_forms.write_format),
    (" is not a number", argument_types.average_otherwise),
    ("LIMIT over private rows", misplaced_parts.take_all_rows),
    ("CONCAT is not supported", foreign_forms.separate_texts),
    ("LIKE takes one pattern", foreign_forms.compare_with_patterns),
    ("PIVOT is not supported", suggested_changes.write_pivot_out),
    ("must be tied to the row's own privacy unit", wrong_level.advise_on_several_rows),
    ("must be tied to the row's own privacy unit", misplaced_parts.tie_subquery),
    ("must be tied to the row's own privacy unit", wrong_level.advise_on_tied_average),
    ("two private tables are joined only", joined_tables.join_derived),
    ("two private tables are joined only", survey.advise_on_private_join),
)
"""Words of a message, and what gives advice about it."""
_REPLACED = ("there is no column ", " needs a public domain", " are not declared: say in how many groups ")
"""Words of messages whose own fix gives way to one of advice."""


def advise(of: RefusedStatement, refused: QueryRefused) -> None:
    """Give the obstacle of a refusal a better hint or a fix, where there is one."""
    one, node = refused.obstacles[0], refused.node
    fixed = one.fix is not None and not any(words in one.message for words in _REPLACED)
    if fixed and "function" in one.message and isinstance(node, exp.Expr):  # a nearest name is a guess
        known = foreign_functions.write_alike(of, node, one)
        refused.obstacles = (
            refused.obstacles if known is None else (replace(one, hint=known[0], fix=known[1]),)
        )
    if len(refused.obstacles) > 1 or fixed:
        return
    node = node if isinstance(node, exp.Expr) else of.query.tree
    view = next((each.meta["view"] for each in (node, *_ancestors(node)) if "view" in each.meta), None)
    if view is not None:  # the analyst cannot change its text
        hint = one.hint and f"in the policy, {one.hint}"
        refused.obstacles = (replace(one, message=f"{one.message}, in the view {view[1]}", hint=hint),)
        return
    given = [found for words, advice in _ADVICE if words in one.message and (found := advice(of, node, one))]
    if one.fix is not None and given and given[0][1] is not None and given[0][1].guess:
        given.insert(0, (one.hint, one.fix))  # it asks the same
    changes = [fix if one.unknown != "column" else _change_all_uses(of, node, fix) for _, fix, *_ in given]
    others = tuple(
        (found[0], fix) for found, fix in [*zip(given, changes, strict=True)][1:] if fix is not None
    )
    for hint, _, *message in given[:1]:
        told = message[0] if message else one.message
        refused.obstacles = (replace(one, message=told, hint=hint, fix=changes[0], others=others),)
        return
    if one.unknown == "column":
        refused.obstacles = (replace(one, fix=_change_all_uses(of, node, one.fix)),)


def _change_all_uses(of: RefusedStatement, node: exp.Expr, fix: Fix | None) -> Fix | None:
    """Return a fix that makes the change of a column's name wherever its block names it."""
    whole = of.original(node)
    select = whole.find_ancestor(exp.Select)
    if fix is None or select is None or not isinstance(whole, exp.Column) or fix.also:
        return fix
    same = [n for n in find_nodes(select, exp.Column) if (n.table, n.name) == (whole.table, whole.name)]
    places = [(n.this.meta["start"], n.this.meta["end"] + 1) for n in same if "start" in n.this.meta]
    if (fix.start, fix.end) not in places:
        return fix
    return replace(fix, also=tuple(Fix(fix.text, a, b) for a, b in places if a != fix.start))


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node
