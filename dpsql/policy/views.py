"""Views: queries that the owner gave a name, which statements read like a table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sqlglot import exp

from dpsql.errors import Error
from dpsql.kernel.facts import fold
from dpsql.language import Clauses, Query, parse, tables_in
from dpsql.lazy_dataclass import dataclass
from dpsql.policy.names import Names, check_names, key_path, same_name, suggest, wrong
from dpsql.policy.section import Key, Section
from dpsql.policy.table import Table


@dataclass(frozen=True, slots=True)
class View:
    """A view: its name and its SELECT. A statement that reads it is analysed as if the SELECT stood in it."""

    name: str
    sql: str

    def place(self, *names: str) -> str:
        """Return the key path of the view in the policy."""
        return key_path("views", self.name, *names)

    @property
    def tree(self) -> exp.Query:
        """The parsed SELECT, which is not to be changed; raises `PolicyError` for other texts."""
        return _tree(self.sql, self.place("sql"))


@lru_cache(maxsize=256)
def _tree(sql: str, place: str) -> exp.Query:
    try:
        query = parse(sql)
    except Error as problem:
        raise wrong(place, str(problem).partition("\n")[0], getattr(problem, "hint", None)) from None
    if not isinstance(query, Query):
        raise wrong(place, "a view is one SELECT")
    if query.inner or Clauses(query.options, query.clause, query.has_options) != Clauses():
        raise wrong(
            place,
            "a view has no privacy options and no clause that selects groups",
            "the statements that read the view give them",
        )
    return query.tree


def read_views(raw: object, keys: Mapping[str, Key]) -> dict[str, View]:
    """Read the views of a policy file."""
    if not isinstance(raw, dict) or not all(isinstance(view, dict) for view in raw.values()):
        raise wrong("views", 'expected views: write [views.NAME] with sql = "SELECT .."')
    views = {}
    for name, section in raw.items():
        read = Section(section, ("views", name), keys)
        read.require("sql", 'write sql = "SELECT .."')
        views[name] = View(name, **read.values())
    return views


def check_views(views: Mapping[str, View], tables: Names[Table]) -> Names[View]:
    """Check the names and texts of views, and that they read declared tables and no circle of views."""
    found = check_names(views, "views")
    for name, view in found.items():
        if not same_name(name, view.name):
            raise wrong(key_path("views", name), f"holds a view named {view.name!r}")
        if name in tables:
            raise wrong(view.place(), "is the name of a table as well", "give the view another name")
        for read in names_read(view.tree):
            if read not in tables and read not in found:
                known = [*tables, *found]
                raise wrong(view.place("sql"), f"there is no table {read!r}", suggest(read, known, "tables"))
    _check_cycles(found)
    return found


def _check_cycles(views: Names[View]) -> None:
    reads = {fold(name): {fold(read) for read in names_read(view.tree)} for name, view in views.items()}
    left = set(reads)
    while free := {name for name in left if not reads[name] & left}:
        left -= free
    if left:
        name = next(n for n in views if fold(n) in left)
        raise wrong(
            views[name].place("sql"), "the view reads itself, or a view that does, directly or through others"
        )


def names_read(tree: exp.Expr) -> list[str]:
    """Return the names in a query that mean tables or views, each once."""
    return list(dict.fromkeys(node.name for node in tables_in(tree)))
