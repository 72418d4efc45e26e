"""What a generated statement may name, and the generator's own guess at what is allowed where."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from fuzz.world import World

__all__ = ["Column", "Item", "Maker", "Scope", "Unit"]

Unit = Literal["", "exact", "maybe"]
"""Whether a column is the privacy unit: not, exactly, or where an outer join may have made it NULL."""


@dataclass(frozen=True)
class Column:
    """One visible column. `domain`: a small public domain is known for it, so it may be a group key."""

    name: str
    kind: str
    unit: Unit = ""
    domain: bool = False


@dataclass(frozen=True)
class Item:
    """One relation of a FROM clause under its alias."""

    alias: str
    columns: tuple[Column, ...]

    def nullable(self) -> Item:
        """Return it as the nullable side of an outer join."""
        return Item(self.alias, tuple(replace(c, unit="maybe") if c.unit else c for c in self.columns))


@dataclass(frozen=True)
class Scope:
    """The names of a FROM clause. `owner` is the unit's kind, or None where all is public."""

    items: tuple[Item, ...]
    owner: str | None
    merged: tuple[Column, ...] = ()
    """Columns merged by USING, named without a table."""
    single: frozenset[frozenset[str]] = frozenset()
    """Sets of names (as `references` writes them) that are unique within a unit."""

    def references(self) -> list[tuple[str, Column]]:
        """List every column under a name that means it alone."""
        gone = {c.name for c in self.merged}
        found = [(c.name, c) for c in self.merged]
        found += [(f"{i.alias}.{c.name}", c) for i in self.items for c in i.columns if c.name not in gone]
        return found

    def of(self, kind: str) -> list[str]:
        """List the names of one kind, the unit among them as a value like any other."""
        return [name for name, column in self.references() if column.kind == kind]

    def units(self) -> list[tuple[str, Column]]:
        """List the columns that are the unit, exact ones first."""
        return sorted(
            ((n, c) for n, c in self.references() if c.unit), key=lambda pair: pair[1].unit != "exact"
        )


@dataclass
class Maker:
    """One statement while it is made: chance, the world, fresh aliases, and the rules it has reached."""

    rng: Random
    world: World
    focus: frozenset[str] = frozenset()
    """Features to prefer, when one rule is looked at closely."""
    saw: set[str] = field(default_factory=set)
    ctes: list[tuple[str, str, Item, str | None]] = field(default_factory=list)
    aliases: int = 0
    subqueries: int = 0
    """Subqueries in expressions so far."""

    def alias(self) -> str:
        """Give out a fresh table name."""
        self.aliases += 1
        return f"x{self.aliases}"

    def note(self, feature: str) -> None:
        """Remember that a rule was reached."""
        self.saw.add(feature)

    def chance(self, p: float, feature: str = "") -> bool:
        """Flip a coin; a feature in focus comes up far more often, and is noted when it does."""
        hit = self.rng.random() < (max(p, 0.7) if feature in self.focus else p)
        if hit and feature:
            self.note(feature)
        return hit

    def slip(self, feature: str) -> bool:
        """Break a rule on purpose, rarely: what should be refused must stay within reach of the generator."""
        return self.chance(0.015, f"without {feature}")

    def pick(self, weights: dict[str, float]) -> str:
        """Draw one of several named ways, noting it."""
        names = list(weights)
        chosen = self.rng.choices(names, [w * (12 if n in self.focus else 1) for n, w in weights.items()])[0]
        self.note(chosen)
        return chosen
