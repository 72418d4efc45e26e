"""Advise on what is written as other systems or languages write it: dates, patterns, IF, lists of shares."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dpsql.analysis.advice.refused_statement import Advice, RefusedStatement, change_all, replace_forms
from dpsql.errors import Fix, Obstacle
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import fold

_COUNTS = ("COUNT", "COUNT_IF")

_NO_VALUE = r"(?:NULL|TRUE|FALSE|DISTINCT)\b"
_VALUE = r"(?:'[^']*'|-?[\d.]+)"
_LISTED = rf"(\(\s*{_VALUE}(?:\s*,\s*{_VALUE})+\s*\))"

compare_with_values = replace_forms(
    (r"\bIS\s+NOT\s+EMPTY\b", "<> ''"),
    (r"\bIS\s+EMPTY\b", "= ''"),
    (rf"\bIS\s+NOT\s+(?!{_NO_VALUE})([A-Za-z]\w*)", r"<> '\1'"),
    (rf"\bIS\s+(?!NOT\b|{_NO_VALUE})([A-Za-z]\w*)", r"= '\1'"),
    (r"\bIS(\s+NOT)?\s+'(NULL|TRUE|FALSE)'", r"IS\1 \2"),
    (rf"\bIS\s+NOT\s+({_VALUE})", r"<> \1"),
    (rf"\bIS\s+({_VALUE})", r"= \1"),
)
write_as = replace_forms((r"\bWITH\s+(\w+)(?=\s*\(\s*SELECT\b)", r"WITH \1 AS"))
drop_ties = replace_forms(
    (r"\b(\d+)\s+(ROWS?)\s+WITH\s+TIES\b", r"\1 \2 ONLY"),
    (r"\b(\d+)\s+WITH\s+TIES\b", r"\1"),
    asks=r"\1 groups",
)
drop_percent = replace_forms((r"\bLIMIT\s+(\d+)\s*(?:PERCENT\b|%)", r"LIMIT \1"), asks=r"\1 groups")
enclose_subquery = replace_forms(
    (r"\bFROM\s+(SELECT\b[^;]*?)\s*;?\s*\Z", r"FROM (\1)"), hint="FROM (SELECT ..)"
)
write_between = replace_forms(
    (r"\bIN\s+(?=BETWEEN\b)", ""),
    (r"\bIN\s+(\d+)\s*(?:\.\.+|-|:|\bTO\b)\s*(\d+)", r"BETWEEN \1 AND \2"),
)
write_in = replace_forms(
    (r"=\s*(?:ANY|SOME)\s*(?=\(\s*['\d])", "IN "), (r"(?:<>|!=)\s*ALL\s*(?=\(\s*['\d])", "NOT IN ")
)
list_tuple = replace_forms((rf"==?\s*{_LISTED}", r"IN \1"), (rf"(?:<>|!=)\s*{_LISTED}", r"NOT IN \1"))
join_parameters = replace_forms(
    (r"\bquantiles\w*\(\s*([\d., ]+?)\s*\)\s*\(\s*([^()]+?)\s*\)", r"QUANTILE_CONT(\2, [\1])"),
    (r"\bquantile\w*\(\s*(0?\.\d+)\s*\)\s*\(\s*([^()]+?)\s*\)", r"QUANTILE_CONT(\2, \1)"),
    (r"\b(PERCENTILE_\w+\()\s*[\w.]+\s*,\s*([\d.]+\s*\)\s*WITHIN\s+GROUP\b)", r"\1\2"),
)
write_or = replace_forms((r"\|\|", "OR"))
write_contains = replace_forms((r"('[^']*')\s+IN\s+([A-Za-z_][\w.]*)(?![\w.]|\s*\()", r"contains(\2, \1)"))
separate_texts = replace_forms((r"(?<=')\s+(?=')", ", "), hint="'..', '..'", guess="the comma")
drop_sample = replace_forms(
    (
        r"\s*\b(?:TABLESAMPLE|USING\s+SAMPLE|SAMPLE)\s*(?:\w+\s*)?(?:\([^()]*\)|[\d.]+\s*(?:%|PERCENT|ROWS)?)",
        "",
    ),
    asks="all rows, not a sample of them",
)
drop_into = replace_forms(
    (r"\s*\bINTO\s+(?:TEMP(?:ORARY)?\s+)?(?:TABLE\s+)?[#\w.]+", ""), asks="the answer is shown, not kept"
)
drop_clause = replace_forms(
    (r"\s*\bAS\s+(?:STRUCT|VALUE)\b", ""),
    (r"\s*\bFOR\s+(?:UPDATE|SHARE)(?:\s+(?:NOWAIT|SKIP\s+LOCKED))?", ""),
    (r"\s*/\*\+.*?\*/", ""),
    (r"\s+WITH\s*\([^()]*\)", ""),
)
count_numbered = replace_forms((r"\bCOUNT\s*\(\s*(?:\w+\.)?rowid\s*\)", "COUNT(*)"))
_ZONE = r"(?:Z|[+-]\d\d:?\d*|[A-Z]+/[A-Z_/]+|UTC)"
drop_time_and_offset = replace_forms(
    (rf"'(\d{{4}}-\d\d-\d\d)(?:[T ][\d:.]+)?\s*{_ZONE}'", r"'\1'"), provided="times are of that zone"
)
drop_offset = replace_forms(
    (rf"'(\d{{4}}-\d\d-\d\d)([T ][\d:.]+)?\s*{_ZONE}'", r"'\1\2'"), provided="times are of that zone"
)
write_format = replace_forms(
    (
        r"\bCAST\s*\(([^()]+?)\s+AS\s+(?:(?:STRING|(?:VAR)?CHAR(?:\(\d+\))?)\s+)?FORMAT\s+('[^']*')\s*\)",
        r"TO_CHAR(\1, \2)",
    )
)


def advise_on_starred_function(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Name the aggregate that a mistyped one of all rows is: `CUONT(*)`."""
    name = one.message.split()[2]
    close = difflib.get_close_matches(name.upper(), _COUNTS, 1, 0.6)
    at = next((t for t in of.outline.tokens if fold(t.text) == fold(name)), None)
    return (f"did you mean {close[0]}?", Fix(close[0], at.start, at.end + 1)) if close and at else None


def cast_moved_text(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Convert texts that an INTERVAL is added to, which MySQL reads as times."""
    moved = [n for n in of.query.tree.find_all(exp.Add, exp.Sub) if isinstance(n.expression, exp.Interval)]
    spans = {of.outline.span(n.this) for n in moved if isinstance(n.this, exp.Column) and n.this == node.this}
    fixes = [Fix(f"CAST({of.text[slice(*span)]} AS TIMESTAMP)", *span) for span in spans if span is not None]
    return change_all(sorted(fixes, key=lambda fix: fix.start))


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


def quote_date(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Quote a day: 2024-01-01 is a number, 2022."""
    found = list(re.finditer(r"(?<![\w'/-])\d{4}([-/])\d\d?\1\d\d?(?![\w'/-])", of.text))
    if not found or not {"DATE", "TIMESTAMP"} & {*one.message.split()}:
        return None
    fixes = [Fix(f"DATE '{m[0].replace('/', '-')}'", *m.span()) for m in found]
    return change_all(fixes)


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


def write_results(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write the results of `IF(x)`, 1 where the condition is true, else 0; COUNT(IF(x)) as COUNT_IF."""
    call = of.call(node)
    if call is None or len(call[2]) != 1:
        return None
    around = of.outline.call_around(call[0] - 1, "count")
    if around is not None:
        written = f"COUNT_IF({call[2][0]})"
        return written, Fix(written, *around[:2])
    written = f"IF({call[2][0]}, 1, 0)"
    return written, Fix(written, call[0], call[1], guess="1 and 0")


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
    return change_all(fixes)


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


_MISSING = lazy_pattern(r"(?i)\s*(?:n/?a|nan|null|none|nil|-|\?|missing|unknown|)\s*")


def compare_with_null(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write IS NULL for `x = 'NA'` of a number or a day, and a name for its text: `'n' > 100`."""
    sides = (node.this, node.expression) if isinstance(node, exp.Binary) else ()
    text = next((s for s in sides if isinstance(s, exp.Literal) and s.is_string), None)
    other = next((s for s in sides if s is not text), None)
    spans = [None if s is None else of.outline.span(of.original(s)) for s in (text, other)]
    if text is None or other is None or spans[0] is None or spans[1] is None:
        return None
    select = node.find_ancestor(exp.Select)
    names = {fold(i.alias_or_name) for i in select.expressions} if select is not None else set()
    if fold(text.name) in names:
        return f"{text.name} is a name", Fix(text.name, *spans[0])
    if not _MISSING.fullmatch(text.name) or not isinstance(node, (exp.EQ, exp.NEQ)):
        return None
    written = f"{of.text[slice(*spans[1])]} IS {'NOT ' * isinstance(node, exp.NEQ)}NULL"
    start, end = min(s[0] for s in spans if s), max(s[1] for s in spans if s)
    return written, Fix(written, start, end)


def ask_for_null(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write IS NULL for the comparison with NULL by which no group is left."""
    for null in of.query.tree.find_all(exp.Null):
        whole = null.parent
        if not isinstance(whole, (exp.In, exp.EQ, exp.NEQ)):
            continue
        span = of.outline.span(of.original(whole.this))
        listed = re.search(r"(?i),\s*NULL\b(?=\s*[,)])|(?<=\()\s*NULL\s*,\s*", of.text)
        if isinstance(whole, exp.In) and listed is not None:  # x NOT IN ('a', NULL) holds for no row
            return "leave NULL out", Fix("", *listed.span())
        found = None if span is None else re.compile(r"(?i)\s*(?:=|<>|!=)\s*NULL\b").match(of.text, span[1])
        if found is not None and not isinstance(whole, exp.In):
            written = f" IS {'NOT ' * isinstance(whole, exp.NEQ)}NULL"
            return written.strip(), Fix(written, *found.span())
    return None


def compare_with_zero(of: RefusedStatement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Write `x <> 0` for a number that stands as a condition."""
    span = of.outline.span(of.original(node))
    kind = one.message.rpartition(" ")[2].partition("(")[0]
    if span is None or not isinstance(node, exp.Column) or kind not in ("DOUBLE", "DECIMAL", "FLOAT"):
        return None
    written = f"{of.text[slice(*span)]} <> 0"
    return written, Fix(written, *span, guess="what it is compared with")
