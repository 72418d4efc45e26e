"""Read a question that is no SQL as a SELECT, by the names and public values of the policy that it has.

A question of another tool or of English names what is counted or measured, by what, and of whom: each word
that is a table, a column, a public value or the name of an aggregate is taken as such, all others are not.
"""

from __future__ import annotations

import re

from dpsql.analysis import Catalog
from dpsql.kernel.tree import literal_sql
from dpsql.language import write_name
from dpsql.lazy_pattern import lazy_pattern
from dpsql.policy import Policy, Table, ValuesDomain

_AGGREGATES = {
    "AVG": lazy_pattern(r"(?i)\b(?:average|avg|mean|averageifs?|averagex)\b"),
    "SUM": lazy_pattern(r"(?i)\b(?:sum|total|sumifs?|sumx)\b"),
    "MEDIAN": lazy_pattern(r"(?i)\b(?:median)\b"),
    "STDDEV": lazy_pattern(r"(?i)\b(?:stddev|stdev|standard\s+deviation)\b"),
    "MAX": lazy_pattern(r"(?i)\b(?:max|maximum|highest|largest|maxifs)\b"),
    "MIN": lazy_pattern(r"(?i)\b(?:min|minimum|lowest|smallest|minifs)\b"),
    "COUNT": lazy_pattern(r"(?i)\b(?:d?count\w*|how\s+many|number\s+of|distinctcount)\b"),
}
"""How others call the aggregates."""
_SHORT = 3
"""The fewest letters of a public value that counts as one without quotes around it."""


def read_words(text: str, policy: Policy, catalog: Catalog) -> tuple[str, str] | None:
    """Return the SELECT that a question asks for by its words, and what is guessed of it.

    None if the words name no table or no number.
    """
    found = {name: match for name, form in _AGGREGATES.items() if (match := form.search(text))}
    main = _find_table(text, policy, catalog)
    if not found or main is None:
        return None
    call = min(found, key=lambda name: found[name].start())
    tables = [main, *(table for table in policy.tables.values() if table is not main)]
    read, numeric, domains = {m[0] for m in found.values()}, set[str](), dict[str, tuple[object, ...]]()
    named = dict[str, int]()
    for table in tables:
        for name, kind in catalog.columns(table.name):
            domain = table.domain.get(name)
            if name not in domains:
                domains[name] = domain.values if isinstance(domain, ValuesDomain) else ()
                numeric |= {name} if kind.numeric else set()
                named |= {name: place} if (place := _find(name, text)) >= 0 else {}
    numbers = [name for name in named if name in numeric]
    behind = [name for name in numbers if named[name] >= found[call].end()]
    measured = min(behind or numbers, key=lambda name: named[name], default="") if call != "COUNT" else "*"
    if not measured:
        return None
    conditions = dict[str, str]()
    for name, values in domains.items():
        for value in [v for v in values if isinstance(v, str) and _has_value(v, text)][:1]:
            conditions[name] = value
    keys = [
        name
        for name in sorted(named, key=lambda each: named[each])
        if name not in conditions
        and name != measured
        and (name not in numeric or re.search(rf"(?i)\b(?:by|per|each)\s+{name}\b", text))
    ]
    read |= {*keys, *named, *conditions.values(), *policy.tables}
    group = [write_name(key) for key in keys]
    shown = [*group, f"{call}({measured if measured == '*' else write_name(measured)})"]
    where = [f"{write_name(n)} = {literal_sql(v)}" for n, v in conditions.items()]
    written = f"SELECT {', '.join(shown)} FROM {main.name}"
    written += f" WHERE {' AND '.join(where)}" if where else ""
    return written + (f" GROUP BY {', '.join(group)}" if group else ""), _tell_unread(text, read)


def _tell_unread(text: str, read: set[str]) -> str:
    """Return what is guessed of a question: what its words ask, but for those that have not been read."""
    taken = {word.rstrip("s") for each in read for word in re.findall(r"[a-z]+", each.lower())}
    words = [w for w in re.findall(r"[A-Za-z]{3,}|\d+", text) if w.lower().rstrip("s") not in taken | _EMPTY]
    return f"what the words ask without `{' '.join(words)}`" if words else "what the words ask"


_EMPTY = frozenset(
    """
    the for and are per each many how what which who show give list find there with have has from that please
    number can you tell get all among evaluate summarizecolumn fixed group select where sort order
    """.split()  # noqa: SIM905  a table of words
)
"""Words that ask nothing of their own."""


def _find_table(text: str, policy: Policy, catalog: Catalog) -> Table | None:
    """Return the table that a text names, or else the one of which it names the most columns."""
    named = {name: place for name in policy.tables if (place := _find(name, text)) >= 0}
    if named:
        return policy.tables[min(named, key=lambda name: named[name])]
    columns = {
        name: sum(_find(column, text) >= 0 for column, _ in catalog.columns(table.name))
        for name, table in policy.tables.items()
    }
    most = max(columns, key=lambda name: columns[name], default="")
    return policy.tables[most] if columns.get(most) else None


def _find(name: str, text: str) -> int:
    """Return where a text has a name, also with blanks in it, or of one or several; -1 if it has none."""
    words = r"[\s_]+".join(map(re.escape, name.rstrip("s").split("_")))
    match = re.search(rf"(?i)(?<![A-Za-z0-9_]){words}s?(?![A-Za-z0-9_])", text)
    return -1 if match is None else match.start()


def _has_value(value: str, text: str) -> bool:
    quoted = rf"(['\"]){re.escape(value)}\1"
    bare = rf"(?<!\w){re.escape(value)}(?!\w)"
    return re.search(rf"(?i){quoted}", text) is not None or (
        len(value) >= _SHORT and re.search(rf"(?i){bare}", text) is not None
    )
