"""The made data: `events(user_id, item)` with power-law items, its policies, its statements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["SIZES", "Events", "Size", "top"]

_BLOCK = 2_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows, units and groups."""

    rows: int
    users: int
    items: int


SIZES = {
    "S": Size(1_000_000, 100_000, 10_000),
    "M": Size(10_000_000, 1_000_000, 50_000),
    "L": Size(100_000_000, 10_000_000, 200_000),
}

_BUDGET = '[engine]\nkeep = 0\n[budget]\nepsilon = 1e9\ndelta = 0.5\nledger = "{ledger}.sqlite"\n'
_TABLE = """
[tables.{name}]
source = "{file}"
unit = "user_id"
trust_source = true
{facts}
"""


def top(select: str, of: str, rest: str, *, options: str = "") -> str:
    """Write a statement that is never answered from the ledger."""
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE{options}) {select} "
        f"FROM {of} GROUP BY item {rest}"
    )


class Events:
    """Parquet files of one size in a folder, made when first asked for.

    ========================  ================================================================
    ``events.parquet``        rows as they happened; a user may meet an item more than once
    ``pairs.parquet``         each pair of user and item once
    ``texts.parquet``         the same rows as the first, items as text
    ``items.parquet``         the items as text, public
    ``amounts.parquet``       the rows as they happened, with an amount, and one of ten kinds of items
    ========================  ================================================================
    """

    def __init__(self, folder: Path, size: Size, *, seed: int = 1) -> None:
        self.folder, self.size = folder, size
        folder.mkdir(parents=True, exist_ok=True)
        self._rng = np.random.default_rng(seed)

    def events(self) -> Path:
        """Return the rows: item i is met in proportion to 1/(i + 1), by users alike."""
        path = self.folder / "events.parquet"
        if not path.exists():
            chance = np.cumsum(1 / np.arange(1, self.size.items + 1))
            chance /= chance[-1]
            schema = pa.schema([("user_id", pa.int64()), ("item", pa.int64())])
            with pq.ParquetWriter(path, schema) as writer:
                for start in range(0, self.size.rows, _BLOCK):
                    rows = min(_BLOCK, self.size.rows - start)
                    item = np.searchsorted(chance, self._rng.random(rows)).astype(np.int64)
                    user = self._rng.integers(0, self.size.users, rows)
                    writer.write_table(pa.table({"user_id": user, "item": item}, schema=schema))
        return path

    def pairs(self) -> Path:
        """Return the distinct pairs."""
        return self._derived("pairs", "SELECT DISTINCT user_id, item FROM '{events}'")

    def texts(self) -> Path:
        """Return the rows with items as text."""
        return self._derived("texts", "SELECT user_id, format('item {{:07}}', item) AS item FROM '{events}'")

    def items(self) -> Path:
        """Return the items as text."""
        return self._derived(
            "items", f"SELECT format('item {{:07}}', i) AS item FROM range({self.size.items}) AS r(i)"
        )

    def amounts(self) -> Path:
        """Return the rows with amounts of 0 to 499.99, as DECIMAL and as DOUBLE."""
        return self._derived(
            "amounts",
            "SELECT user_id, item, item % 10 AS kind, CAST(cents / 100 AS DECIMAL(9, 2)) AS amount, "
            "cents / 100 AS price FROM (SELECT *, hash(user_id, item) % 50000 AS cents FROM '{events}')",
        )

    def _derived(self, name: str, sql: str) -> Path:
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            sql = sql.replace("{events}", str(self.events())).replace("{{", "{").replace("}}", "}")
            with duckdb.connect() as connection:
                connection.execute(f"COPY ({sql}) TO '{path}'")
        return path

    def policy(self) -> Path:
        """Write the policy: one table for each way to declare the same rows."""
        domain = f"domain.item = {{ from = 0, to = {self.size.items - 1} }}"
        text = _BUDGET.format(ledger="ledger")
        text += _TABLE.format(name="events", file=self.events().name, facts=domain)
        text += _TABLE.format(name="undeclared", file=self.events().name, facts="")
        unique = f'unique = [["user_id", "item"]]\n{domain}'
        text += _TABLE.format(name="pairs", file=self.pairs().name, facts=unique)
        public = 'domain.item = { table = "items", column = "item" }'
        text += _TABLE.format(name="texts", file=self.texts().name, facts=public)
        text += f'[tables.items]\nsource = "{self.items().name}"\npublic = true\n'
        path = self.folder / "dpsql.toml"
        path.write_text(text)
        return path

    def amounts_policy(self) -> Path:
        """Write the policy of the table with amounts, with a ledger of its own."""
        facts = [
            f"domain.item = {{ from = 0, to = {self.size.items - 1} }}",
            "domain.kind = { from = 0, to = 9 }",
        ]
        facts += [f"bounds.{column} = {{ from = 0, to = 500 }}" for column in ("amount", "price")]
        facts += ["rows_per_unit = 50"]
        text = _BUDGET.format(ledger="amounts")
        text += _TABLE.format(name="amounts", file=self.amounts().name, facts="\n".join(facts))
        path = self.folder / "amounts.toml"
        path.write_text(text)
        return path

    def small_policy(self, name: str = "small", keep: str = "0") -> Path:
        """Write a policy of the first table alone, with a ledger of its own; `keep` is that of `[engine]`."""
        domain = f"domain.item = {{ from = 0, to = {self.size.items - 1} }}"
        text = _BUDGET.format(ledger=name).replace("keep = 0", f"keep = {keep}") + _TABLE.format(
            name="events", file=self.events().name, facts=domain
        )
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path
