"""Notices that units moved from one part to another between versions of the data.

Beside the ledger lie the parts of all units: a Parquet file of 64-bit hashes of the units with the number of
the period of each, or a hash of its value, and a file with the key of the hashes. Who has the first alone
learns from it how many units there are of which part, not who they are. The ledger has the hash of the file,
so that one that is missing or older is noticed.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.errors import OperationalError
from dpsql.lazy_dataclass import dataclass
from dpsql.ledger import Ledger
from dpsql.ledger.key_file import KeyFile
from dpsql.ledger.mark import replace_durably

_SETTING = "units of parts"
_NO_DATE = np.iinfo(np.int64).min
"""Stands for the period of units whose date is NULL."""
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True, slots=True)
class PartsOfUnits:
    """The hashes of units, ascending, and the part of each, as a number: a private fact."""

    hashes: NDArray[np.uint64]
    periods: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table, key: bytes, every: str | None) -> PartsOfUnits:
        """Return those of units `u` with a date `d` of each, or with a value, if there is no `every`."""
        hashes = _hash(rows.column("u").to_pylist(), key, b"")
        if every is None:
            values = rows.column("d")
            hashed = _hash(values.fill_null("").to_pylist(), key, b"value").view(np.int64)
            found = np.where(values.is_null().to_numpy(), _NO_DATE, hashed)
        else:
            found = periods_of(days_of(rows.column("d")), every)
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], found[order])

    def count_moved(self, later: PartsOfUnits) -> int:
        """Return how many of these units have another period in a later version, or no row any more."""
        if not len(self.hashes):
            return 0
        if not len(later.hashes):
            return len(self.hashes)
        place = np.minimum(np.searchsorted(later.hashes, self.hashes), len(later.hashes) - 1)
        there = later.hashes[place] == self.hashes
        return int((~there | (later.periods[place] != self.periods)).sum())

    def to_bytes(self) -> bytes:
        """Return the content of a file with the periods of units."""
        import pyarrow.parquet as pq  # noqa: PLC0415  it loads file systems and TLS, and few policies need it

        table = pa.table({"unit": pa.array(self.hashes), "period": pa.array(self.periods)})
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        return sink.getvalue()

    @classmethod
    def read(cls, content: bytes) -> PartsOfUnits:
        """Read the parts of units from a file's content."""
        import pyarrow.parquet as pq  # noqa: PLC0415  as above

        table = pq.read_table(io.BytesIO(content))
        return cls(table.column("unit").to_numpy(), table.column("period").to_numpy())


def _hash(texts: Iterable[str], key: bytes, person: bytes) -> NDArray[np.uint64]:
    digests = b"".join(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=8, person=person).digest()
        for text in texts
    )
    return np.frombuffer(digests, dtype=np.uint64)


def periods_of(days: NDArray[np.int64], every: str) -> NDArray[np.int64]:
    """Return a number for the period of each day since 1970: equal ones are of one period."""
    there = days != _NO_DATE
    if every == "day":
        found = days
    elif every == "week":
        found = (days + 3) // 7
    else:
        months = np.where(there, days, 0).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        found = months // _MONTHS[every]
    return np.where(there, found, _NO_DATE)


def days_of(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the days since 1970 of a column of dates; `_NO_DATE` for NULL."""
    numbers = column.cast(pa.int32()).cast(pa.int64())
    found: NDArray[np.int64] = numbers.fill_null(_NO_DATE).to_numpy()
    return found


@dataclass(frozen=True, slots=True)
class KnownUnits:
    """The units of the version of the data that was read last, and the key of their hashes, for the owner."""

    before: PartsOfUnits
    key: bytes

    def count_moved(self, rows: pa.Table, every: str | None) -> int:
        """Return how many of them have another part in rows of units `u` with values `d`, or no row."""
        return self.before.count_moved(PartsOfUnits.of(rows, self.key, every))


class MovedUnits:
    """The units of a ledger's parts, as they were in the version of the data that was read last."""

    def __init__(self, ledger: Ledger, path: Path) -> None:
        self._ledger = ledger
        self._file, self._key_file = path.with_name(f"{path.name}.units"), KeyFile(path)

    def is_known(self, declared: str, version: str) -> bool:
        """Whether the units of this version of the data are written, for these parts."""
        found = self._setting()
        return found.get("declared") == declared and found.get("version") == version and self._is_whole(found)

    def key(self) -> bytes:
        """Return the key of the hashes; make one if there is none and nothing was written yet."""
        if not self._key_file.exists() and not self._setting():
            self._key_file.make(self._ledger.draw_key())
        try:
            text = self._key_file.read()
        except OSError:
            raise _lost(self._key_file.path) from None
        return hashlib.shake_256(f"moves {text}".encode()).digest(32)

    def compare(self, declared: str, version: str, found: PartsOfUnits) -> bool:
        """Keep the units of a version, unless some have moved since the last one; return whether none has."""
        setting = self._setting()
        if setting.get("declared") == declared:
            if not self._is_whole(setting):
                raise _lost(self._file)
            if PartsOfUnits.read(self._file.read_bytes()).count_moved(found):
                return False
        content = found.to_bytes()
        digest = hashlib.sha256(content).hexdigest()
        kept = {"declared": declared, "version": version, "digest": digest}
        # Whoever is killed while the file is written leaves the old one or this one: both are known.
        self._ledger.remember(_SETTING, json.dumps({**setting, "next": kept}))
        replace_durably(self._file, content)
        self._file.chmod(0o600)
        self._ledger.remember(_SETTING, json.dumps(kept))
        return True

    def read(self, declared: str) -> KnownUnits | None:
        """Return the units that were read last; None if there are none of these parts, or a file is lost."""
        setting = self._setting()
        if setting.get("declared") != declared or not self._is_whole(setting) or not self._key_file.exists():
            return None
        return KnownUnits(PartsOfUnits.read(self._file.read_bytes()), self.key())

    def _setting(self) -> dict[str, str]:
        """Return what the ledger has of the file; of a new one, if it was written."""
        found = json.loads(self._ledger.recall(_SETTING) or "{}")
        later: dict[str, str] | None = found.pop("next", None)
        return later if later is not None and self._is_whole(later) else found

    def _is_whole(self, setting: dict[str, str]) -> bool:
        try:
            content = self._file.read_bytes()
        except OSError:
            return False
        return hashlib.sha256(content).hexdigest() == setting.get("digest")


def forget_units(ledger: Ledger) -> None:
    """Forget which units had which part: the next version of the data is compared with none."""
    ledger.remember(_SETTING, "{}")


def has_hashes(ledger: Ledger) -> bool:
    """Return whether hashes of units were written, which rest on the ledger's key."""
    return (ledger.recall(_SETTING) or "{}") != "{}"


def _lost(file: Path) -> OperationalError:
    return OperationalError(
        f"{file.name}, which tells whether units have moved, is missing or changed: bring it back, or the"
        " owner runs `dpsql budget --moved`"
    )
