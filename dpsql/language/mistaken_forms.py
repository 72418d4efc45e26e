"""Forms that people write and SQL does not have, with what SQL has for them; for texts that do not parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dpsql.errors import Fix

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
    (r"\{\{\s*(?:ref|source)\s*\((?:[^()]*,)?\s*['\"](\w+)['\"]\s*\)\s*\}\}", r"\1"),
    (r"(['\"]?)(?:\{\{\s*(\w+)\s*\}\}|%\((\w+)\)s|\$\{(\w+)\}|@(\w+))\1", r"$\2\3\4\5"),
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
    (rf"\b{_NAME}\s+MOD\s+([\w.]+)", r"\1 % \2"),
    (rf"\b{_NAME}\s+DIV\s+([\w.]+)", r"\1 // \2"),
    (r"\bDIV\s*\(\s*([\w.]+)\s*,\s*([\w.]+)\s*\)", r"(\1 // \2)"),
    (r"(\w+\([^()]*?)\s+WHERE\s+([^()]*?)\s*\)", r"\1) FILTER (WHERE \2)"),
    (
        r"(\w+\([^()]*\))\s+WHERE\s+((?:(?!\bAS\b|\bFROM\b|,).)+?)(?=\s+(?:AS|FROM)\b|\s*,)",
        r"\1 FILTER (WHERE \2)",
    ),
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
    "INTO": "the answer is shown, not kept",
    "KEEP": "of all rows, not of the first ones",
    "MATCH": "the text that is contained, not its words",
}
"""What is asked after a change, by the first word that is changed."""


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
            word = re.split(r"\W", found[0][0].strip(), maxsplit=1)[0].upper()
            first = replace(fixes[0], also=tuple(fixes[1:]), asks=_ASKS.get(word, ""))
            typed = fixes[0].text.strip().upper() in found[0][0].upper()
            left = f"leave {found[0][0].strip()} out" if not fixes[0].text.strip() else ""
            yield first, left or ("" if typed else fixes[0].text.strip())
