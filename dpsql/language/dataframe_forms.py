"""Read a question that is written with data frames, of pandas or of R, as SQL."""

from __future__ import annotations

import re

from dpsql.language.piped_steps import (
    AGGREGATES,
    FORMULA,
    FRAGMENTS,
    NO_MATTER,
    PIPE,
    Question,
    find_end,
    read_condition,
    read_dplyr,
    read_kql,
    replace_all,
    split_parts,
)
from dpsql.lazy_pattern import lazy_pattern

_UNITS = {"D": "day", "W": "week", "M": "month", "Q": "quarter", "Y": "year", "A": "year", "H": "hour"}
_OF_TIME = dict.fromkeys(("year", "month", "day", "hour", "quarter"), "") | {"date": "DATE"}
_OF_TIME = {name: called or name for name, called in _OF_TIME.items()} | {
    "weekday": "isodow",
    "dayofweek": "isodow",
}
"""The parts of times, and the functions that have them."""
_TEXT = lazy_pattern(r"""(['"])(.*?)\1""")


def read_dataframe(text: str) -> tuple[str, str] | None:
    """Return a chain of calls on a data frame as a SELECT, and what that asks else; None for another text.

    >>> read_dataframe("visits.groupby('clinic')['cost'].rolling(7).mean()")
    ('SELECT clinic, AVG(cost) FROM visits GROUP BY clinic', 'it without `rolling(7)`')
    >>> read_dataframe("len(visits[(visits.cost > 100) & (visits['clinic'] == 'Summit')])")[0]
    "SELECT COUNT(*) FROM visits WHERE (cost > 100) AND (clinic = 'Summit')"
    >>> read_dataframe("visits['clinic'].value_counts().head(3)")[0]
    'SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 3'
    >>> read_dataframe("visits[visits.cost > 9].groupby(['clinic']).agg({'cost': ['mean', 'max']})")[0]
    'SELECT clinic, AVG(cost), MAX(cost) FROM visits WHERE cost > 9 GROUP BY clinic'
    >>> read_dataframe("visits %>% filter(cost > 9) %>% group_by(clinic) %>% summarise(n = n())")[0]
    'SELECT clinic, COUNT(*) AS n FROM visits WHERE cost > 9 GROUP BY clinic'
    >>> read_dataframe("mean(visits$cost)")[0], read_dataframe("pd.crosstab(visits['clinic'], visits.sex)")[0]
    ('SELECT AVG(cost) FROM visits', 'SELECT clinic, sex, COUNT(*) FROM visits GROUP BY clinic, sex')
    """
    text = re.sub(r"\A\w+\s*(?:=|<-)\s*(?!=)", "", text.strip().rstrip(";"))
    text = text[1:-1].strip() if text[:1] == "(" and find_end(text, 0) == len(text) - 1 else text
    if re.match(r"(?is)\w+\s*\|\s*\w|(?!.*\bSELECT\b)(?!.*\|>)from\s+\w+\s*[\n|]", text) is not None:
        return read_kql(text).answer()
    asked = read_dplyr(text) if PIPE.search(text) else _read_of_columns(text) or _read_pandas(text)
    return None if asked is None else asked.answer()


def _read_pandas(text: str) -> Question | None:
    measured = re.fullmatch(r"(?s)(len|print)\((.*)\)", text)
    inner = measured[2] if measured is not None else text
    table = re.match(r"[A-Za-z_]\w*(?=[.\[])", inner)
    steps = None if table is None else _split_steps(inner, table.end())
    if table is None or steps is None:
        return None
    asked = Question(table[0])
    for name, given in steps:
        if not _take_step(asked, name, given):
            asked.left.append(f"{name}({given})")
    if measured is not None and measured[1] == "len" and not asked.numbers:
        asked.numbers.append(("COUNT(*)", ""))
    if not asked.numbers and asked.columns and asked.columns == ["shape"]:
        asked.numbers.append(("COUNT(*)", ""))
    return asked


def _split_steps(text: str, at: int) -> list[tuple[str, str | None]] | None:
    """Return the steps of a chain: the name of each, "" for brackets, and what stands in its parentheses."""
    found = list[tuple[str, str | None]]()
    while at < len(text):
        named = re.compile(r"\s*\.\s*([A-Za-z_]\w*)").match(text, at)
        name, at = (named[1], named.end()) if named is not None else ("", at)
        opened = text[at : at + 1]
        if opened not in ("[", "(") or (opened == "[" and name and name not in ("loc", "iloc")):
            if not name:
                return None
            found.append((name, None))
            continue
        end = find_end(text, at)
        if end < 0:
            return None
        found.append((name if opened == "(" else "", text[at + 1 : end].strip()))
        at = end + 1
    return found


def _list_names(text: str) -> list[str]:
    return [match[2] for match in _TEXT.finditer(text)]


def _take_step(asked: Question, name: str, given: str | None) -> bool:
    """Add one step of pandas, polars or PySpark to a question; return whether it is known."""
    name = _ALSO.get(name, name)
    if given is None and asked.columns and name in _OF_TIME:
        asked.columns = [f"{_OF_TIME[name]}({column})" for column in asked.columns]
    elif given is None:  # a column by its name
        asked.columns = asked.columns if name in ("dt", "str") else [name]
    if given is None:
        return True
    named = dict(part.split("=", 1) for part in split_parts(given) if re.match(r"\w+\s*=(?!=)", part))
    named = {key.strip(): value.strip() for key, value in named.items()}
    if name not in _NAMING and set(named) - _KNOWN:  # what they ask for is not known
        return False
    if not name and (re.search(r"[=<>]|\.\w+\(", given) or given.startswith("~")):
        condition, *columns = split_parts(given)
        asked.conditions.append(read_condition(condition, asked.table))
        asked.columns = _list_names(columns[0]) if columns else asked.columns
    elif not name:
        asked.columns = _list_names(given)
        return bool(asked.columns)
    elif name == "filter":
        asked.conditions.append(read_condition(given, asked.table))
    elif name == "count" and asked.keys and not asked.columns and not given:
        asked.numbers.append(("COUNT(*)", ""))
    elif name == "orderBy" and asked.numbers:
        asked.order_by(
            next(iter(_list_names(given)), ""), falling="desc" in given.lower() or "False" in given
        )
    elif name == "query":
        asked.conditions.append(read_condition(given.strip("'\""), asked.table))
    elif name == "resample" and (unit := _UNITS.get("".join(_list_names(given)[:1]).strip("SE"))):
        asked.keys = [f"date_trunc('{unit}', {''.join(_list_names(named.get('on', '')))})"]
        return "on" in named
    elif name == "to_period" and (unit := _UNITS.get("".join(_list_names(given)[:1]))):
        asked.columns = [f"date_trunc('{unit}', {column})" for column in asked.columns]
    elif name == "sort_index" and asked.keys:
        asked.order = asked.keys[0]
    elif name == "groupby":
        of_time = re.findall(r"""['"](\w+)['"]\]?(?:\.dt\.(\w+))?""", given)
        asked.keys = [f"{_OF_TIME.get(part, part)}({column})" if part else column for column, part in of_time]
        return bool(asked.keys) and "lambda" not in given
    elif name == "pivot_table":
        asked.keys = _list_names(named.get("index", "")) + _list_names(named.get("columns", ""))
        call = named.get("aggfunc", "mean").split(".")[-1].strip("'\"")
        return bool(asked.keys) and asked.add_numbers(call, _list_names(named.get("values", "")))
    elif name == "value_counts" and len(asked.columns) == 1 and not asked.numbers:
        share = named.get("normalize", "False") == "True"
        number = "COUNT(*) / SUM(COUNT(*)) OVER ()" if share else "COUNT(*)"
        asked.keys, asked.numbers = asked.columns, [(number, "share" if share else "")]
        asked.order_by("", falling=True)
    elif name in ("agg", "aggregate"):
        return _add_listed(asked, given)
    elif name == "quantile" and len(asked.columns) == 1:
        asked.numbers.append((f"QUANTILE_CONT({asked.columns[0]}, {given or '0.5'})", ""))
    elif name in AGGREGATES or name == "size":
        return asked.add_numbers(name, asked.columns)
    elif name in ("sort_values", "nlargest", "nsmallest") and asked.numbers:
        falling = name == "nlargest" or "False" in given
        asked.order_by(next(iter(_list_names(given)), ""), falling=falling)
        asked.limit = given.split(",")[0] if name != "sort_values" else asked.limit
    elif name == "merge" and (by := re.match(r"(\w+)\s*,.*\bon=\[?['\"](\w+)['\"]", given)):
        how = named.get("how", "").strip("'\"").upper()
        asked.joins += f" {how + ' ' * bool(how)}JOIN {by[1]} USING ({by[2]})"
    elif name == "head":
        asked.limit = given or "5"
    elif name not in NO_MATTER:
        return False
    return True


def _add_listed(asked: Question, given: str) -> bool:
    """Add the aggregates of `agg`: by name, as a list, for each column, or each with a name of its own."""
    exprs = [_read_call(part) for part in split_parts(given)]
    if exprs and all(exprs):
        return all(asked.add_numbers(call, columns, new) for call, columns, new in filter(None, exprs))
    if given[:1] != "{" and "=" not in given:
        calls = _list_names(given) or [given.rsplit(".", maxsplit=1)[-1]]
        return all(asked.add_numbers(call, asked.columns) for call in calls)
    known = True
    for part in split_parts(given.strip("{} ")):
        name, _, called = part.partition(":" if given[:1] == "{" else "=")
        names = _list_names(called)
        if given[:1] == "{":
            known &= all(asked.add_numbers(call, [name.strip(" '\"")]) for call in names) and bool(names)
        elif not (len(names) == 2 and asked.add_numbers(names[1], [names[0]], name.strip())):
            asked.left.append(part)
    return known


_NAMING = frozenset({"", "agg", "aggregate", "query", "filter"})
"""Steps whose arguments have names of the analyst."""
_KNOWN = frozenset({"ascending", "as_index", "inplace", "dropna", "observed", "sort", "axis", "numeric_only"})
_KNOWN |= {"index", "columns", "values", "aggfunc", "on", "how", "by", "normalize", "n", "name", "drop", "q"}
"""Named arguments of other steps: those that are read, and those that change how an answer is shown."""
_ALSO = {"groupBy": "groupby", "group_by": "groupby", "where": "filter", "sort": "orderBy", "limit": "head"}
"""Steps of polars and PySpark, by those of pandas that ask the same or nearly so."""
_CALLED = lazy_pattern(
    r"""(?x)(?:\w+\.)?(?P<call>\w+)\(\s*['"]?(?P<column>\w+|\*)?['"]?\s*\)(?:\.(?P<method>\w+)\(\))?
    (?:\.(?:alias|name)\(\s*['"](?P<name>\w+)['"]\s*\))?"""
)


def _read_call(text: str) -> tuple[str, list[str], str] | None:
    """Return the aggregate, the columns and the name of `F.avg("x").alias("a")` or `pl.col("x").mean()`."""
    call = _CALLED.fullmatch(text)
    if call is None or text[:1] in "'\"":
        return None
    name = call["method"] or "size" if call["call"] in ("col", "len") else call["call"]
    name = {"avg": "mean", "countDistinct": "nunique", "n_unique": "nunique", "stddev": "std"}.get(name, name)
    column = [] if call["column"] in (None, "*") else [call["column"]]
    return name, column, call["name"] or ""


def _read_of_columns(text: str) -> Question | None:
    """Read R's calls of whole columns: `mean(visits$cost)`, `table(..)`, `aggregate(cost ~ clinic, ..)`."""
    tabled = re.fullmatch(r"(?s)(\w+)\[(.*?),\s*\.\((.*?)\)\s*,\s*by\s*=\s*(?:\.\()?([^()]*)\)?\s*\]", text)
    if tabled is not None:  # R's data.table
        asked = Question(tabled[1], keys=split_parts(tabled[4]))
        asked.conditions += [read_condition(tabled[2], tabled[1])] if tabled[2].strip() else []
        for part in split_parts(tabled[3]):
            new, _, value = part.rpartition("=")
            asked.numbers.append((replace_all(value.strip(), FORMULA), new.strip()))
        return asked
    form = re.fullmatch(
        r"aggregate\(\s*(\w+)\s*~\s*([\w+ ]+),\s*(?:data\s*=\s*)?(\w+)\s*,\s*(?:FUN\s*=\s*)?(\w+)\s*\)", text
    )
    if form is not None:
        asked = Question(form[3], keys=re.findall(r"\w+", form[2]))
        return asked if asked.add_numbers(form[4], [form[1]]) else None
    call = re.fullmatch(r"(?s)(?:pd\.)?(\w+)\((.*)\)", text)
    form_ = r"\b(\w+)(?:\$|\[['\"]|\.)(\w+)" if text.startswith("pd.crosstab(") else r"\b(\w+)\$(\w+)"
    columns = [] if call is None else re.findall(form_, call[2])
    if call is None or len({table for table, _ in columns}) != 1:
        return None
    asked, (_, *others) = Question(columns[0][0]), [column for _, column in columns]
    if call[1] in ("table", "crosstab"):
        asked.keys, asked.numbers = [column for _, column in columns], [("COUNT(*)", "")]
        asked.left = [part for part in split_parts(call[2]) if not re.search(form_, part)]
        return asked
    if call[1] == "tapply" and len(columns) == 2:
        asked.keys = others
        return asked if asked.add_numbers(split_parts(call[2])[-1], [columns[0][1]]) else None
    return asked if len(columns) == 1 and asked.add_numbers(call[1], [columns[0][1]]) else None


def read_fragments(text: str) -> str | None:
    """Return a SELECT with what it has of data frames as SQL; None if it has nothing of them.

    >>> read_fragments("SELECT n() FROM t WHERE a.isin(['x']) AND !is.na(b)")
    "SELECT COUNT(*) FROM t WHERE a IN ('x') AND b IS NOT NULL"
    >>> read_fragments("SELECT t.groupby('a').b.mean()"), read_fragments("SELECT a FROM t")
    ('SELECT a, AVG(b) FROM t GROUP BY a', None)
    """
    changed = replace_all(text, FRAGMENTS)
    if changed != text:
        return changed
    chain = re.match(r"(?is)\s*SELECT\s+(?=\w+[.\[])(?!.*\bFROM\b)", text)
    found = None if chain is None else read_dataframe(text[chain.end() :])
    return None if found is None or found[1] else found[0]
