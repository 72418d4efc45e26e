"""The functions that catalogue questions may call: a closed list, each a DuckDB macro, aggregate or window.

The macros are in `functions.sql`, which says how it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from dpsql.lazy_dataclass import dataclass

PREFIX = "pgf_"
"""Prefix of the macros; `tokens` gives it to every function that a question calls."""

_LINE = re.compile(
    r"(?P<name>\w+)\((?P<arguments>[^)]*)\) -> "
    r"(?P<set>setof )?(?P<result>[\w\[\]\" ]+)(?:\((?P<fields>[^)]*)\))?: (?P<body>.*)"
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the types of its arguments and its result, and the body of its macro."""

    name: str
    arguments: tuple[str, ...]
    """Names of types; `any` for an argument of any type."""
    result: str
    body: str
    returns_set: bool = False
    """Whether it returns rows; the macro returns a list of them."""
    fields: tuple[tuple[str, str], ...] = ()
    """Names and types of the columns of the rows of a function that returns records."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the macro's parameters."""
        return tuple("abcdefghij"[: len(self.arguments)])


_GRANTED = {
    **dict.fromkeys(("table", "column", "any_column"), "'SELECT'"),
    **dict.fromkeys(("schema", "language", "type"), "'USAGE'"),
    "database": "'CONNECT'",
    "function": "'EXECUTE'",
    **dict.fromkeys(("sequence", "tablespace", "server", "foreign_data_wrapper"), ""),
}
"""What an analyst may do with an object of each kind; all else he may not."""


def _rights() -> str:
    lines = []
    for kind, granted in _GRANTED.items():
        for count in (3, 4) if kind == "column" else (2, 3):
            last = "abcd"[count - 1]
            held = f"list_has_any(string_split(replace(upper({last}), ' ', ''), ','), [{granted}]::VARCHAR[])"
            missing = " OR ".join(f"{name} IS NULL" for name in "abcd"[:count])
            types = ", ".join(["any"] * (count - 1) + ["text"])
            lines.append(
                f"has_{kind}_privilege({types}) -> bool: CASE WHEN {missing} THEN NULL ELSE {held} END"
            )
    return "\n".join(lines)


AGGREGATES = {
    "count": ("count", "int8"),
    "min": ("min", "extreme"),
    "max": ("max", "extreme"),
    "sum": ("sum", "sum"),
    "avg": ("avg", "float8"),
    "array_agg": ("array_agg", "array"),
    "string_agg": ("string_agg", "text"),
    "bool_and": ("bool_and", "bool"),
    "bool_or": ("bool_or", "bool"),
    "every": ("bool_and", "bool"),
    **{name: (name, "int8") for name in ("row_number", "rank", "dense_rank")},
    **{name: (name, "same") for name in ("lag", "lead", "first_value", "last_value")},
}
"""The aggregates and window functions: DuckDB's name, and the type of the result."""


def _lines(text: str) -> list[str]:
    """Return the lines of a table, each with those that continue it, without comments."""
    whole: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            whole[-1] += " " + line.strip()
        elif line and not line.startswith("--"):
            whole.append(line)
    return whole


def _read(text: str) -> Mapping[tuple[str, int], Function]:
    found = {}
    for line in _lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"not a line of a table of functions: {line}")
        fields = tuple(
            (part.split(" ")[0], part.split(" ")[1]) for part in (match["fields"] or "").split(", ") if part
        )
        body = match["body"]
        if "SELECT" in body:  # its sources must not be taken for those of the question
            body = re.sub(r"\bAS ([a-z])\b", r"AS pg_source_\1", body)
            body = re.sub(r"(?<![\w'])([a-z])\.(\w)", r"pg_source_\1.\2", body)
        function = Function(
            match["name"],
            tuple(part.strip() for part in match["arguments"].split(",") if part.strip()),
            match["result"],
            body,
            match["set"] is not None,
            fields,
        )
        found[function.name, len(function.arguments)] = function
    return found


FUNCTIONS = _read((files(__package__) / "functions.sql").read_text(encoding="utf-8") + _rights())
"""The functions with macros, by name and number of arguments."""
