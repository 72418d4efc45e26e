"""Read a question that is written with data frames, of pandas or of R's dplyr, as SQL."""

from __future__ import annotations

import re
from dataclasses import field

from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

_AGGREGATES = {"mean": "AVG", "sum": "SUM", "median": "MEDIAN", "min": "MIN", "max": "MAX", "std": "STDDEV"}
_AGGREGATES |= {"var": "VARIANCE", "count": "COUNT", "nunique": "COUNT(DISTINCT", "mode": "MODE"}
_AGGREGATES |= {"sd": "STDDEV", "n_distinct": "COUNT(DISTINCT", "average": "AVG"}
_PIPE = lazy_pattern(r"\s*(?:%>%|\|>)\s*")
_NO_MATTER = frozenset(
    [
        "reset_index",
        "round",
        "to_frame",
        "ungroup",
        "print",
        "collect",
        "rename_axis",
        "copy",
        "show",
        "toPandas",
        "to_pandas",
    ]
)
"""Steps that change how an answer is shown, not what it says."""
_TEXT = lazy_pattern(r"""(['"])(.*?)\1""")


@dataclass(slots=True)
class _Question:
    """What the steps of a chain have asked so far."""

    table: str
    keys: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    numbers: list[tuple[str, str]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    joins: str = ""
    order: str = ""
    limit: str = ""

    def sql(self) -> str:
        """Return the SELECT."""
        numbers = [f"{number} AS {name}" if name else number for number, name in self.numbers]
        shown = ", ".join([*self.keys, *numbers]) or ", ".join(self.columns) or "*"
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        order = f" ORDER BY {self.order}" if self.order else ""
        limit = f" LIMIT {self.limit}" if self.limit else ""
        return f"SELECT {shown} FROM {self.table}{self.joins}{where}{group}{order}{limit}"

    def add_numbers(self, call: str, columns: list[str], name: str = "") -> bool:
        """Add an aggregate of each column; return whether it is known."""
        if call == "size" or (call == "count" and not columns):
            self.numbers.append(("COUNT(*)", name))
            return True
        made = _AGGREGATES.get(call)
        if made is None or not columns:
            return False
        self.numbers += [(f"{made}{' ' if 'DISTINCT' in made else '('}{column})", name) for column in columns]
        return True

    def order_by(self, name: str, *, falling: bool) -> None:
        """Order by a column or a number, by its name; by the only number where nothing is named."""
        known = {new or number: new or number for number, new in self.numbers}
        known |= {key: key for key in self.keys} | {
            column: number for column in self.columns for number, _ in self.numbers if f"({column})" in number
        }
        term = known.get(name) or (self.numbers[0][1] or self.numbers[0][0] if self.numbers else name)
        self.order = f"{term}{' DESC' if falling else ''}"


def read_dataframe(text: str) -> str | None:
    """Return a chain of calls on a data frame as a SELECT; None for another text.

    >>> read_dataframe("visits.groupby('clinic')['cost'].mean()")
    'SELECT clinic, AVG(cost) FROM visits GROUP BY clinic'
    >>> read_dataframe("len(visits[(visits.cost > 100) & (visits['clinic'] == 'Summit')])")
    "SELECT COUNT(*) FROM visits WHERE (cost > 100) AND (clinic = 'Summit')"
    >>> read_dataframe("visits['clinic'].value_counts().head(3)")
    'SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 3'
    >>> read_dataframe("visits[visits.cost > 9].groupby(['clinic']).agg({'cost': ['mean', 'max']})")
    'SELECT clinic, AVG(cost), MAX(cost) FROM visits WHERE cost > 9 GROUP BY clinic'
    >>> read_dataframe("visits %>% filter(cost > 9) %>% group_by(clinic) %>% summarise(n = n())")
    'SELECT clinic, COUNT(*) AS n FROM visits WHERE cost > 9 GROUP BY clinic'
    >>> read_dataframe("mean(visits$cost)"), read_dataframe("table(visits$clinic)")
    ('SELECT AVG(cost) FROM visits', 'SELECT clinic, COUNT(*) FROM visits GROUP BY clinic')
    """
    text = re.sub(r"\A\w+\s*(?:=|<-)\s*(?!=)", "", text.strip().rstrip(";"))
    if re.match(r"\w+\s*\|\s*\w", text) is not None:
        asked = _read_kql(text)
        return None if asked is None else asked.sql()
    asked = _read_dplyr(text) if _PIPE.search(text) else _read_of_columns(text) or _read_pandas(text)
    return None if asked is None else asked.sql()


def _read_pandas(text: str) -> _Question | None:
    measured = re.fullmatch(r"(?s)(len|print)\((.*)\)", text)
    inner = measured[2] if measured is not None else text
    table = re.match(r"[A-Za-z_]\w*(?=[.\[])", inner)
    steps = None if table is None else _split_steps(inner, table.end())
    if table is None or steps is None:
        return None
    asked = _Question(table[0])
    for name, given in steps:
        if not _take_step(asked, name, given):
            return None
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
        end = _find_end(text, at)
        if end < 0:
            return None
        found.append((name if opened == "(" else "", text[at + 1 : end].strip()))
        at = end + 1
    return found


def _find_end(text: str, at: int) -> int:
    """Return where the bracket closes that opens at a place, outside of texts; -1 if it does not."""
    depth, quote = 0, ""
    for i, char in enumerate(text[at:], at):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
            if not depth:
                return i
    return -1


def _split(text: str) -> list[str]:
    """Return the parts of a text between commas, outside of brackets and texts."""
    parts, begin = list[str](), 0
    while begin < len(text):
        i = begin
        while i < len(text) and text[i] != ",":
            end = (
                _find_end(text, i)
                if text[i] in "([{"
                else text.find(text[i], i + 1)
                if text[i] in "'\""
                else i
            )
            i = (end if end >= 0 else len(text)) + 1
        parts.append(text[begin:i].strip())
        begin = i + 1
    return [part for part in parts if part]


def _list_names(text: str) -> list[str]:
    return [match[2] for match in _TEXT.finditer(text)]


def _take_step(asked: _Question, name: str, given: str | None) -> bool:
    """Add one step of pandas, polars or PySpark to a question; return whether it is known."""
    name = _ALSO.get(name, name)
    if given is None:  # a column by its name
        asked.columns = [name]
        return True
    named = dict(part.split("=", 1) for part in _split(given) if re.match(r"\w+\s*=(?!=)", part))
    named = {key.strip(): value.strip() for key, value in named.items()}
    if name not in _NAMING and set(named) - _KNOWN:  # what they ask for is not known
        return False
    if not name and (re.search(r"[=<>]|\.\w+\(", given) or given.startswith("~")):
        condition, *columns = _split(given)
        asked.conditions.append(_read_condition(condition, asked.table))
        asked.columns = _list_names(columns[0]) if columns else asked.columns
    elif not name:
        asked.columns = _list_names(given)
        return bool(asked.columns)
    elif name == "filter":
        asked.conditions.append(_read_condition(given, asked.table))
    elif name == "count" and asked.keys and not asked.columns and not given:
        asked.numbers.append(("COUNT(*)", ""))
    elif name == "orderBy" and asked.numbers:
        asked.order_by(
            next(iter(_list_names(given)), ""), falling="desc" in given.lower() or "False" in given
        )
    elif name == "query":
        asked.conditions.append(_read_condition(given.strip("'\""), asked.table))
    elif name == "groupby":
        asked.keys = _list_names(given)
        return bool(asked.keys)
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
    elif name in _AGGREGATES or name == "size":
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
    elif name not in _NO_MATTER:
        return False
    return True


def _add_listed(asked: _Question, given: str) -> bool:
    """Add the aggregates of `agg`: by name, as a list, for each column, or each with a name of its own."""
    exprs = [_read_call(part) for part in _split(given)]
    if exprs and all(exprs):
        return all(asked.add_numbers(call, columns, new) for call, columns, new in filter(None, exprs))
    if given[:1] != "{" and "=" not in given:
        calls = _list_names(given) or [given.rsplit(".", maxsplit=1)[-1]]
        return all(asked.add_numbers(call, asked.columns) for call in calls)
    known = True
    for part in _split(given.strip("{} ")):
        name, _, called = part.partition(":" if given[:1] == "{" else "=")
        names = _list_names(called)
        if given[:1] == "{":
            known &= all(asked.add_numbers(call, [name.strip(" '\"")]) for call in names) and bool(names)
        else:
            known &= len(names) == 2 and asked.add_numbers(names[1], [names[0]], name.strip())
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


def _read_dplyr(text: str) -> _Question | None:
    table, *steps = _PIPE.split(text)
    asked = _Question(table.strip())
    for step in steps:
        call = re.fullmatch(r"(?s)(?:\w+::)?(\w+)\((.*)\)", step.strip())
        if call is None or not table.strip().isidentifier():
            return None
        name, parts = call[1], _split(call[2])
        plain = [part for part in parts if not re.match(r"[\w.]+\s*=(?!=)", part)]
        if name == "filter":
            asked.conditions += [_read_condition(part, asked.table) for part in parts]
        elif name == "group_by":
            asked.keys = plain
        elif name in ("summarise", "summarize"):
            for part in (part for part in parts if part[:1] != "."):
                key, _, value = ("", "", part) if part in plain else part.partition("=")
                asked.numbers.append((_replace_all(value.strip(), _FORMULA), key.strip()))
        elif name in ("count", "tally"):
            asked.keys, asked.numbers = plain or asked.keys, [("COUNT(*)", "n")]
            asked.order = "n DESC" if "sort" in call[2] else asked.order
        elif name == "arrange" and len(plain) == 1:
            falling = re.fullmatch(r"(?:desc\((\w+)\)|-(\w+))", plain[0])
            asked.order = f"{falling[1] or falling[2]} DESC" if falling is not None else plain[0]
        elif name in ("slice_max", "top_n", "slice_min"):
            asked.limit = (re.findall(r"\b\d+\b", call[2]) or ["10"])[0]
            term = next((p for p in plain if not p.isdigit()), asked.numbers[0][1] if asked.numbers else "")
            asked.order = f"{term}{'' if name == 'slice_min' else ' DESC'}" if term else ""
        elif name in ("inner_join", "left_join") and (by := re.search(r"by\s*=\s*['\"](\w+)['\"]", call[2])):
            asked.joins += f" {'LEFT ' * (name == 'left_join')}JOIN {plain[0]} USING ({by[1]})"
        elif name == "head":
            asked.limit = call[2].strip() or "6"
        elif name not in _NO_MATTER:
            return None
    return asked


_KUSTO = {
    r"\bbin\((\w+),\s*(\d+)d\)": r"time_bucket(INTERVAL \2 DAY, \1)",
    r"\bbin\((\w+),\s*(\d+)\)": r"FLOOR(\1 / \2) * \2",
    r"\bstartof(week|month|year|day)\((\w+)\)": r"date_trunc('\1', \2)",
    r"\bavg\(": "AVG(",
    r"\bcount\(\)": "COUNT(*)",
    r"\bdcount\((\w+)\)": r"COUNT(DISTINCT \1)",
    r"\bcountif\(": "COUNT_IF(",
}


def _read_kql(text: str) -> _Question | None:
    """Read the pipes of Kusto: `visits | where cost > 100 | summarize count() by clinic`."""
    table, *steps = re.split(r"\s*\|\s*", text)
    asked = _Question(table.strip())
    for step in steps:
        word, _, rest = step.strip().partition(" ")
        top = re.match(r"(\d+)(?:\s+by\s+(\w+)(\s+asc)?)?", rest)
        if word == "where":
            asked.conditions.append(_read_condition(rest, asked.table))
        elif word == "summarize":
            numbers, _, keys = re.sub(r"(?i)\bby\b", "\0", rest, count=1).partition("\0")
            asked.keys = _split(_replace_all(keys, _KUSTO))
            for part in _split(numbers):
                new, _, value = part.rpartition("=")
                asked.numbers.append((_replace_all(value.strip(), _KUSTO), new.strip()))
        elif word == "count":
            asked.numbers.append(("COUNT(*)", ""))
        elif word in ("top", "take", "limit") and top is not None:
            asked.limit = top[1]
            asked.order = f"{top[2]}{'' if top[3] else ' DESC'}" if top[2] else asked.order
        elif word in ("sort", "order") and (by := re.match(r"by\s+(\w+)(\s+asc)?", rest)):
            asked.order = f"{by[1]}{'' if by[2] else ' DESC'}"
        else:
            return None
    return asked


def _read_of_columns(text: str) -> _Question | None:
    """Read R's calls of whole columns: `mean(visits$cost)`, `table(..)`, `aggregate(cost ~ clinic, ..)`."""
    form = re.fullmatch(
        r"aggregate\(\s*(\w+)\s*~\s*([\w+ ]+),\s*(?:data\s*=\s*)?(\w+)\s*,\s*(?:FUN\s*=\s*)?(\w+)\s*\)", text
    )
    if form is not None:
        asked = _Question(form[3], keys=re.findall(r"\w+", form[2]))
        return asked if asked.add_numbers(form[4], [form[1]]) else None
    call = re.fullmatch(r"(\w+)\((.*)\)", text)
    columns = [] if call is None else re.findall(r"\b(\w+)\$(\w+)", call[2])
    if call is None or len({table for table, _ in columns}) != 1:
        return None
    asked, (_, *others) = _Question(columns[0][0]), [column for _, column in columns]
    if call[1] == "table":
        asked.keys, asked.numbers = [column for _, column in columns], [("COUNT(*)", "")]
        return asked
    if call[1] == "tapply" and len(columns) == 2:
        asked.keys = others
        return asked if asked.add_numbers(_split(call[2])[-1], [columns[0][1]]) else None
    return asked if len(columns) == 1 and asked.add_numbers(call[1], [columns[0][1]]) else None


_FORMULA = {
    r"\bn\(\)": "COUNT(*)",
    r",\s*na\.rm\s*=\s*\w+": "",
    r"\bn_distinct\((\w+)\)": r"COUNT(DISTINCT \1)",
}
_FORMULA |= {r"\bmean\(": "AVG(", r"\bsd\(": "STDDEV(", r"\bvar\(": "VARIANCE(", r"\bmedian\(": "MEDIAN("}
_FORMULA |= {r"\bsum\(is\.na\((\w+)\)\)": r"COUNT_IF(\1 IS NULL)", r"\bquantile\(": "QUANTILE_CONT("}
_FORMULA |= {r"\bsum\(": "SUM(", r"\bmin\(": "MIN(", r"\bmax\(": "MAX("}
_FRAGMENTS = {
    r"(\w+)\.dt\.(\w+)": r"\2(\1)",
    r"([\w.]+)\.isin\(\s*[\[({](.*?)[\])}]\s*\)": r"\1 IN (\2)",
    r"([\w.]+)\s*%in%\s*c\((.*?)\)": r"\1 IN (\2)",
    r"([\w.]+)\.between\((.*?),\s*(.*?)\)": r"\1 BETWEEN \2 AND \3",
    r"\bbetween\(\s*([\w.]+)\s*,\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)": r"\1 BETWEEN \2 AND \3",
    r"([\w.]+)\.(?:isna|isnull)\(\)": r"\1 IS NULL",
    r"([\w.]+)\.(?:notna|notnull)\(\)": r"\1 IS NOT NULL",
    r"!is\.na\(([\w.]+)\)": r"\1 IS NOT NULL",
    r"is\.na\(([\w.]+)\)": r"\1 IS NULL",
    r"([\w.]+)\.str\.contains\(\s*['\"](\w+)['\"].*?\)": r"\1 LIKE '%\2%'",
    r"([\w.]+)\.str\.startswith\(\s*['\"](\w+)['\"].*?\)": r"\1 LIKE '\2%'",
    r"([\w.]+)\.str\.(upper|lower|len|strip)\(\)": r"\2(\1)",
    r"\bn\(\)|\blen\(\*?\)|\bnrow\(\*?\)": "COUNT(*)",
}
"""What is written of conditions and counts with data frames, and the same in SQL."""
_CONDITION = _FRAGMENTS | {
    r"==": "=",
    r"!=": "<>",
    r"&+": "AND",
    r"\|+": "OR",
    r"~\s*|!(?=[\w(])": "NOT ",
    r'"': "'",
}


def read_fragments(text: str) -> str | None:
    """Return a SELECT with what it has of data frames as SQL; None if it has nothing of them.

    >>> read_fragments("SELECT n() FROM t WHERE a.isin(['x']) AND !is.na(b)")
    "SELECT COUNT(*) FROM t WHERE a IN ('x') AND b IS NOT NULL"
    >>> read_fragments("SELECT t.groupby('a').b.mean()"), read_fragments("SELECT a FROM t")
    ('SELECT a, AVG(b) FROM t GROUP BY a', None)
    """
    changed = _replace_all(text, _FRAGMENTS)
    if changed != text:
        return changed
    chain = re.match(r"(?i)\s*SELECT\s+(?=\w+(?:\.groupby\b|\[))", text)
    return None if chain is None else read_dataframe(text[chain.end() :])


def _read_condition(text: str, table: str) -> str:
    text = re.sub(rf"""\b(?:{table}|df)(?:\.|\$|\[['"])(\w+)(?:['"]\])?""", r"\1", text.strip())
    return _replace_all(text, _CONDITION)


def _replace_all(text: str, forms: dict[str, str]) -> str:
    for old, new in forms.items():
        text = re.sub(old, new, text)
    return text
