"""What people write that does not parse: forms that SQL does not have, and options in other places."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import Fix
from dpsql.language.tokens import find_closing_parenthesis
from dpsql.lazy_pattern import lazy_pattern

_MORE, _LESS = r"(?:GREATER|MORE|HIGHER|LARGER|BIGGER)", r"(?:LESS|SMALLER|LOWER|FEWER)"
_NAME = r"([A-Za-z_][\w.]*)"
_NO_CLAUSE = r"(?:(?!\b(?:SELECT|FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|QUALIFY)\b)[^()]|\([^()]*\))*?"
_NAMED = r'AS "\1"'
_FORMS = (
    (r"(?<![\w.])(\d{1,3})\.(\d{3}),(\d{1,2})(?!\d)", r"\1\2.\3"),
    (r"(?<![\w.])(\d+)k\b", r"\g<1>000"),
    (r"(?<=\()\s*([\w.]+)\s+x\s+([\w.]+)\s*(?=\))", r"\1 * \2"),
    (
        r"\b(?!(?:WHERE|AND|OR|NOT|WHEN|ON|HAVING|SELECT|IF)\b)([A-Za-z_][\w.]*)\s+(NOT\s+)?EXISTS\s*\(\s*SELECT\s+[\d*]+\s+FROM\b",
        r"\1 \2IN (SELECT \1 FROM",
    ),
    (r"#\s*(\d{4}-\d\d-\d\d)\s*#", r"DATE '\1'"),
    (r"#\s*(\d{1,2}/\d{1,2}/\d{4})\s*#", r"'\1'"),
    (
        r"\bHAVING\s+COUNT\s*\(\s*\*\s*\)\s*(>=?|<=?)\s*(\d+)\s*%",
        r"QUALIFY COUNT(*) \1 \2 / 100 * SUM(COUNT(*)) OVER ()",
    ),
    (r"\bCOUNT\s*\(\s*(?:\*\s*)?WHERE\s+((?:[^()]|\([^()]*\))*)\)", r"COUNT(*) FILTER (WHERE \1)"),
    (
        r"\s+CLAMPED\s+BETWEEN\s+(-?[\d.]+)\s+AND\s+(-?[\d.]+)",
        r", contribution_bounds_per_group => (\1, \2)",
    ),
    (r"(?<=[<>=])\s*\$(\d+(?:\.\d+)|\d{2,})", r" \1"),
    (r"\bCAST\s*\(\s*([^(),]+?)\s*,\s*'?(\w+)'?\s*\)", r"CAST(\1 AS \2)"),
    (r"\bWHEN\s+((?:(?!\b(?:THEN|WHEN|CASE|END)\b)[^,()]|\([^()]*\))+?)\s*,\s*", r"WHEN \1 THEN "),
    (r"\bIF\s+((?:(?!\b(?:IF|SELECT)\b)[^()])+?\bTHEN\b.*?)\s+END\s+IF\b", r"CASE WHEN \1 END"),
    (r"\s\\\s", " / "),
    (
        r"\$__timeGroup\w*\(\s*([\w.]+)\s*,\s*'?1d'?\s*\)(.*?)\$__timeFilter\(\s*([\w.]+)\s*\)",
        r"date_trunc('day', \1)\2\3 >= '2024-01-01'",
    ),
    (r"\$__timeFilter\(\s*([\w.]+)\s*\)", r"\1 >= '2024-01-01'"),
    (r"\[\[(.*?)\]\]", r"\1"),
    (r"(\bSELECT|,)\s*@\w+\s*=\s*", r"\1 "),
    (r"\A\s*SEL\s", "SELECT "),
    (r"\s*\(\s*(?:(?:FORMAT|TITLE)\s+'[^']*'|(?:NOT\s+)?CASESPECIFIC)\s*\)", ""),
    (r"\s*\(\s*NAMED\s+(\w+)\s*\)", r" AS \1"),
    (r"\{\{\s*(?:ref|source)\s*\((?:[^()]*,)?\s*['\"](\w+)['\"]\s*\)\s*\}\}", r"\1"),
    (rf"(?<!\w){_NAME}\s*%(?=\s*[),])", r"\1 / 100"),
    (r"\bLIKE\s+(%\w[\w ]*%?|\w+%)(?=\s|\)|\Z)", r"LIKE '\1'"),
    (
        rf"{_NAME}\s+(?:DOES\s+)?NOT\s+(?:CONTAINS?|HAVE|HAS|INCLUDES?)\s+('[^']*')",
        r"NOT contains(\1, \2)",
    ),
    (rf"{_NAME}\s+(?:CONTAINS|HAS|INCLUDES)\s+('[^']*')", r"contains(\1, \2)"),
    (rf"{_NAME}\s+STARTS\s+WITH\s+('[^']*')", r"starts_with(\1, \2)"),
    (rf"{_NAME}\s+ENDS\s+WITH\s+('[^']*')", r"ends_with(\1, \2)"),
    (rf"\s+(?:IS\s+)?(?:{_MORE}\s+THAN\s+OR\s+EQUALS?(?:\s+TO)?|AT\s+LEAST)\b", " >="),
    (rf"\s+(?:IS\s+)?(?:{_LESS}\s+THAN\s+OR\s+EQUALS?(?:\s+TO)?|AT\s+MOST)\b", " <="),
    (rf"\s+(?:IS\s+)?{_MORE}\s+THAN\b", " >"),
    (rf"\s+(?:IS\s+)?{_LESS}\s+THAN\b", " <"),
    (r"\s+(?:IS\s+)?NOT\s+EQUALS?(?:\s+TO)?\b", " <>"),
    (r"\s+(?:IS\s+)?EQUALS?(?:\s+TO)?\b", " ="),
    (r"!==|<\s+>|!\s+=|\bNOT\s*=", "<>"),
    (r"===|:=", "="),
    (r">\s+=", ">="),
    (r"<\s+=", "<="),
    (r"\s+NOT\s+(?=['\d])", " <> "),
    (r"\bNOT\s+IS\s+NULL\b", "IS NOT NULL"),
    (r"\bIS\s+(NOT\s+)?(LIKE|ILIKE|IN|BETWEEN)\b", r"\1\2"),
    (r"\b(LIKE|IN)\s+NOT\b", r"NOT \1"),
    (rf"\b{_NAME}\s+(NOT\s+)?(I?LIKE)\s+IN\s*(?=\(\s*')", r"\2\1 \3 ANY "),
    (r"\bIN\s*\(\s*([\w.']+)\s*(?:TO|\.\.\.?|:)\s*([\w.']+)\s*\)", r"BETWEEN \1 AND \2"),
    (r"\bBETWEEN\s*\(\s*([^(),]+?)\s*(?:,|AND)\s*([^(),]+?)\s*\)", r"BETWEEN \1 AND \2"),
    (r"\bMATCH\s*\(\s*([\w.]+)\s*\)\s*AGAINST\s*\(\s*('[^']*')[^()]*\)", r"contains(\1, \2)"),
    (r"\bIN\s*\{([^{}]*)\}", r"IN (\1)"),
    (r"\b(AND|OR)\s+(?:AND|OR)\b", r"\1"),
    (r"\b(WHERE|HAVING|ON)\s+(?:AND|OR)\b", r"\1"),
    (rf"\b(WHERE\b{_NO_CLAUSE}\b(?:AND|OR))\s+WHERE\b", r"\1"),
    (r"\s*(?:,|\b(?:AND|OR))\s+(WHERE|GROUP\s+BY|ORDER\s+BY|HAVING|LIMIT)\b", r" \1"),
    (r"\s*,\s*(WHEN|THEN|ELSE|END|FROM|DESC|ASC)\b", r" \1"),
    (r"\b(SELECT|FROM|WHERE|HAVING|BY|LIMIT|DISTINCT|AS|ON|IN|JOIN|NOT|LIKE)\s+\1\b", r"\1"),
    (rf"\b(WHERE\b{_NO_CLAUSE})\s+WHERE\b", r"\1 AND"),
    (rf"\b(HAVING\b{_NO_CLAUSE})\s+HAVING\b", r"\1 AND"),
    (r"\b(FROM\s+\w+(?:\s+(?:AS\s+)?\w+)??)\s+FROM\b", r"\1,"),
    (r"\b(SELECT)\s*,", r"\1 "),
    (r"\b(?:ELSE\s*IF|ELIF|ELSIF)\b", "WHEN"),
    (
        r"\bAS\s+(?!(?:SELECT|WITH)\b)([A-Za-z_]\w*(?:\s+(?!(?:FROM|OVER|FILTER|WHERE|JOIN|ON)\b)[A-Za-z_]\w*)+)(?=\s*,|\s+FROM\b)",
        _NAMED,
    ),
    (r"\bAS\s+(?![\d'\"])([^\s,()'\"]*[%#$/.+-][^\s,()'\"]*)(?=\s*,|\s+FROM\b)", _NAMED),
    (r"\(\s*([\w.]+)\s+DISTINCT\s*\)", r"(DISTINCT \1)"),
    (r"\bWITH\s+(\w+)\s+AS\s+(SELECT\b(?:(?!\bSELECT\b).)*?)\s+(?=SELECT\b)", r"WITH \1 AS (\2) "),
    (
        r"\b(?!(?:WHERE|AND|OR|NOT|WHEN|ON|HAVING|SELECT|IF)\b)([A-Za-z_][\w.]*)\s+(NOT\s+)?EXISTS\s*(?=\(\s*SELECT)",
        r"\1 \2IN ",
    ),
    (
        r"\b(LEFT|RIGHT|FULL|INNER|CROSS)(\s+OUTER)?\s+(?!(?:JOIN|OUTER|SEMI|ANTI|LATERAL)\b)(?=\w+\s+(?:(?:AS\s+)?\w+\s+)?(?:ON|USING)\b)",
        r"\1\2 JOIN ",
    ),
    (
        r"\bSELECT\s+(?:DIFFERENTIALLY\s+PRIVATE(?:LY)?|PRIVATE(?:LY)?|NOISY|ANONYMI[SZ]ED)\s+(?=\w+\s*[(,])",
        "SELECT WITH DIFFERENTIAL_PRIVACY ",
    ),
    (r"\bOVER\s*\(\s*(?!PARTITION|ORDER)([\w.]+\s+(?:DESC|ASC))\s*\)", r"OVER (ORDER BY \1)"),
    (r"\bNULL\s+(FIRST|LAST)\b", r"NULLS \1"),
    (r"\s+AS(?=\s+FROM\b|\s*[,)])", ""),
    (r"\bDISTINCT\s+COUNT\s*\(\s*(?!\*|DISTINCT\b)", "COUNT(DISTINCT "),
    (r"\bDISTINCT\s+ON\s+(?=[\w.]+\s*\))", "DISTINCT "),
    (r"\bSELECT\s+(?:FIRST|LIMIT)\s+(\d+)\s+", r"SELECT TOP \1 "),
    (r"\bBETWEEN\s+(-?[\d.]+)\s*-\s*(-?[\d.]+)(?!\s*AND\b)", r"BETWEEN \1 AND \2"),
    (r"\)\s+BY\s+([\w., ]+?)\s+FROM\s+(\w+)", r") FROM \2 GROUP BY \1"),
    (r"\s+(?:USE|FORCE|IGNORE)\s+(?:INDEX|KEY)\s*\([^()]*\)", ""),
    (r"(?<=\))\s+KEEP\s*\([^()]*\)", ""),
    (r"==?\s*'?([A-Za-z_]\w*)[*%]'?(?=\s|\Z)", r"LIKE '\1%'"),
    (r"\bSORT\s+BY\b", "ORDER BY"),
    (r"\b(?:FIRST|MAX|ROWS?)\s+(\d+)\s*;?\s*\Z", r"LIMIT \1"),
    (r"\bCALCULATED\s+", ""),
    (r"\s+AGO\b", ""),
    (r"\bLIMIT\s*(?:=|TO|TOP)\s*(?=\d)", "LIMIT "),
    (
        r"\b(FROM\s+\w+(?:\s+(?:AS\s+)?(?!JOIN\b)\w+)?)\s*,\s*(\w+(?:\s+(?:AS\s+)?(?!ON\b)\w+)?\s+ON\b)",
        r"\1 JOIN \2",
    ),
    (r"\bCOUNT\s*\*", "COUNT(*)"),
    (r"\bCOUNT\s*\(\s*CASE\s+WHEN\s+((?:(?!\bTHEN\b)[^()])+?)(?:\s+END)?\s*\)", r"COUNT_IF(\1)"),
    (r"(?<=,)\s*DISTINCT\s*(?:\(\s*([\w.]+)\s*\)|([\w.]+))(?=\s*,|\s+FROM\b)", r" COUNT(DISTINCT \1\2)"),
    (r"\bWITHIN\s+GROUP\s*\(\s*(?!ORDER\b)", "WITHIN GROUP (ORDER BY "),
    (r"\(\s*(\w+\s*\([^()]*\)\s+FROM\b)", r"(SELECT \1"),
    (rf"\b{_NAME}\s+MOD\s+([\w.]+)", r"\1 % \2"),
    (rf"\b{_NAME}\s+DIV\s+([\w.]+)", r"\1 // \2"),
    (r"\bDIV\s*\(\s*([\w.]+)\s*,\s*([\w.]+)\s*\)", r"(\1 // \2)"),
    (r"(\w+\([^()]*?)\s+WHERE\s+([^()]*?)\s*\)", r"\1) FILTER (WHERE \2)"),
    (
        r"(\w+\([^()]*\))(\s+AS\s+\w+)?\s+(?:WHERE|FILTER(?:\s+WHERE)?)\s+(?!\()((?:(?!\bAS\b|\bFROM\b|,).)+?)(?=\s+(?:AS|FROM)\b|\s*,)",
        r"\1 FILTER (WHERE \3)\2",
    ),
    (r"(?<=\))\s+WITH\s+(?:EPSILON|NOISE)\s*=?\s*[\d.]+", ""),
    (r"\s+(?:SETTINGS\s+\w+\s*=.*|OPTION\s*\([^()]*\)|FORMAT\s+\w+)\s*\Z", ""),
    (r"\s+(?:DISTRIBUTE|CLUSTER)\s+BY\s+[\w., ]+?\s+SORT\s+BY\b", " ORDER BY"),
    # Tableau's expressions of another level
    (
        r"\{\s*(?:FIXED|INCLUDE|EXCLUDE)\s+([\w\s,\[\]\"]+?)\s*:\s*([^{}]+?)\s*\}",
        r"\2 OVER (PARTITION BY \1)",
    ),
    (r"\{\s*(?:FIXED\s*:)?\s*(\w+\([^{}]+?)\s*\}", r"\1 OVER ()"),
    # T-SQL's way to make a list
    (
        r"STUFF\s*\(\s*\(\s*SELECT\s+(?:DISTINCT\s+)?(?:'[^']*'\s*\+\s*)?(.*?)\s+FROM\s.*?FOR\s+XML\s+PATH.*?,\s*''\s*\)",
        r"STRING_AGG(\1, ',')",
    ),
    (
        r"\A(\s*WITH\b(?:(?!\)\s*SELECT\b).)*?\b(\w+)\s+AS\s*\((?:(?!\bAS\s*\().)*\))\s*;?\s*\Z",
        r"\1 SELECT * FROM \2",
    ),
    (r"\s+INTO\s+(?:OUTFILE|DUMPFILE)\s.*\Z", ""),
)
"""Patterns of what people write, and what stands in their place."""
_ASKS = {
    r" COUNT(DISTINCT \1\2)": "how many different ones there are",
    "INTO": "the answer is shown, not kept",
    "KEEP": "of all rows, not of the first ones",
    "MATCH": "the text that is contained, not its words",
    "__TIMEFILTER": "the times from that day on",
    "__TIMEGROUP": "the times from that day on",
}
"""What is asked after a change, by the first word that is changed, or by what is written."""


def replace_forms(text: str) -> Iterator[tuple[Fix, str]]:
    """Yield the changes by which forms that SQL does not have become what SQL has, each with its hint.

    >>> text = "SELECT COUNT * FROM t WHERE x GREATER THAN 5 AND AND y = 'IS AGO'"
    >>> [fix.text for fix, _ in replace_forms(text)]
    [' >', 'AND', 'COUNT(*)']
    """
    for form, written in _FORMS:
        found = [m for m in re.finditer(f"(?is){form}", text) if not text[: m.start()].count("'") % 2]
        if written == _NAMED:  # a word that follows, too, is a column
            found = [m for m in found if not re.search(rf"(?i)\b{m[1].split()[-1]}\b", text[m.end() :])]
        fixes = [Fix(m.expand(written), *m.span()) for m in found]
        if fixes:
            word = next(iter(re.findall(r"\w+", found[0][0])), "").upper()
            first = replace(fixes[0], also=tuple(fixes[1:]), asks=_ASKS.get(written, _ASKS.get(word, "")))
            typed = fixes[0].text.strip().upper() in found[0][0].upper()
            left = f"leave {found[0][0].strip()} out" if not fixes[0].text.strip() else ""
            yield first, left or ("" if typed else fixes[0].text.strip())


_AT_END = lazy_pattern(
    r"(?is)\s+(?:(?:WITH|USING|PRIVACY|SET|AT|OPTIONS?|BUDGET|UNIT\s+\w+)\s+)*\(?\s*(epsilon|delta|error)\s*[=:]?\s*([\d.]+(?:e-?\d+)?)\s*\)?\s*;?\s*\Z"
)
_LISTED_AT_END = lazy_pattern(
    r"(?is)\s+(?:WITH|USING)\s*(?:\w+\s*)?\(((?=\s*\w*(?:epsilon|delta)\b)[^()]*)\)\s*;?\s*\Z"
)
_CLAUSE = lazy_pattern(
    r"(?i)\bSELECT\s+((?:WITH\s+(?:\w+\s+){0,2}?|(?=DIFFERENTIAL|ANONY|DP\b|PRIVA)(?:\w+\s+){0,2}?)\w+)\s*(?=\()"
)
"""The words of a private clause before its options."""


def place_options(text: str, tokens: list[Token]) -> Iterator[tuple[Fix, str]]:
    """Yield changes after which options stand behind the first SELECT as they are written, with hints."""
    for match in _CLAUSE.finditer(text):
        if " ".join(match[1].upper().split()) != "WITH DIFFERENTIAL_PRIVACY OPTIONS":
            hint = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (..)"
            yield Fix("WITH DIFFERENTIAL_PRIVACY OPTIONS ", match.start(1), match.end()), hint
    yield from _open_options(text, tokens)
    for n, (token, after) in enumerate(pairwise(tokens)):
        before = tokens[max(n - 1, 0)].text.upper()
        if (token.text.upper(), after.text) == ("OPTIONS", "(") and before != "DIFFERENTIAL_PRIVACY":
            yield from _move_options(text, tokens, n)


def _open_options(text: str, tokens: list[Token]) -> Iterator[tuple[Fix, str]]:
    """Yield OPTIONS with parentheses around `name = value`, behind DIFFERENTIAL_PRIVACY or the SELECT."""
    braces = re.search(r"(?i)\bOPTIONS\s*[{\[]([^{}\[\]]*)[}\]]", text)
    if braces is not None:
        written = "OPTIONS (" + re.sub(r"['\"]?(\w+)['\"]?\s*[:=]\s*", r"\1 = ", braces[1]).strip() + ")"
        yield Fix(written, *braces.span()), written
    early = re.search(r"(?i)(?<=\bSELECT)\s+WITH\s+(EPSILON|DELTA|ERROR)\s*[=:]?\s*([\d.]+(?:e-?\d+)?)", text)
    if early is not None:
        written = f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({early[1].lower()} = {early[2]})"
        yield Fix(written, *early.span()), f"SELECT{written} .."
    at_end = _LISTED_AT_END.search(text)
    if at_end is not None and (first := next((t for t in tokens if t.token_type == TokenType.SELECT), None)):
        clause = f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({at_end[1].strip()})"
        yield Fix(clause, first.end + 1, first.end + 1, also=(Fix("", *at_end.span()),)), f"SELECT{clause} .."
    last, select = _AT_END.search(text), next((t for t in tokens if t.token_type == TokenType.SELECT), None)
    if last is not None and select is not None:
        clause = f" WITH DIFFERENTIAL_PRIVACY OPTIONS ({last[1].lower()} = {last[2]})"
        removed = Fix("", *last.span())
        yield Fix(clause, select.end + 1, select.end + 1, also=(removed,)), f"SELECT{clause} .."
    for n, token in enumerate(tokens):
        words = [t.text.upper() for t in tokens[n : n + 2]]
        if token.text.upper() != "DIFFERENTIAL_PRIVACY" or "(" in words:
            continue
        begin = n + 2 if words[1:] == ["OPTIONS"] else n + 1
        end, m = begin, begin
        while (
            m + 2 < len(tokens) and tokens[m + 1].text in ("=", ":", "=>") and tokens[m].text.isidentifier()
        ):
            end = m + 3
            m = end + (end < len(tokens) and tokens[end].text == ",")
        if end > begin and tokens[begin].text != "(":
            start, stop = token.end + 1, tokens[end - 1].end + 1
            listed = re.sub(r"\s*(?:=>|:)\s*", " = ", text[tokens[begin].start : stop])
            rest = tokens[end].end + 1 if end < len(tokens) and tokens[end].text == "," else stop
            yield Fix(f" OPTIONS ({listed})", start, rest), f"OPTIONS ({listed})"


def _move_options(text: str, tokens: list[Token], i: int) -> Iterator[tuple[Fix, str]]:
    """Yield OPTIONS from the end of a statement behind its SELECT, where they belong."""
    depth, select, end = 0, None, find_closing_parenthesis(tokens, i + 1)
    for token in tokens[:i]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        select = token if not depth and token.token_type == TokenType.SELECT and select is None else select
    if select is None or end < 0:
        return
    clause = f"WITH DIFFERENTIAL_PRIVACY {text[tokens[i].start : tokens[end].end + 1]}"
    removed = Fix("", len(text[: tokens[i].start].rstrip()), tokens[end].end + 1)
    moved = Fix(f" {clause}", select.end + 1, select.end + 1, also=(removed,))
    yield moved, f"SELECT {clause} ..."


_PLACEHOLDER = lazy_pattern(
    r"""(?x)(?P<quote>['"]?)(?:\{\{(?!\s*(?:ref|source)\b)\s*([^{}]*?)\s*\}\}
    | \{%.*?%\} | (?<=[=<>('"])\s*\{`?(\w+)`?\} | (?<=[=<>(])\s*:'(\w+)' | \[(Enter\ [\w\ ]+)\]
    | %\((\w+)\)s | \$\{(\w+)[^{}]*\}
    | <\[?Parameters?\]?\.\[?([\w ]+)\]?> | (?<=[=<>('"])\s*(?<!&)&{1,2}(\w+)\.? | (?<=[=<>('"])\s*%s
    | (?<![\w@.'"])@([A-Za-z_]\w*)\b(?!\s*=) | (?<=['"])(?::|@)([A-Za-z]\w*)(?=['"]))(?P=quote)"""
)


def find_placeholder(text: str) -> tuple[int, str] | None:
    """Return where the first placeholder of a template stands that has no value, and its name; None for none.

    >>> find_placeholder("SELECT a FROM t WHERE b = '{{ the b }}'"), find_placeholder("SELECT a % s FROM t")
    ((26, 'the_b'), None)
    >>> find_placeholder("WHERE b = %s"), find_placeholder("WHERE b LIKE 'a%s' AND c = 'x@y'")
    ((10, 'value'), None)
    """
    for found in _PLACEHOLDER.finditer(text):
        inside = text.count("'", 0, found.start()) % 2
        if not inside and found[0].count("'") != 1:
            start = found.end() - len(found[0].lstrip())
            said = next(filter(None, found.groups()[1:]), "value")
            quoted = re.search(r"['\"](\w+)['\"]", said)  # {{ var('start') }}
            return start, re.sub(r"\W+", "_", said if quoted is None else quoted[1])
    return None


def compute_number(text: str) -> str | None:
    """Return the number of a fraction or a power of 10; None for other texts.

    >>> compute_number("1/1000000"), compute_number("10^-6"), compute_number("x")
    ('1e-6', '1e-6', None)
    """
    logarithm = re.fullmatch(r"(?i)ln\s*\(\s*([1-9][\d.]*)\s*\)", text)
    if logarithm is not None:
        return f"{math.floor(math.log(float(logarithm[1])) * 1e4) / 1e4:g}"  # no more than that
    divided = re.fullmatch(r"([\d.]+)\s*/\s*([\d.]+)", text)
    power = re.fullmatch(r"(?:([\d.]+)\s*\*\s*)?10\s*(?:\^|\*\*|(?=-))\s*\(?(-?\d{1,3})\)?", text)
    if divided is not None and float(divided[2]):
        return f"{float(divided[1]) / float(divided[2]):g}".replace("e-0", "e-")
    return None if power is None else f"{power[1] or 1}e{power[2]}"


def correct_value(name: str, token: Token, error: str) -> Fix | None:
    """Return the change of an option's value to what is meant: 0.95 for 95, say; None: it is not known."""
    written = token.text.strip()
    number = re.fullmatch(r"([0-9]*[.]?[0-9]+(?:e-?[0-9]+)?)\s*(%?)", written)
    allowed = error.removeprefix("expected one of ").split(", ") if "expected one of" in error else []
    close = difflib.get_close_matches(written.upper(), allowed, 1, 0.5)
    close = close or [word for word in allowed if word in written.upper()][:1]
    made, guess = "", ""
    if close:
        made = close[0]
    elif "less than 1" in error and name != "delta" and number is not None and 1 < float(number[1]) < 100:
        made = f"{float(number[1]) / 100:g}"
    elif number is not None and token.token_type == TokenType.STRING and not number[2]:
        made = number[1]
    elif name in _EXAMPLES:
        made, guess = _EXAMPLES[name], _EXAMPLES[name]
    return (
        Fix(made, token.start, token.end + 1, guess=guess)
        if made and (made != written or token.token_type == TokenType.STRING)
        else None
    )


_EXAMPLES = {
    "epsilon": "0.5",
    "delta": "1e-6",
    "error": "50",
    "max_groups_contributed": "3",
    "max_rows_contributed": "20",
}
"""Amounts that hints name where none can be read."""
