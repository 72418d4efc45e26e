"""Read a question that is written in steps with pipes, of R's dplyr or of Kusto, as SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field

from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

AGGREGATES = {"mean": "AVG", "sum": "SUM", "median": "MEDIAN", "min": "MIN", "max": "MAX", "std": "STDDEV"}
AGGREGATES |= {"var": "VARIANCE", "count": "COUNT", "nunique": "COUNT(DISTINCT", "mode": "MODE"}
AGGREGATES |= {"sd": "STDDEV", "n_distinct": "COUNT(DISTINCT", "average": "AVG"}
PIPE = lazy_pattern(r"\s*(?:%>%|\|>)\s*")
NO_MATTER = frozenset(
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


@dataclass(slots=True)
class Question:
    """What the steps of a chain have asked so far."""

    table: str
    keys: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    numbers: list[tuple[str, str]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    joins: str = ""
    order: str = ""
    limit: str = ""
    left: list[str] = field(default_factory=list)
    """Steps that are not read."""

    def answer(self) -> tuple[str, str] | None:
        """Return the SELECT, and what is asked without the steps that are not read; None for nothing."""
        if self.left and not (self.numbers or self.keys or self.conditions):
            return None
        return self.sql(), f"it without `{' '.join(' '.join(self.left).split())}`" if self.left else ""

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
        made = AGGREGATES.get(call)
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


def read_dplyr(text: str) -> Question | None:
    """Read the steps of dplyr; None for a text that does not begin with a table."""
    table, *steps = PIPE.split(re.sub(r"\b\w+::(?=\w+\()", "", text))
    table = re.sub(r"\Atbl\(\w+,\s*['\"](\w+)['\"]\)", r"\1", table)
    asked, made = Question(table.strip()), dict[str, str]()
    for step in steps:
        call = re.fullmatch(r"(?s)(?:\w+::)?(\w+)\((.*)\)", step.strip())
        if call is None or not table.strip().isidentifier():
            return None
        name, inside = call[1], call[2]
        for new, value in made.items():
            inside = re.sub(rf"\b{new}\b(?!\s*=[^=])", value, inside)
        parts = split_parts(inside)
        plain = [part for part in parts if not re.match(r"[\w.]+\s*=(?!=)", part)]
        if name == "filter":
            asked.conditions += [read_condition(part, asked.table) for part in parts]
        elif name == "group_by":
            asked.keys = plain
        elif name in ("mutate", "transmute") and not plain:
            listed = [part.partition("=") for part in parts]
            made |= {key.strip(): f"({replace_all(value.strip(), FORMULA)})" for key, _, value in listed}
        elif name in ("summarise", "summarize"):
            for part in (part for part in parts if part[:1] != "."):
                key, _, value = ("", "", part) if part in plain else part.partition("=")
                asked.numbers.append((replace_all(value.strip(), FORMULA), key.strip()))
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
        elif name in ("inner_join", "left_join") and plain and (by := _BY.search(call[2])):
            sides = [re.findall(r"\w+", part) for part in split_parts(by[1] or by[2])]
            on = [f"{table.strip()}.{names[0]} = {plain[0]}.{names[-1]}" for names in sides]
            same = all(names[0] == names[-1] for names in sides)
            using = f"USING ({', '.join(names[0] for names in sides)})" if same else f"ON {' AND '.join(on)}"
            asked.joins += f" {'LEFT ' * (name == 'left_join')}JOIN {plain[0]} {using}"
        elif name in ("anti_join", "semi_join") and plain and (by := _BY.search(call[2])):
            using = ", ".join(re.findall(r"\w+", by[1] or by[2]))
            asked.joins += f" {name[:4].upper()} JOIN {plain[0]} USING ({using})"
        elif name == "nrow":
            asked.numbers.append(("COUNT(*)", ""))
        elif name == "head":
            asked.limit = call[2].strip() or "6"
        elif name not in NO_MATTER:
            asked.left.append(step)
    return asked


_BY = lazy_pattern(r"\bby\s*=\s*(?:\w+\()?([^()]*)|\bjoin_by\(([^()]*)")
"""The columns of a join, each with that of the other table if it is called otherwise."""
_KUSTO = {
    r"\bbin\((\w+),\s*(\d+)d\)": r"time_bucket(INTERVAL \2 DAY, \1)",
    r"\bbin\((\w+),\s*(\d+)\)": r"FLOOR(\1 / \2) * \2",
    r"\bstartof(week|month|year|day)\((\w+)\)": r"date_trunc('\1', \2)",
    r"\bavg\(": "AVG(",
    r"\bcount\(\)": "COUNT(*)",
    r"\bdcount\((\w+)\)": r"COUNT(DISTINCT \1)",
    r"\bcountif\(": "COUNT_IF(",
}


_PRQL: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"(?is)group\s*\{?([^{}()]+?)\}?\s*\(\s*aggregate\s*[{\[](.*?)[}\]]\s*\)": r"summarize \2 by \1",
    r"(?is)\baggregate\s*[{\[](.*?)[}\]]": r"summarize \1",
    r"\bsort\s*\{?\s*-\s*(\w+)\s*\}?": r"sort by \1",
    r"\bsort\s*\{?\s*\+?(?!by\b)(\w+)\s*\}?": r"sort by \1 asc",
    r"(?m)^\s*filter\b": "where",
    r"\bjoin\s+(?:side:(left)\s+)?(\w+)\s*\(\s*==\s*(\w+)\s*\)": r"join \1 \2 on \3",
    r"\baverage\s+(\w+)": r"AVG(\1)",
    r"\bcount\s+(?:this\b|\w+|(?=[,}\s]))": "COUNT(*)",
    r"\bcount_distinct\s+(\w+)": r"COUNT(DISTINCT \1)",
    r"\b(sum|min|max|stddev)\s+(?:\(|(\w+))": lambda m: f"{m[1].upper()}({f'{m[2]})' if m[2] else ''}",
    r"\A\s*from\s+": "",
    r"@(\d{4}-\d\d-\d\d)": r"DATE '\1'",
    r"\((\w+)\s*\|\s*date\.to_text\s+[\"']([^\"']*)[\"']\)": r"strftime(\1, '\2')",
}
"""Steps of PRQL, as those of Kusto."""


_JOINED = lazy_pattern(r"((?:kind\s*=\s*(?:inner|leftouter)|left)?)\s*\(?(\w+)\)?\s+on\s+(\w+)")


def read_kql(text: str) -> Question:
    r"""Read the pipes of Kusto, `visits | where cost > 100 | summarize count() by clinic`, or those of PRQL.

    >>> read_kql("from visits\ngroup {clinic} (\n aggregate { n = count this }\n)\nsort {-n}").sql()
    'SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC'
    """
    if text.lower().startswith("from"):
        text = replace_all(re.sub(r"(?<=[{(,])\s*\n\s*|\s*\n\s*(?=[})])", " ", text), _PRQL)
    for new, value in re.findall(r"(?m)^\s*derive\s+\{?\s*(\w+)\s*=\s*(.*?)\s*\}?\s*$", text):
        text = re.sub(rf"(?m)^\s*derive\s+\{{?\s*{new}\b.*$\n?", "", text)
        text = re.sub(rf"\b{new}\b(?!\s*=)", f"({value})", text)
    table, *steps = re.split(r"\s*[|\n]\s*", text.strip())
    asked = Question(table.strip())
    for step in steps:
        word, _, rest = step.strip().partition(" ")
        top = re.match(r"(\d+)(?:\s+by\s+(\w+)(\s+asc)?)?", rest)
        if word == "where":
            asked.conditions.append(read_condition(rest, asked.table))
        elif word == "summarize":
            numbers, _, keys = re.sub(r"(?i)\bby\b", "\0", rest, count=1).partition("\0")
            asked.keys = split_parts(replace_all(keys, _KUSTO))
            for part in split_parts(numbers):
                new, _, value = part.rpartition("=")
                asked.numbers.append((replace_all(value.strip(), _KUSTO), new.strip()))
        elif word == "count":
            asked.numbers.append(("COUNT(*)", ""))
        elif word in ("top", "take", "limit") and top is not None:
            asked.limit = top[1]
            asked.order = f"{top[2]}{'' if top[3] else ' DESC'}" if top[2] else asked.order
        elif word in ("sort", "order") and (by := re.match(r"by\s+(\w+)(\s+asc)?", rest)):
            asked.order = f"{by[1]}{'' if by[2] else ' DESC'}"
        elif word == "join" and (by := _JOINED.fullmatch(rest)):
            asked.joins += f" {'LEFT ' * ('left' in by[1])}JOIN {by[2]} USING ({by[3]})"
        else:
            asked.left.append(step)
    return asked


def find_end(text: str, at: int) -> int:
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


def split_parts(text: str) -> list[str]:
    """Return the parts of a text between commas, outside of brackets and texts."""
    parts, begin = list[str](), 0
    while begin < len(text):
        i = begin
        while i < len(text) and text[i] != ",":
            end = (
                find_end(text, i)
                if text[i] in "([{"
                else text.find(text[i], i + 1)
                if text[i] in "'\""
                else i
            )
            i = (end if end >= 0 else len(text)) + 1
        parts.append(text[begin:i].strip())
        begin = i + 1
    return [part for part in parts if part]


FORMULA = {
    r"(?<!\w)\.N\b": "COUNT(*)",
    r"\bfloor_date\(\s*([\w.]+)\s*,\s*(?:unit\s*=\s*)?['\"](\w+?)s?['\"]\s*\)": r"date_trunc('\2', \1)",
    r"\bn\(\)": "COUNT(*)",
    r"\bn_distinct\((\w+)\)": r"COUNT(DISTINCT \1)",
}
FORMULA |= {r"\bmean\(": "AVG(", r"\bsd\(": "STDDEV(", r"\bvar\(": "VARIANCE(", r"\bmedian\(": "MEDIAN("}
FORMULA |= {r"\bsum\(is\.na\((\w+)\)\)": r"COUNT_IF(\1 IS NULL)", r"\bquantile\(": "QUANTILE_CONT("}
FORMULA |= {r"\bsum\(": "SUM(", r"\bmin\(": "MIN(", r"\bmax\(": "MAX("}
FRAGMENTS = {
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
    r"([\w.]+)\.fillna\(\s*([^()]*?)\s*\)": r"coalesce(\1, \2)",
    r"\bif_else\(": "if(",
    r"([\w.]+)\.astype\(\s*['\"]?float\d*['\"]?\s*\)": r"CAST(\1 AS DOUBLE)",
    r"\bcase_when\(\s*([^~()]+?)\s*~\s*([^~(),]+?)\s*,\s*(?:TRUE|\.default)\s*[~=]\s*([^~(),]+?)\s*\)": (
        r"CASE WHEN \1 THEN \2 ELSE \3 END"
    ),
    r",\s*na\.rm\s*=\s*\w+": "",
    r"\bn\(\)|\blen\(\*?\)|\bnrow\(\*?\)": "COUNT(*)",
}
"""Conditions and counts with data frames, and the same in SQL."""
_CONDITION = FRAGMENTS | {
    r"==": "=",
    r"!=": "<>",
    r"&+": "AND",
    r"\|+": "OR",
    r"~\s*|!(?=[\w(])": "NOT ",
    r'"': "'",
}


def read_condition(text: str, table: str) -> str:
    """Return a condition on a data frame in SQL."""
    text = re.sub(rf"""\b(?:{table}|df)(?:\.|\$|\[['"])(\w+)(?:['"]\])?""", r"\1", text.strip())
    return replace_all(text, _CONDITION)


def replace_all(text: str, forms: Mapping[str, str | Callable[[re.Match[str]], str]]) -> str:
    """Return a text in which each of several patterns is replaced, in their order."""
    for old, new in forms.items():
        text = re.sub(old, new, text)
    return text
