"""Read a question that is written with pandas as SQL."""

from __future__ import annotations

import re

from dpsql.lazy_pattern import lazy_pattern

_AGGREGATES = {"mean": "AVG", "sum": "SUM", "median": "MEDIAN", "min": "MIN", "max": "MAX", "std": "STDDEV"}
_AGGREGATES |= {"var": "VARIANCE", "count": "COUNT", "nunique": "COUNT(DISTINCT", "mode": "MODE"}
_STEPS = lazy_pattern(
    r"""(?x)
    \[(?P<where>[^\[\]]*(?:\[['"]\w+['"]\][^\[\]]*)*[=<>][^\[\]]*)\]
    | \.query\((?P<quote>['"])(?P<query>.*?)(?P=quote)\)
    | \.groupby\(\[?\s*(?P<keys>(?:['"]\w+['"]\s*,?\s*)+)\]?(?:,\s*\w+=\w+)*\)
    | \[\[?\s*['"](?P<column>\w+)['"]\s*\]?\]
    | \.(?P<call>\w+)\((?P<given>[^()]*)\)
    | \.(?P<field>[A-Za-z_]\w*)(?!\w|\()
    """
)


def read_pandas(text: str) -> str | None:
    """Return a chain of pandas' calls on a table as a SELECT; None for another text.

    >>> read_pandas("visits.groupby('clinic')['cost'].mean()")
    'SELECT clinic, AVG(cost) FROM visits GROUP BY clinic'
    >>> read_pandas("len(visits[(visits.cost > 100) & (visits['clinic'] == 'Summit')])")
    "SELECT COUNT(*) FROM visits WHERE (cost > 100) AND (clinic = 'Summit')"
    >>> read_pandas("visits['clinic'].value_counts().head(3)")
    'SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 3'
    """
    text = re.sub(r"\A\w+\s*=\s*(?!=)", "", text.strip().rstrip(";"))
    measured = re.fullmatch(r"(?s)(?:len|print)\((.*)\)", text)
    inner = measured[1] if measured is not None else text
    table = re.match(r"[A-Za-z_]\w*(?=[.\[])", inner)
    if table is None:
        return None
    at, keys, column, number, order, limit = table.end(), "", "", "", "", ""
    conditions, joined = list[str](), ""
    while at < len(inner):
        step = _STEPS.match(inner, at)
        if step is None:
            return None
        at, call = step.end(), step["call"]
        if step["where"] or step["query"]:
            conditions.append(_read_condition(step["where"] or step["query"], table[0]))
        elif step["keys"]:
            keys = ", ".join(re.findall(r"\w+", step["keys"]))
        elif step["column"] or step["field"]:
            column = step["column"] or step["field"]
        elif call == "value_counts" and column and not number:
            keys, number, order = column, "COUNT(*)", " ORDER BY COUNT(*) DESC"
        elif call == "size" or (call == "count" and not column):
            number = "COUNT(*)"
        elif call in _AGGREGATES and column and not number:
            number = f"{_AGGREGATES[call]}{' ' if 'DISTINCT' in _AGGREGATES[call] else '('}{column})"
        elif call in ("sort_values", "nlargest") and number:
            order = f" ORDER BY {number}{' DESC' if call == 'nlargest' or 'False' in step['given'] else ''}"
            limit = f" LIMIT {step['given'] or 5}" if call == "nlargest" else limit
        elif call == "merge" and (by := re.match(r"(\w+)\s*,.*\bon=\[?['\"](\w+)['\"]", step["given"])):
            joined += f" JOIN {by[1]} USING ({by[2]})"
        elif call == "head":
            limit = f" LIMIT {step['given'] or 5}"
        elif call not in ("reset_index", "round", "to_frame"):
            return None
    number = number or ("COUNT(*)" if measured is not None and text.startswith("len") else "")
    shown = ", ".join(each for each in (keys, number) if each) or column or "*"
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    group = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {shown} FROM {table[0]}{joined}{where}{group}{order}{limit}"


def _read_condition(text: str, table: str) -> str:
    text = re.sub(rf"""\b{table}(?:\.|\[['"])(\w+)(?:['"]\])?""", r"\1", text.strip())
    for old, new in (("==", "="), ("&", "AND"), ("|", "OR"), ('"', "'")):
        text = text.replace(old, new)
    return text
