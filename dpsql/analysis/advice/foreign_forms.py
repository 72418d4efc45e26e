"""Advise on what is written as other systems or languages write it: dates, patterns, IF, lists of shares."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement
from dpsql.errors import Fix, Obstacle
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import fold

_COUNTS = ("COUNT", "COUNT_IF")


def advise_on_starred_function(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Name the aggregate that a mistyped one of all rows is: `CUONT(*)`."""
    name = one.message.split()[2]
    close = difflib.get_close_matches(name.upper(), _COUNTS, 1, 0.6)
    at = next((t for t in of.outline.tokens if fold(t.text) == fold(name)), None)
    return (f"did you mean {close[0]}?", Fix(close[0], at.start, at.end + 1)) if close and at else None


def truncate_date(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `TRUNC(day)` as the day that it is."""
    call = of.outline.call_around(of.query.source.position(node), "trunc")
    if call is None or len(call[2]) != 1 or not one.message.startswith("TRUNC is not allowed with ("):
        return None
    written = f"CAST({call[2][0]} AS DATE)"
    return written, Fix(written, call[0], call[1])


def write_equal(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write = for IS before a value, or before EMPTY."""
    empty = re.search(r"(?i)\bIS(\s+NOT)?\s+EMPTY\b", of.text)
    if empty is not None:
        written = f"{'<>' if empty[1] else '='} ''"
        return written, Fix(written, *empty.span())
    word = re.search(r"(?i)\bIS(\s+NOT)?\s+(?!NOT\b|NULL\b|TRUE\b|FALSE\b|DISTINCT\b)([A-Za-z]\w*)", of.text)
    if word is not None:
        written = f"{'<>' if word[1] else '='} '{word[2]}'"
        return written, Fix(written, *word.span())
    found = re.search(r"(?i)\bIS(\s+NOT)?\s+('[^']*'|-?\d[\d.]*)", of.text)
    if found is None or len(re.findall(r"(?i)\bIS(?:\s+NOT)?\s+(?:'|-?\d)", of.text)) != 1:
        return None
    written = f"{'<>' if found[1] else '='} {found[2]}"
    if found[2].strip("'").upper() in ("NULL", "TRUE", "FALSE"):
        written = f"IS{' NOT' if found[1] else ''} {found[2][1:-1].upper()}"
    return written, Fix(written, *found.span())


def concatenate_texts(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write || for + between texts."""
    whole = of.original(node)
    texts = "(VARCHAR, VARCHAR" in one.message or any(n.is_string for n in whole.find_all(exp.Literal))
    if not re.match(r"\+ is not allowed with \(.*VARCHAR", one.message) or not isinstance(whole, exp.Add):
        return None
    if not texts:  # numbers, perhaps
        return None
    while isinstance(whole.parent, exp.Add):
        whole = whole.parent
    span = of.outline.span(whole)
    same = [] if span is None else [*re.finditer(re.escape(of.text[slice(*span)]), of.text)]
    tokens = of.outline.tokens
    signs = [
        token
        for n, token in enumerate(tokens)
        if token.text == "+"
        and (
            any(m.start() < token.start < m.end() for m in same)
            or (span is None and TokenType.STRING in (t.token_type for t in tokens[max(n - 1, 0) : n + 2]))
        )
    ]
    if not signs:
        return None
    also = tuple(Fix("||", t.start, t.end + 1) for t in signs[1:])
    return "||", Fix("||", signs[0].start, signs[0].end + 1, also=also)


def cast_arguments(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Convert what CONCAT joins to texts."""
    call = of.outline.call_around(of.query.source.position(node), one.message.partition(" ")[0])
    if call is None or not call[2]:
        return None
    made = [each if each.startswith("'") else f"CAST({each} AS VARCHAR)" for each in call[2]]
    written = f"CONCAT({', '.join(made)})"
    return written, Fix(written, call[0], call[1])


def compare_with_patterns(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `x LIKE ('a%', 'b%')` as two comparisons."""
    found = re.search(
        r"(?i)([A-Za-z_][\w.]*)\s+(I?LIKE)(?:\s+ANY)?\s*\(\s*('[^']*'(?:\s*,\s*'[^']*')+)\s*\)", of.text
    )
    if found is None:
        return None
    patterns = re.findall(r"'[^']*'", found[3])
    written = f"({' OR '.join(f'{found[1]} {found[2]} {each}' for each in patterns)})"
    return written, Fix(written, *found.span())


def count_all_rows(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the rows where SUM or AVG has `*`."""
    name = one.message.partition(" ")[0]
    call = of.outline.call_around(of.query.source.position(node), name)
    if call is None or call[2] != ("*",):
        return None
    return "COUNT(*)", Fix("COUNT(*)", call[0], call[1], asks="how many rows there are")


def list_texts(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `WHERE x = 'a', 'b'`, which reads as a table, with IN."""
    found = re.search(r"(==?)\s*('[^']*'(?:\s*,\s*'[^']*')+)", of.text)
    named = None if found is None else re.findall(r"'([^']*)'", found[2])
    if found is None or named is None or one.message.removeprefix("there is no table ") not in named:
        return None
    return f"IN ({found[2]})", Fix(f"IN ({found[2]})", *found.span())


def write_as(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the AS that `WITH t (SELECT ..)` lacks."""
    found = re.search(r"(?i)\bWITH\s+(\w+)(?=\s*\(\s*SELECT\b)", of.text)
    if found is None or one.message != f"there is no table {found[1]}":
        return None
    return f"WITH {found[1]} AS (", Fix(" AS", found.end(), found.end())


def drop_percent(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Take LIMIT as a number of groups, where it is a percentage, or takes more for equal numbers."""
    ties = re.search(r"(?i)\b(\d+)(\s+ROWS?)?(\s+WITH\s+TIES)\b", of.text)
    if ties is not None:
        only = " ONLY" if ties[2] else ""
        return f"{ties[1]}{ties[2] or ''}{only}", Fix(only, *ties.span(3), asks=f"{ties[1]} groups")
    found = re.search(r"(?i)\bLIMIT\s+(\d+)(\s*(?:PERCENT\b|%))", of.text)
    if found is None:
        return None
    return f"LIMIT {found[1]}", Fix("", found.start(2), found.end(2), asks=f"{found[1]} groups")


def separate_comparisons(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `1 < x < 2` as two comparisons."""
    inner = node.this.unnest() if isinstance(node, (exp.LT, exp.LTE, exp.GT, exp.GTE)) else None
    if not isinstance(inner, (exp.LT, exp.LTE, exp.GT, exp.GTE)) or "BOOLEAN" not in one.message:
        return None
    middle, whole = of.outline.span(inner.expression), of.outline.span(node)
    if middle is None or whole is None:
        return None
    written = f" AND {of.text[slice(*middle)]}"
    return f"{of.text[whole[0] : middle[1]]}{written}..", Fix(written, middle[1], middle[1])


def name_missing(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write IS NULL for NOT before a value that is no condition."""
    span = of.outline.span(of.original(node))
    before = None if span is None else re.search(r"(?i)\bNOT\s+$", of.text[: span[0]])
    if span is None or before is None or not isinstance(node, exp.Column):
        return None
    written = f"{of.text[slice(*span)]} IS NULL"
    return written, Fix(written, before.start(), span[1], guess="IS NULL")


def write_second(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Say that a statistic is one of two expressions."""
    name = one.message.split()[0]
    call = of.outline.call_around(of.query.source.position(node), name)
    paired = name.lower().startswith(("corr", "covar", "regr_"))
    if call is not None and paired and len(call[2]) == 3 and call[2][2].startswith("'"):
        written = f"{name}({', '.join(call[2][:2])})"
        return written, Fix(written, call[0], call[1], asks="Pearson's correlation")
    if call is None or not paired or len(call[2]) == 2:
        return None
    return f"{name}(y, x)", None, f"{name} takes two expressions, y and x"


def enclose_subquery(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the parentheses of `FROM SELECT ..`, to the end of the statement."""
    found = re.search(r"(?is)\bFROM\s+(SELECT\b[^;]*?)\s*;?\s*\Z", of.text)
    written = "" if found is None else f"({found[1]})"
    return None if found is None else ("FROM (SELECT ..)", Fix(written, *found.span(1)))


def write_between(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `IN 2023..2024` with BETWEEN."""
    both = re.search(r"(?i)\bIN\s+(?=BETWEEN\b)", of.text)
    if both is not None:
        return "BETWEEN", Fix("", *both.span())
    found = re.search(r"(?i)\bIN\s+(\d+)\s*(?:\.\.+|-|:|\bTO\b)\s*(\d+)", of.text)
    written = "" if found is None else f"BETWEEN {found[1]} AND {found[2]}"
    return None if found is None else (written, Fix(written, *found.span()))


def write_in(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `= ANY ('a', 'b')` and `<> ALL ('a', 'b')` with IN."""
    found = re.search(r"(?i)(=\s*(?:ANY|SOME)|(?:<>|!=)\s*ALL)\s*(?=\(\s*['\d])", of.text)
    if found is None:
        return None
    written = "IN " if found[1][0] == "=" else "NOT IN "
    return written.strip(), Fix(written, *found.span())


def quote_date(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Quote a day: 2024-01-01 is a number, 2022."""
    found = list(re.finditer(r"(?<![\w'/-])\d{4}([-/])\d\d?\1\d\d?(?![\w'/-])", of.text))
    if not found or not {"DATE", "TIMESTAMP"} & {*one.message.split()}:
        return None
    fixes = [Fix(f"DATE '{m[0].replace('/', '-')}'", *m.span()) for m in found]
    return fixes[0].text, Fix(fixes[0].text, fixes[0].start, fixes[0].end, also=tuple(fixes[1:]))


def count_instead(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the units, where their largest or smallest name is asked for."""
    name = one.message.partition(" ")[0]
    call = of.outline.call_around(of.query.source.position(node), name)
    if call is None or len(call[2]) != 1 or of.outermost(node) is None:
        return None
    written = f"COUNT(DISTINCT {call[2][0]})"
    return written, Fix(written, call[0], call[1], asks=f"how many {call[2][0]} there are")


def list_shares(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write several shares of one call as a list."""
    call = of.outline.call_around(of.query.source.position(node), one.message.partition(" ")[0])
    shares = call[2][1:] if call is not None else ()
    if call is None or len(shares) < 2 or not all(re.fullmatch(r"0?\.\d+", each) for each in shares):
        return None
    written = f"QUANTILE_CONT({call[2][0]}, [{', '.join(shares)}])"
    return written, Fix(written, call[0], call[1])


def join_parameters(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write ClickHouse's `quantile(0.9)(x)` with both in one list."""
    found = [*re.finditer(r"(?i)\bquantile\w*\(\s*(0?\.\d+)\s*\)\s*\(\s*([^()]+?)\s*\)", of.text)]
    fixes = [Fix(f"QUANTILE_CONT({m[2]}, {m[1]})", *m.span()) for m in found]
    both = r"(?i)\b(PERCENTILE_\w+\()\s*[\w.]+\s*,\s*([\d.]+\s*\)\s*WITHIN\s+GROUP\b)"
    fixes = fixes or [Fix(m[1] + m[2], *m.span()) for m in re.finditer(both, of.text)]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def list_tuple(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `x = ('a', 'b')` with IN."""
    value = r"(?:'[^']*'|-?[\d.]+)"
    found = [*re.finditer(rf"(==?|<>|!=)\s*(\(\s*{value}(?:\s*,\s*{value})+\s*\))", of.text)]
    fixes = [Fix(f"{'IN' if m[1][0] == '=' else 'NOT IN'} {m[2]}", *m.span()) for m in found]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def join_by_words(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write AND and OR for the & and | between comparisons."""
    whole, words = of.original(node), {TokenType.AMP: "AND", TokenType.PIPE: "OR"}
    compared = isinstance(whole.parent, exp.Predicate) or any(
        isinstance(n, exp.Predicate) for n in whole.walk()
    )
    signs = [t for t in of.outline.tokens if t.token_type in words] if compared else []
    fixes = [Fix(words[t.token_type], t.start, t.end + 1) for t in signs]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def write_or(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write OR for the || of other languages between comparisons."""
    signs = [t for t in of.outline.tokens if t.token_type == TokenType.DPIPE]
    fixes = [Fix("OR", t.start, t.end + 1) for t in signs]
    return ("OR", replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def write_results(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the results of `IF(x)`: 1 where the condition is true, else 0."""
    call = of.call(node)
    if call is None or len(call[2]) != 1:
        return None
    written = f"IF({call[2][0]}, 1, 0)"
    return written, Fix(written, call[0], call[1], guess="1 and 0")


def list_series(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the numbers that a recursive query counts up to as a series."""
    form = (
        r"(?is)\bRECURSIVE\s+(\w+)(?:\s*\(\s*(\w+)\s*\))?\s+AS\s*\(\s*SELECT\s+(\d+)(?:\s+(?:AS\s+)?(\w+))?\s+UNION\s+ALL\s+"
        r"SELECT\s+(\w+)\s*\+\s*1\s+FROM\s+\1\s+WHERE\s+\5\s*(<=?)\s*(\d+)\s*\)"
    )
    found = re.search(form, of.text)
    if found is None:
        return None
    last = int(found[7]) + (found[6] == "<=")
    written = f"{found[1]} AS (SELECT {found[5]} FROM generate_series({found[3]}, {last}) AS t({found[5]}))"
    return written, Fix(written, *found.span())


def write_contains(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write Python's `'a' IN x` as the text that x contains."""
    found = [*re.finditer(r"(?i)('[^']*')\s+IN\s+([A-Za-z_][\w.]*)(?![\w.]|\s*\()", of.text)]
    fixes = [Fix(f"contains({m[2]}, {m[1]})", *m.span()) for m in found]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def write_rollup(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write ClickHouse's WITH TOTALS of one key as WITH ROLLUP."""
    found = re.search(r"(?i)\bGROUP\s+BY\s+[\w.]+\s+(WITH\s+TOTALS)\b", of.text)
    return None if found is None else ("WITH ROLLUP", Fix("WITH ROLLUP", *found.span(1)))


def count_unit_of_table(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Count the unit's column for `COUNT(v.*)`: it is NULL where there is no row."""
    found, select = re.search(r"(?i)\bCOUNT\s*\(\s*(\w+)\.\*\s*\)", of.text), node.find_ancestor(exp.Select)
    named = of.list_tables(select) if select is not None and found is not None else []
    unit = next((n.unit for n in named if found is not None and fold(n.alias) == fold(found[1])), None)
    if found is None or unit is None:
        return None
    written = f"COUNT({found[1]}.{unit})"
    return written, Fix(written, *found.span())


def write_case(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `IF x THEN 1 ELSE 0` as CASE, with its END."""
    tokens = of.outline.tokens
    begin = next((i for i, t in enumerate(tokens) if t.text.upper() == "IF"), None)
    depth, closed = 0, None
    for token in tokens[begin:] if begin is not None else ():
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        ends = token.token_type in (TokenType.COMMA, TokenType.FROM) and depth == 0
        if closed is None and (depth < 0 or ends):
            closed = token
    if begin is None or closed is None:
        return None
    inside = of.text[tokens[begin].end + 1 : closed.start].rstrip()
    end = "" if inside.upper().endswith(" END") else " END"
    written = f"CASE WHEN{inside}{end}"
    return written, Fix(written, tokens[begin].start, tokens[begin].start + 2 + len(inside))


def write_pattern(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write % for * in the pattern of LIKE."""
    found = re.search(r"(?i)\bLIKE\s+('[^'%]*\*[^'%]*')", of.text)
    if found is None:
        return None
    written = found[1].replace("*", "%")
    return f"LIKE {written}: % stands for any characters", Fix(written, *found.span(1))


_COMPARED = lazy_pattern(
    r"(?i)([A-Za-z_][\w.]*(?:\([\w.]+\))?)\s*(=|==|<>|!=)\s*('[^']*'|-?[\d.]+)((?:\s+(?:OR|AND)\s+(?:'[^']*'|-?[\d.]+)(?!\s*[=<>]))+)"
)


def list_comparisons(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `x = 'a' OR 'b'` as `x IN ('a', 'b')`."""
    fixes, written = list[Fix](), of.original(node)
    listed = re.search(r"(?i)\bIN\s*\((\s*'[^']*'(?:\s+(?:AND|OR)\s+'[^']*')+)\s*\)", of.text)
    if listed is not None:
        texts = re.sub(r"(?i)'\s+(?:AND|OR)\s+'", "', '", listed[1])
        return f"IN ({texts})", Fix(texts, *listed.span(1))
    for match in _COMPARED.finditer(of.text):
        values = [match[3], *re.findall(r"'[^']*'|-?[\d.]+", match[4])]
        word = "IN" if "=" in match[2] and "!" not in match[2] else "NOT IN"
        fixes.append(Fix(f"{match[1]} {word} ({', '.join(values)})", *match.span()))
    span = of.outline.span(written) if isinstance(written, exp.Literal) and not fixes else None
    if span is not None and (one.hint or "").endswith(of.text[slice(*span)]):  # x LIKE '%a%' OR '%b%'
        return one.hint, Fix(one.hint or "", *span)
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def separate_keys(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `GROUP BY a AND b` with a comma."""
    if node.find_ancestor(exp.Group) is None:
        return None
    found = re.search(r"(?i)\bGROUP\s+BY\s+[\w.]+(?:\s*(?:,|\bAND\b)\s*[\w.]+)+", of.text)
    signs = [] if found is None else [*re.finditer(r"(?i)\s+AND\b", found[0])]
    if found is None or not signs:
        return None
    fixes = [Fix(",", found.start() + m.start(), found.start() + m.end()) for m in signs]
    return re.sub(r"(?i)\s+AND\b", ",", found[0]), replace(fixes[0], also=tuple(fixes[1:]))


_DROPPED = {
    "SAMPLE": (
        r"(?i)\s*\b(?:TABLESAMPLE|USING\s+SAMPLE|SAMPLE)\s*(?:\w+\s*)?(?:\([^()]*\)|[\d.]+\s*(?:%|PERCENT|ROWS)?)",
        "all rows, not a sample of them",
    ),
    "INTO": (r"(?i)\s*\bINTO\s+(?:TEMP(?:ORARY)?\s+)?(?:TABLE\s+)?[#\w.]+", "the answer is shown, not kept"),
    "KIND": (r"(?i)\s*\bAS\s+(?:STRUCT|VALUE)\b", ""),
    "FOR UPDATE": (r"(?i)\s*\bFOR\s+(?:UPDATE|SHARE)(?:\s+(?:NOWAIT|SKIP\s+LOCKED))?", ""),
    "a hint": (r"\s*/\*\+.*?\*/", ""),
    "WITH ORDINALITY": (r"(?i)\s*\bWITH\s+(?:ORDINALITY|OFFSET)\b", "without the number of each"),
}
"""Clauses that are left out, and what is asked then."""


def drop_clause(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Leave a clause out that changes nothing here, or say what is asked without it."""
    form, asks = _DROPPED.get(one.message.removesuffix(" is not supported here"), ("", ""))
    found = [*re.finditer(form, of.text)] if form else []
    fixes = [Fix("", *m.span(), asks=asks) for m in found]
    return ("leave it out", replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def write_format(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `CAST(day AS STRING FORMAT 'YYYY')` of BigQuery as the call that it is."""
    form = re.compile(r"(?i)\bCAST\s*\(([^()]+?)\s+AS\s+(?:STRING|VARCHAR)\s+FORMAT\s+('[^']*')\s*\)")
    fixes = [Fix(m.expand(r"TO_CHAR(\1, \2)"), *m.span()) for m in form.finditer(of.text)]
    return (fixes[0].text, replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def separate_texts(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the comma that a list of texts lacks: `IN ('a' 'b')`."""
    found = [*re.finditer(r"(?<=')\s+(?=')", of.text)]
    fixes = [Fix(", ", *m.span(), guess="the comma") for m in found]
    return ("'..', '..'", replace(fixes[0], also=tuple(fixes[1:]))) if fixes else None


def compare_with_zero(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `x <> 0` for a number that stands as a condition."""
    span = of.outline.span(of.original(node))
    kind = one.message.rpartition(" ")[2].partition("(")[0]
    if span is None or not isinstance(node, exp.Column) or kind not in ("DOUBLE", "DECIMAL", "FLOAT"):
        return None
    written = f"{of.text[slice(*span)]} <> 0"
    return written, Fix(written, *span, guess="what it is compared with")
