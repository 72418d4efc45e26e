# ruff: noqa: E501  an edit's text stands on one line, as it does in the rule
"""Every rule made wrong once; whoever is named by `by` must notice, or would not notice a slip either.

`focus` names what the generator should write more often, so that few statements are enough; `statement` is a
fixture for where chance alone would need too many.
"""

from __future__ import annotations

from fuzz.mutant import Mutant

__all__ = ["MUTANTS"]

ROWS = ("COUNT(*)", "without single rows")
UNTIED = '    raise compiler.source.refuse(\n        "a subquery over private rows must be tied'
DISTINCT = "query = Select(listed, rows, condition, distinct=merged)"
MERGED = """by = tuple(v.guarded_node for v in values) if merged and unit is not None else ()
    from dpsql.kernel.tree import Aggregate
    if by:
        listed = select_list(Aggregate("MIN", (unit,)), "c", by)
    query = Select(listed, rows, condition, group=by, distinct=merged and not by)"""

TYING = """        if is_tied_by_units([(far, near)]) and far.node in visible:
            assert made.unit is not None  # noqa: S101  owned rows have a unit
            assert block.unit is not None  # noqa: S101
            return Paren(Binary("=", made.unit, block.unit))"""
NUMBERS = "    return replace(made, alone=self.ungrouped or self.query) if self.alike else made"
HAVING = """    names = [*(f"k{i}" for i in range(self.keys)), *(f"n{i}" for i in range(len(numbers)))]
    listed = tuple(Item(Column("e", n), n) for n in names)
    return Select(listed, Derived(made, "e"), Binary(">", Column("e", "n0"), Constant(2, BIGINT)))"""
BOUNDED = "query=Bounded(self.query, names, tuple(chosen), groups, pairs)"
WITH_NULL = """query=SetOperation(
        Bounded(self.query, names, tuple(chosen), groups, pairs),
        "UNION ALL",
        Select(tuple(Item(Column("y", n), n) for n in ("u", *names)), Derived(self.query, "y"), IsNull(Column("y", "k0"))),
    )"""

_OVER_EVERYBODY = (
    (
        "analysis.window_functions",
        "_compile_parts",
        "if not (tells_units(values) or any(v.owned_key for v in values)):",
        "if False:",
    ),
    (
        "analysis.window_functions",
        "_compile_parts",
        "[*unit, *(v.guarded_node for v in values)]",
        "[v.guarded_node for v in values]",
    ),
)
"""The edits by which a window reads the rows of all units."""
MUTANTS = (
    Mutant(
        "private tables meet on anything",
        (
            (
                "analysis.from_joins",
                "_join_owned",
                "if not is_tied_by_units(pairs, left.owner):",
                "if False:",
            ),
            (
                "analysis.from_joins",
                "_join_owned",
                'same = Paren(Binary("=", left.unit, here))',
                "same = Constant(True, INTEGER)",
            ),
        ),
        ("without unit equality",),
        statement="SELECT COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN orders o ON o.page = v.page",
    ),
    Mutant(
        "equal parent keys are joined whoever has them",
        (
            (
                "analysis.from_joins",
                "_join_owned",
                'same = Paren(Binary("=", left.unit, here))',
                "same = Constant(True, INTEGER)",
            ),
        ),
        ("table items", "table orders", "join on the parent key"),
        statement="SELECT COUNT(DISTINCT o.user_id) AS n FROM orders o JOIN items i ON i.order_id = o.order_id",
        daily=True,
    ),
    Mutant(
        "a key that two tables share is joined whoever has it",
        (
            (
                "analysis.from_joins",
                "_join_owned",
                'same = Paren(Binary("=", left.unit, here))',
                "same = Constant(True, INTEGER)",
            ),
        ),
        ("table likes", "table orders", "join on a shared key"),
        statement="SELECT COUNT(DISTINCT o.user_id) AS n FROM orders o JOIN likes l ON l.receipt = o.big",
    ),
    Mutant(
        "a FULL JOIN on a shared key has the units of one side",
        (
            (
                "analysis.from_joins",
                "_join_owned",
                'return left.owner, Call("COALESCE", (left.unit, here)), [same]',
                "return left.owner, left.unit, []",
            ),
        ),
        ("table likes", "table orders", "join on a shared key"),
        statement="SELECT COUNT(DISTINCT COALESCE(o.user_id, l.user_id)) AS n FROM orders o FULL JOIN likes l ON l.receipt = o.big WHERE l.stars > 1",
        daily=True,
    ),
    Mutant(
        "IN a list of everybody's parent keys",
        (
            (
                "analysis.nested_queries",
                "_compile_in",
                'own = conjunction((Paren(Binary("=", unit, block.unit)), there))',
                "own = there",
            ),
        ),
        ("table items", "table orders", "IN parent key"),
        statement="SELECT COUNT(DISTINCT o.user_id) AS n FROM orders o WHERE o.order_id IN (SELECT i.order_id FROM items i)",
    ),
    Mutant(
        "EXISTS a row of anybody with the parent key",
        (
            (
                "analysis.nested_queries",
                "_tie_to_outer",
                TYING,
                TYING.replace('Paren(Binary("=", made.unit, block.unit))', "Constant(True, BOOLEAN)"),
            ),
        ),
        ("table items", "table orders", "EXISTS parent key"),
        statement="SELECT COUNT(DISTINCT o.user_id) AS n FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.order_id)",
    ),
    Mutant(
        "public rows are kept by private ones",
        (
            ("analysis.from_joins", "_join_owned", 'if kind in ("SEMI", "ANTI"):', "if False:"),
            (
                "analysis.from_joins",
                "_join_owned",
                "        return right.owner, here, []",
                '        return (None, None, []) if kind in ("SEMI", "ANTI") else (right.owner, here, [])',
            ),
        ),
        ("without owner of SEMI",),
        statement="SELECT COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT p.page FROM pages p SEMI JOIN orders o ON o.page = p.page) x ON x.page = v.page",
    ),
    Mutant(
        "COUNT DISTINCT counts rows",
        (("analysis.released.unit_counts", "_count_units", "if call.single else", "if True else"),),
    ),
    Mutant(
        "a join keeps rows single",
        (
            (
                "analysis.from_joins",
                "_compile_join",
                "left.unique if kept else _unique_within_units(kind, left, relation, origin)",
                "left.unique",
            ),
        ),
        ROWS,
        statement="SELECT l.page, COUNT(*) AS n FROM likes l JOIN vips p ON p.rank IS NOT NULL GROUP BY l.page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "UNNEST keeps rows single",
        (
            (
                "analysis.lists_and_series",
                "compile_unnest",
                "left.owner, left.unit, repeats=True)",
                "left.owner, left.unit, left.unique)",
            ),
        ),
        ("UNNEST", *ROWS),
        statement="SELECT COUNT(*) AS n FROM users u, UNNEST(u.nums) AS x(i)",
    ),
    Mutant(
        "UNION ALL keeps rows single",
        (
            (
                "analysis.set_operations",
                "combine_branches",
                "unique = frozenset[frozenset[int]]()",
                "unique = left.unique",
            ),
        ),
        ("UNION ALL", "set operation", "subquery", *ROWS),
        statement="SELECT page, COUNT(*) AS n FROM (SELECT user_id, page FROM likes UNION ALL SELECT user_id, page FROM likes) x GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "EXCEPT ALL makes rows single",
        (("analysis.set_operations", "combine_branches", "if not everything:", "if True:"),),
        ("UNION ALL", "set operation", "subquery", *ROWS),
        statement="SELECT page, COUNT(*) AS n FROM (SELECT user_id, page FROM visits UNION ALL SELECT user_id, page FROM orders) x GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "a unit's rows are always single",
        (
            (
                "analysis.outer_query",
                "_has_single_rows",
                "any(columns <= fixed for columns in made.unique)",
                "True",
            ),
        ),
        ROWS,
    ),
    Mutant(
        "groups are single whatever else they are grouped by",
        (
            (
                "analysis.block_groups",
                "_find_unique",
                "frozenset({frozenset(places[key] for key in wanted)})",
                "frozenset({frozenset()})",
            ),
        ),
        ("GROUP BY unit", "subquery", *ROWS),
        statement="SELECT c, COUNT(*) AS n FROM (SELECT user_id, page, COUNT(*) AS c FROM visits GROUP BY user_id, page) x WHERE c IN (1, 2) GROUP BY c ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "the first of each by any window",
        (
            (
                "analysis.select_blocks",
                "_find_partition_keys",
                'call_name(node.this) != "row_number"',
                "not call_name(node.this)",
            ),
        ),
        ("window", "QUALIFY", "rank", "subquery", *ROWS),
        statement="SELECT country, COUNT(*) AS n FROM (SELECT user_id, country FROM visits QUALIFY RANK() OVER (PARTITION BY user_id, country ORDER BY flag) = 1) x GROUP BY country ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "a rank within a unit is a number",
        (
            (
                "analysis.select_blocks",
                "_find_partition_keys",
                'call_name(node.this) != "row_number"',
                "not call_name(node.this)",
            ),
        ),
        statement="SELECT country, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, country, RANK() OVER (PARTITION BY user_id ORDER BY flag) AS rk FROM visits) x WHERE rk = 1 GROUP BY country",
    ),
    Mutant(
        "a fact of the unit whatever ON reads",
        (
            (
                "analysis.row_conditions",
                "find_facts_of_join",
                "preserved.get(kind) is None or all(c.reads <= both for c in conditions)",
                "True",
            ),
        ),
        statement="SELECT COALESCE(u.vip, FALSE) AS g, COUNT(DISTINCT v.user_id) AS n FROM visits v LEFT JOIN users u ON u.user_id = v.user_id AND v.ms > 2 GROUP BY g",
    ),
    Mutant(
        "a fact of the unit on both sides of a FULL JOIN",
        (
            (
                "analysis.row_conditions",
                "find_facts_of_join",
                "return before | after if len(units) == parts else _NONE",
                "return before | after",
            ),
        ),
        statement="SELECT u.city IS NULL AS g, COUNT(DISTINCT COALESCE(v.user_id, u.user_id)) AS n FROM likes v FULL JOIN users u ON v.user_id = u.user_id AND u.vip GROUP BY g",
    ),
    Mutant(
        "a public row meets a unit once",
        (
            (
                "analysis.row_conditions",
                "find_facts_of_join",
                "any(each <= equated for each in unique)",
                "equated",
            ),
        ),
        statement="SELECT w.rank IS NULL AS g, COUNT(DISTINCT u.user_id) AS n FROM users u JOIN vips w ON w.user_id = u.user_id GROUP BY g",
    ),
    Mutant(
        "parallel composition over the partitions of events",
        (
            (
                "analysis.group_rules",
                "make_partitions",
                "all(block.facts[place] for place in selection.keys)",
                "True",
            ),
        ),
        statement="SELECT country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n DESC) <= 2",
    ),
    Mutant(
        "a unit in all partitions",
        (("analysis.passes", "_count_partitions", "if partitions.bounded:", "if False:"),),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 1) country, page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country, page QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n DESC) <= 2",
        slow=True,
    ),
    Mutant(
        "a fact of both branches of UNION ALL",
        (
            (
                "analysis.set_operations",
                "combine_branches",
                "bounds=_join_bounds(x, y, p, word),",
                "bounds=_join_bounds(x, y, p, word), fact=True,",
            ),
        ),
        statement="SELECT vip, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, vip FROM users UNION ALL SELECT user_id, NOT vip FROM users) x GROUP BY vip",
    ),
    Mutant(
        "every key of a grouped block is a fact of the unit",
        (
            (
                "analysis.block_groups",
                "compile_groups",
                "for k in keys if is_fact(k, facts) for name",
                "for k in keys for name",
            ),
        ),
        statement="SELECT flag, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, flag FROM visits GROUP BY user_id, flag) x GROUP BY flag",
    ),
    Mutant(
        "a number of a unit's rows is a fact",
        (
            (
                "analysis.select_blocks",
                "_project",
                "source.owner is not None and is_fact(v, facts)",
                "source.owner is not None",
            ),
        ),
        statement="SELECT k = 1 AS g, COUNT(DISTINCT user_id) AS n FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY page) AS k FROM visits) x GROUP BY g",
    ),
    Mutant(
        "facts about public tables are believed",
        (("engines.schema_database", "SchemaDatabase.unique", "if not repeated:", "if True:"),),
        ("INNER", "owned-public INNER", *ROWS),
        statement="SELECT v.country, COUNT(*) AS n FROM (SELECT DISTINCT user_id, country, page FROM visits) v JOIN pages p ON p.page = v.page WHERE v.page = 'a' GROUP BY v.country ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "the nullable side's unit is exact",
        (
            (
                "analysis.from_joins",
                "_make_scope",
                "replace(column, nulls=True).with_unit(column.unit.beside_nulls())",
                "replace(column, nulls=True)",
            ),
        ),
        ("LEFT", "FULL", "more in ON of owned", "DISTINCT", "subquery", "without exact unit", *ROWS),
        statement="SELECT country, COUNT(*) AS n FROM (SELECT DISTINCT o.user_id, v.country FROM visits v LEFT JOIN orders o ON o.user_id = v.user_id AND o.page = v.page) x GROUP BY country ORDER BY n DESC LIMIT 2",
        slow=True,
    ),
    Mutant(
        "the unit of one branch is the unit of both",
        (
            (
                "analysis.set_operations",
                "_join_roles",
                "if not all(role.held for role in roles):",
                "if False:",
            ),
            (
                "analysis.set_operations",
                "_join_roles",
                "if roles == [UnitRole.EXACT, UnitRole.EXACT] else UnitRole.NULLABLE",
                "if True else None",
            ),
        ),
        (
            "UNION ALL",
            "set operation",
            "subquery",
            "DISTINCT",
            "without unit in a branch",
            "without exact unit",
            *ROWS,
        ),
        statement="SELECT page, COUNT(*) AS n FROM (SELECT DISTINCT who, page FROM (SELECT user_id AS who, page FROM visits UNION ALL SELECT order_id, page FROM orders) x) y GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "public rows of UNION ALL have an owner",
        (
            (
                "analysis.set_operations",
                "_make_unit",
                "Cast(Constant(None, NULL), owner.type, safe=False)",
                'Cast(Constant("1", NULL), owner.type)',
            ),
        ),
        ("UNION ALL", "set operation", "subquery", "public branch of UNION ALL"),
        statement="SELECT page, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM (SELECT page FROM visits UNION ALL SELECT page FROM pages) x GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "DISTINCT over everybody",
        (
            (
                "analysis.select_blocks",
                "_check_distinct",
                "if not (tells_units(values) or any(value.groups_units for value in values)):",
                "if False:",
            ),
            ("analysis.select_blocks", "_project", DISTINCT, MERGED),
        ),
        ("DISTINCT", "subquery", "without unit in a block"),
        statement="SELECT page, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM (SELECT DISTINCT page FROM visits) x GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "GROUP BY over everybody",
        (
            (
                "composition.kinds",
                "Kinds._owned",
                "UnitRole.EXACT not in roles, BlockKind.OWNED",
                "False, BlockKind.OWNED",
            ),
            (
                "analysis.block_groups",
                "compile_groups",
                "if owner is not None and not (tells_units(keys) or any(k.groups_units for k in keys)):",
                "if False:",
            ),
            (
                "analysis.block_groups",
                "compile_groups",
                "select_list(source.unit,",
                'select_list(source.unit and tree.Aggregate("MIN", (source.unit,)),',
            ),
            (
                "analysis.block_groups",
                "compile_groups",
                "Constant(i + 1, INTEGER) for i in range(len(by))",
                "Constant(i + 2, INTEGER) for i in range(len(keys))",
            ),
        ),
        ("GROUP BY unit", "subquery", "without unit in a block"),
        statement="SELECT s > 3 AS k, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM (SELECT page, SUM(ms) AS s FROM visits GROUP BY page) x GROUP BY k ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "windows over everybody",
        _OVER_EVERYBODY,
        ("window", "subquery", "without unit in a block"),
        statement="SELECT r = 1 AS k, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM (SELECT RANK() OVER (PARTITION BY page ORDER BY ms) AS r FROM visits) x GROUP BY k ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "the first rows of all by RANK",
        _OVER_EVERYBODY,
        ("window", "subquery", "without unit in a block"),
        statement="SELECT r <= 2 AS k, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM (SELECT RANK() OVER (ORDER BY ms DESC) AS r FROM visits) x GROUP BY k ORDER BY n DESC LIMIT 2",
        daily=True,
    ),
    Mutant(
        "ties in a window lie as they come",
        (("analysis.window_functions", "_compile_window", "if name in _ORDERED or", "if False and"),),
        ("window", "subquery", "ROW_NUMBER", "neighbour"),
        statement="SELECT page, COUNT(*) AS n FROM (SELECT user_id, page FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY flag) = 1) x GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "ties in FIRST and LIST lie as they come",
        (
            (
                "analysis.aggregate_functions",
                "compile_ordered",
                'terms.append(OrderTerm(value.node, "ASC", "LAST"))',
                "pass",
            ),
        ),
        ("GROUP BY unit", "subquery", "aggregate FIRST({0} ORDER BY {1})"),
        statement="SELECT f, COUNT(*) AS n FROM (SELECT user_id, FIRST(page ORDER BY flag) AS f FROM visits GROUP BY user_id) x GROUP BY f ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "ties in ARG_MAX lie as they come",
        (
            (
                "analysis.aggregate_functions",
                "compile_ordered",
                'OrderTerm(x.node, "ASC", "LAST")]',
                'OrderTerm(Constant(1, BIGINT), "ASC", "LAST")]',
            ),
        ),
        ("GROUP BY unit", "subquery"),
        statement="SELECT f, COUNT(*) AS n FROM (SELECT user_id, ARG_MAX(page, flag) AS f FROM visits GROUP BY user_id) x GROUP BY f ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "floating-point sums add up as they come",
        (
            (
                "analysis.aggregate_functions",
                "_compile_sum",
                "distinct, _order_of_doubles(x)",
                "distinct",
            ),
        ),
        ("GROUP BY unit", "subquery", "HAVING in a subquery"),
        statement="SELECT s, COUNT(*) AS n FROM (SELECT user_id, SUM(score / 3e0 + ms * 1e-1) AS s FROM visits GROUP BY user_id) x GROUP BY s ORDER BY n DESC LIMIT 2",
        slow=True,
    ),
    Mutant(
        "a public LIMIT keeps what comes first",
        (
            (
                "analysis.select_blocks",
                "_apply_limit",
                "(*terms, *(OrderTerm(c) for c in cells))",
                "tuple(terms)",
            ),
        ),
        ("subquery", "select", "public LIMIT"),
        statement="SELECT x.category, COUNT(DISTINCT v.user_id) AS n FROM visits v JOIN (SELECT page, category, 1 AS same FROM pages ORDER BY same LIMIT 1) x ON x.page = v.page GROUP BY x.category ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "NOT IN sees rows without a unit",
        (
            (
                "analysis.nested_queries",
                "_compile_in",
                "conjunction((IsNull(unit, negated=True), there))",
                "None",
            ),
        ),
        ("subquery in a condition", "NOT IN unit", "WHERE of the count", "RIGHT", "FULL"),
        statement="SELECT COUNT(DISTINCT u.user_id) AS n FROM users u WHERE u.user_id NOT IN (SELECT v.user_id FROM (SELECT DISTINCT page FROM pages WHERE page = 'a') p LEFT JOIN visits v ON p.page = v.page)",
    ),
    Mutant(
        "EXISTS asks about everybody",
        (
            (
                "analysis.nested_queries",
                "_tie_to_outer",
                UNTIED,
                "    return Constant(True, BOOLEAN)\n" + UNTIED,
            ),
        ),
        ("subquery in a condition", "EXISTS tied", "NOT EXISTS tied", "WHERE of the count", "without tie"),
        statement="SELECT COUNT(DISTINCT u.user_id) AS n FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.page = 'a')",
    ),
    Mutant(
        "contributions are not clamped",
        (
            (
                "analysis.released.unit_counts",
                "BoundedRows.build_counted",
                "row, self.most, False",
                "row, 1000, False",
            ),
        ),
        ("clamped rows",),
        statement="SELECT page, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "a row beyond the bound counts in full",
        (
            (
                "analysis.released.unit_counts",
                "WeightedRows.build_counted",
                "row, self.most, self.fine",
                "row, self.most + 1, self.fine",
            ),
        ),
        ("weighted rows",),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 2) page, COUNT(*) AS n FROM visits GROUP BY page",
    ),
    Mutant(
        "a row beyond the bound counts in full beside units",
        (
            (
                "analysis.released.unit_counts",
                "WeightedRows.build_counted",
                "tree.WeightedRows(row, self.most)",
                "tree.WeightedRows(row, self.most + 1)",
            ),
        ),
        ("weighted rows",),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 2) page, COUNT(*) AS n, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page",
    ),
    Mutant(
        "groups exist by their rows",
        (("analysis.groups_of_units", "show_by_units", "existence=counts.index(units)", "existence=0"),),
        ("unknown domain", "all groups of an unknown domain", "clamped rows"),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, max_groups_contributed = 2) note, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM visits GROUP BY note",
    ),
    Mutant(
        "groups of undeclared keys are not bounded",
        (
            (
                "analysis.counting_query",
                "CountedGroups.build_query",
                "if self.most is not None",
                "if self.most is not None and self.domains",
            ),
        ),
        ("unknown domain", "all groups of an unknown domain"),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, max_groups_contributed = 1) note, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY note",
    ),
    Mutant(
        "a unit decides on one group too many",
        (
            (
                "analysis.released.unit_counts",
                "UnitsOfFew.build_counted",
                "row, False, self.most",
                "row, False, self.most + 1",
            ),
        ),
        ("unknown domain", "all groups of an unknown domain", "weighted rows"),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6) note, COUNT(*) AS n FROM visits GROUP BY note",
    ),
    Mutant(
        "a group of equal parent keys is one unit's",
        (
            (
                "analysis.block_groups",
                "compile_groups",
                "select_list(source.unit,",
                'select_list(source.unit and tree.Aggregate("MIN", (source.unit,)),',
            ),
            (
                "analysis.block_groups",
                "compile_groups",
                "Constant(i + 1, INTEGER) for i in range(len(by))",
                "Constant(i + 2, INTEGER) for i in range(len(keys))",
            ),
        ),
        statement="SELECT s > 1 AS k, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM (SELECT order_id, COUNT(*) AS s FROM orders GROUP BY order_id) x GROUP BY k ORDER BY n DESC LIMIT 2",
        slow=True,
    ),
    Mutant(
        "HAVING is part of the counting query",
        (("analysis.counting_query", "ProjectedRows.count_by_group", NUMBERS, HAVING),),
        ("clauses after the release",),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) flag, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY flag HAVING n BETWEEN 3 AND 9",
    ),
    Mutant(
        "two draws of one common table expression",
        (
            (
                "composition.kinds",
                "Kinds._cte",
                "(i for i, known in enumerate(self.ctes) if known.query is cte.query)",
                "iter(())",
            ),
            (
                "composition.statement_parts",
                "_Splitter._equal",
                "first.setdefault(key,",
                "first.setdefault((i, key),",
            ),
        ),
        ("a block around",),
        statement="WITH r AS (SELECT COUNT(DISTINCT user_id) AS n FROM visits) SELECT a.n - b.n AS d FROM r AS a, r AS b",
    ),
    Mutant(
        "two draws of equal blocks",
        (
            (
                "composition.statement_parts",
                "_Splitter._equal",
                "first.setdefault(key,",
                "first.setdefault((i, key),",
            ),
        ),
        statement="SELECT a.n - b.n AS d FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits) AS a, (SELECT COUNT(DISTINCT user_id) AS n FROM visits) AS b",
        slow=True,
    ),
    Mutant(
        "the price of one release for all",
        (("composition.block_clauses", "share_epsilon", "whole / len(sharing)", "whole"),),
        ("a block around",),
        statement="SELECT n FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits) AS a UNION ALL SELECT n FROM (SELECT COUNT(DISTINCT user_id) AS n FROM orders) AS b",
    ),
    Mutant(
        "all values of a unit are kept",
        (
            (
                "analysis.released.unit_counts",
                "DistinctValues.build_counted",
                "self.most, self.kept",
                "self.most, False",
            ),
        ),
        ("distinct values",),
        statement="SELECT COUNT(DISTINCT page, contribution_bounds_per_group => (0, 1)) AS n FROM visits",
    ),
    Mutant(
        "rows of each declared value are counted, not units",
        (
            (
                "analysis.released.unit_counts",
                "EachValue.units",
                "(SingleRows if single else Units)",
                "SingleRows",
            ),
        ),
        ("distinct values",),
        statement="SELECT COUNT(DISTINCT page) AS n FROM visits",
    ),
    Mutant(
        "one group too many",
        (("analysis.counting_query", "ProjectedRows.bound_groups", "groups, pairs", "groups + 1, pairs"),),
        ("all groups",),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = LAPLACE, max_groups_contributed = 2) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page",
        slow=True,
    ),
    Mutant(
        "the group of NULL is one group too many",
        (
            (
                "analysis.counting_query",
                "ProjectedRows.bound_groups",
                "[IsNull(unit, negated=True)]",
                '[IsNull(Column("s", n), negated=True) for n in ("u", *chosen)]',
            ),
            ("analysis.counting_query", "ProjectedRows.bound_groups", BOUNDED, WITH_NULL),
        ),
        ("all groups",),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = LAPLACE, max_groups_contributed = 1) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page",
    ),
    Mutant(
        "the rows in no group are one group too many",
        (
            (
                "analysis.counting_query",
                "CountedGroups.build_query",
                "rows.bound_groups(self.most, ())",
                "rows.bound_groups(self.most, (), tuple(range(rows.keys - 1)))",
            ),
        ),
        ("all groups",),
        statement="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = LAPLACE, max_groups_contributed = 1) page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page",
    ),
    Mutant(
        "candidates come from the data",
        (("kernel.tree.relations", "OnDomain._lower", '"LEFT"', '""'),),
    ),
    Mutant(
        "a child has every parent before its own",
        (("analysis.from_tables", "_join_owners", 'Binary("=", ', 'Binary(">=", '),),
        ("table items",),
        statement="SELECT sku, COUNT(DISTINCT user_id) AS n FROM items GROUP BY sku ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "rows that are units may be repeated",
        (("analysis.from_joins", "_compile_join", "_has_single_match(relation, origin, pairs)", "True"),),
        ("unit row", "INNER", "LEFT"),
        statement="SELECT l.level, COUNT(*) AS n FROM logs l JOIN vips p ON p.page IS NOT NULL GROUP BY l.level ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "functions raise",
        (
            (
                "analysis.scalar_functions",
                "compile_form",
                "Apply(form,",
                'Apply(replace(form, template=form.template.replace("TRY(", "(")),',
            ),
        ),
        ("call",),
        guarded=False,
        statement="SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE year(date_trunc('year', moment)) > week(day + ms)",
    ),
    Mutant(
        "integers overflow",
        (
            (
                "analysis.total_forms",
                "compute_in_full",
                "Apply(form, tuple",
                'Apply(replace(form, template=form.template.replace("::HUGEINT", "")), tuple',
            ),
        ),
        ("call",),
        statement="SELECT big * 3 > 5 AS k, COUNT(DISTINCT user_id) AS n FROM orders GROUP BY k ORDER BY n DESC LIMIT 2",
        guarded=False,
        slow=True,
    ),
    Mutant(
        "equal doubles keep their bits",
        (
            (
                "analysis.casts",
                "make_canonical",
                "if value.type != DOUBLE",
                "if True or value.type != DOUBLE",
            ),
        ),
        statement="SELECT signbit(x) AS k, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT user_id, "
        "CASE WHEN flag THEN 0e0 ELSE -(0e0) END AS x FROM visits) y GROUP BY k ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "a RIGHT JOIN has the left unit",
        (
            (
                "analysis.from_joins",
                "_join_owned",
                "return right.owner, here, [same]",
                "return left.owner, left.unit, [same]",
            ),
        ),
        statement="SELECT o.page, COUNT(DISTINCT o.user_id) AS n0 FROM visits v RIGHT JOIN orders o ON v.user_id = o.user_id AND v.page = o.page GROUP BY o.page ORDER BY n0 DESC LIMIT 2",
        by="meaning",
    ),
    Mutant(
        "a FULL JOIN has the left unit",
        (("analysis.from_joins", "_join_owned", 'Call("COALESCE", (left.unit, here))', "left.unit"),),
        statement="SELECT o.page, COUNT(DISTINCT o.user_id) AS n0 FROM visits v FULL JOIN orders o ON v.user_id = o.user_id AND v.page = o.page GROUP BY o.page ORDER BY n0 DESC LIMIT 2",
        by="meaning",
    ),
    Mutant(
        "the nullable side's unit counts where it is NULL",
        (
            (
                "analysis.released.unit_counts",
                "_count_units",
                "if value.unit is UnitRole.NULLABLE:",
                "if False:",
            ),
        ),
        statement="SELECT COUNT(DISTINCT o.user_id) AS n FROM visits v LEFT JOIN orders o ON v.user_id = o.user_id AND v.page = o.page",
        by="meaning",
    ),
    Mutant(
        "rows without a unit are read",
        (
            (
                "analysis.from_tables",
                "_compile_declared_table",
                "source, IsNull(unit, negated=True)",
                "source",
            ),
        ),
        by="attack",
    ),
    Mutant(
        "identical rows are not told apart",
        (("analysis.window_functions", "Hoist.over", "numbered = windows > 1", "numbered = False"),),
        by="attack",
    ),
    Mutant(
        "a block that refers to an outer row is a release",
        (("composition.kinds", "Kinds._owned", "if releasing and tied and", "if False and"),),
        statement="SELECT p.page, (SELECT COUNT(DISTINCT v.user_id) FROM visits v WHERE v.page > p.page) AS n FROM pages p",
        by="analysis",
    ),
    Mutant(
        "conversions raise",
        (("analysis.conversions", "cast", "safe=not lossless", "safe=False"),),
        ("cast",),
        by="binder",
    ),
    Mutant(
        "the engine converts on its own",
        (("analysis.conversions", "unify", "if left.type == right.type:", "if True:"),),
        ("number kinds",),
        by="binder",
        statement="SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE note = ms",
    ),
    Mutant(
        "rows are bounded in each group, not in all together",
        (
            (
                "analysis.released.unit_counts",
                "WeightedRows.build_counted",
                "tree.WeightedRows(row, self.most)",
                "tree.CappedRows(row, self.most, False)",
            ),
        ),
        ("weighted rows",),
        statement="SELECT page, COUNT(*) AS n, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page ORDER BY n DESC LIMIT 2",
    ),
    Mutant(
        "the values of a private DISTINCT are read as public",
        (
            (
                "analysis.public_domains",
                "compile_declared_values",
                'query = Select((Item(TreeColumn("", "v"), "c0"),), Derived(column.domain.without_null().query, "d"))',
                'query = Select((Item(TreeColumn("d", "c0"), "c0"),), Derived(rows.query, "d"), distinct=True)',
            ),
        ),
        ("declared values",),
        statement="SELECT d.k, COUNT(DISTINCT v.user_id) AS n0 FROM (SELECT DISTINCT day AS k FROM visits) AS d LEFT JOIN visits AS v ON v.day >= d.k GROUP BY d.k",
    ),
)
"""Every mutant must be noticed within the ordinary run, those that are slow within the longer one."""
