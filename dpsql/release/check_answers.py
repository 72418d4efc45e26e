"""`CheckAnswer`: the answer of a check as the ledger stores it, and its JSON and Arrow form."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from dpsql.lazy_dataclass import dataclass
from dpsql.release.release import stream

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The answer of a check: all of it is differentially private."""

    table: pa.Table
    notes: tuple[str, ...]
    last: pa.Table
    """What later checks of the series expect as LAST: the keys of groups and, behind them, their values."""
    models: dict[str, Any] | None = None
    """What a stream with models knows of them now (`composition.model_numbers`)."""

    def to_bytes(self) -> bytes:
        """Write the answer of a check as the ledger stores it."""
        said = {"notes": self.notes} | ({} if self.models is None else {"models": self.models})
        parts = [json.dumps(said).encode(), stream(self.table), stream(self.last)]
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    @classmethod
    def read(cls, payload: bytes) -> CheckAnswer:
        """Read the answer of a check that the ledger stored."""
        import pyarrow as pa  # noqa: PLC0415  loaded only where an answer is read

        parts, at = list[bytes](), 0
        while at < len(payload):
            size = int.from_bytes(payload[at : at + 8], "big")
            parts.append(payload[at + 8 : at + 8 + size])
            at += 8 + size
        table, last = (pa.ipc.open_stream(part).read_all() for part in parts[1:])
        said = json.loads(parts[0])
        return cls(table, tuple(said["notes"]), last, said.get("models"))


def check_key(counted: str, asked: list[Any], table: pa.Table | None, last: pa.Table | None) -> str:
    """Return what equal checks have in common: what is counted, of which data, and what is expected of it.

    `counted` is the key of the counts (`release.reuse.reuse_key`).
    """
    tables = [None if each is None else _values_of(each) for each in (table, last)]
    text = json.dumps([counted, asked, tables])
    return hashlib.sha256(text.encode()).hexdigest()


def _values_of(table: pa.Table) -> str:
    """Return what equal tables have in common: what lies in memory behind a NULL is left out."""
    return repr([(field.name, str(field.type)) for field in table.schema]) + repr(table.to_pydict())
