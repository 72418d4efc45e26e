"""The price of a statement before it is asked, for Python and notebooks."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.kernel.loss import Charge
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What a statement would cost, and how it is read; nothing was charged. `Connection.explain` makes it."""

    private: bool
    """Whether the statement reads private tables."""
    charge: Charge
    """The most that the statement would charge now, exact: nothing if its answer is stored."""
    remaining: Charge
    """What is left of the budget, exact."""
    table: pa.Table
    """The rows of EXPLAIN: the columns `property` and `value`, both VARCHAR."""

    @classmethod
    def of(cls, table: pa.Table, remaining: Charge) -> Explanation:
        """Read the price that EXPLAIN puts into the metadata of its table."""
        price = json.loads(table.schema.metadata[b"dpsql.price"])
        charge = Charge(Fraction(price["epsilon"]), Fraction(price["delta"]))
        return cls(price["private"], charge, remaining, table.replace_schema_metadata(None))

    @property
    def fits(self) -> bool:
        """Whether the budget that is left pays for the statement; a policy's cap on one statement may not."""
        return self.charge.fits(self.remaining)

    @property
    def price(self) -> str:
        """The price in words: `epsilon 0.5; epsilon 8.5 is left`."""
        from dpsql.render.readable import amounts, price  # noqa: PLC0415  imported where it is drawn

        if not self.private:
            return "costs nothing: it reads no private table"
        if not self.charge.epsilon and not self.charge.delta:
            return f"costs nothing; {amounts(self.remaining)} is left"
        left = f"{amounts(self.remaining)} is left"
        return f"costs {price(self.charge)}; {left}" + ("" if self.fits else ", which does not pay for it")

    def __repr__(self) -> str:
        from dpsql.render.grid import style_of  # noqa: PLC0415
        from dpsql.render.table import as_table  # noqa: PLC0415

        return f"<Explanation: {self.price}>\n{as_table(self.table, None, style_of(None))}".rstrip("\n")

    def _repr_html_(self) -> str:
        """Show the price in a notebook, above how the statement is read."""
        from dpsql.render.html import explanation_html  # noqa: PLC0415

        return explanation_html(self.price, self.table)
