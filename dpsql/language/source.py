"""The text of a statement, and errors with a position in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from dpsql.errors import Fix, QueryRefused, QuerySyntaxError, Unknown
from dpsql.language.copying import walked
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a statement as typed. Its methods make errors with line, column and that line's text."""

    text: str

    def locate(self, start: int) -> tuple[int, int, str]:
        r"""Return line and column (from 1) of the character at `start`, and that line.

        >>> Source("SELECT 1\nFROM t").locate(14)
        (2, 6, 'FROM t')
        """
        start = max(0, min(start, len(self.text)))
        before = self.text[:start]
        line = before.count("\n") + 1
        col = start - (before.rfind("\n") + 1) + 1
        return line, col, self.text.split("\n")[line - 1]

    def refuse(
        self,
        message: str,
        at: int | exp.Expr | None = None,
        hint: str | None = None,
        fix: Fix | None = None,
        unknown: Unknown = "",
    ) -> QueryRefused:
        """Return the error for a statement that is valid SQL but not allowed.

        `unknown` says what the statement names that does not exist, if that is the reason.
        """
        line, col, shown = self.locate(self.position(at))
        refused = QueryRefused(message, hint=hint, line=line, col=col, source=shown, fix=fix, unknown=unknown)
        refused.node = at
        return refused

    def syntax(
        self,
        message: str,
        at: int | exp.Expr | None = None,
        hint: str | None = None,
        fix: Fix | None = None,
    ) -> QuerySyntaxError:
        """Return the error for text that is not a valid statement."""
        line, col, shown = self.locate(self.position(at))
        return QuerySyntaxError(message, hint=hint, line=line, col=col, source=shown, fix=fix)

    @contextmanager
    def limited_depth(self) -> Iterator[None]:
        """Refuse the statement if a recursion over its nesting exceeds Python's limit in this block."""
        try:
            yield
        except RecursionError:
            raise self.refuse("the statement is nested too deeply") from None

    def position(self, at: int | exp.Expr | None) -> int:
        """Return the position of a node, or of the nearest node around it that has one; else 0."""
        if at is None:
            return 0
        if isinstance(at, int):
            return at
        around: exp.Expr | None = at
        while around is not None:
            view: tuple[int, str] | None = around.meta_get("view")
            if view is not None:
                return view[0]  # it stands in a view of the policy, which is read there
            own: int | None = around.meta_get("start")
            if own is not None:
                return own  # what it holds may stand for a name, and come from another place
            starts: list[int] = [s for node in walked(around) if (s := node.meta_get("start")) is not None]
            if starts:
                return min(starts)
            around = around.parent
        return 0


def replacing(node: exp.Expr | None, name: str) -> Fix | None:
    """Return the fix that writes another name in the place of an identifier or a function's name."""
    if node is None or "start" not in node.meta or "end" not in node.meta:
        return None
    return Fix(written_name(name), node.meta["start"], node.meta["end"] + 1)


def written_name(name: str) -> str:
    """Return a name as a statement has it, in quotes unless it is plain.

    >>> print(written_name("day"), written_name("Amount (EUR)"))
    day "Amount (EUR)"
    """
    plain = name.isascii() and name.isidentifier()
    return name if plain else '"' + name.replace('"', '""') + '"'
