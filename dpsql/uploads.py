"""Uploads: public tables of one session, such as the predictions of a model, that its statements may join.

An upload is as public as the text of a statement: the analyst has made it. Its rows are joined by a key that
has each value once, so a private row finds at most one of them, and a unit's influence is that of its own
rows; the kernel certifies such a join as that with any public table whose columns are unique, which is tested
on its rows. It is of the session alone and never takes the name of a table or view of the policy. The hash of
its rows stands in the keys of stored answers, and in the ledger with its name.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dpsql.errors import ProgrammingError
from dpsql.policy import Policy, Table, UploadedSource, fold
from dpsql.policy.names import name_problem

if TYPE_CHECKING:
    from dpsql.database import Database

MOST_ROWS: Final = 1_000_000
MOST_BYTES: Final = 64 * 2**20
"""Of all uploads of a session, in memory."""
MOST_COLUMNS: Final = 100
MOST_TABLES: Final = 100
"""Of a session: each upload opens engines that have all of them."""
_LEAST = 64
"""The bytes that a row of a table counts at least, divided by 8: empty texts and NULL are no free rows."""


class Uploads:
    """The uploads of one session, in a folder of their own that nobody else can read."""

    def __init__(self, base: Database, analyst: str) -> None:
        self._base, self._with_uploads, self._analyst = base, base, analyst
        self._folder: Path | None = None
        self._sizes: dict[str, int] = {}
        self._tables: dict[str, Table] = {}

    def add(self, name: str, rows: pa.Table, key: str | None) -> Database:
        """Keep a table under a name; return the database that has all uploads.

        The key is the first column if none is named. An upload that had the name before is replaced; the
        database that was returned before is closed.
        """
        _check_name(self._base.policy, name)
        rows = check_columns(name, rows)
        found = _find_key(name, rows, key)
        size = max(rows.nbytes, _LEAST // 8 * rows.num_rows)
        others = sum(each for other, each in self._sizes.items() if other != fold(name))
        if rows.num_rows > MOST_ROWS or size + others > MOST_BYTES:
            raise ProgrammingError(
                f"an upload has at most {MOST_ROWS:,} rows, and a session's uploads at most "
                f"{MOST_BYTES >> 20} MB: this one has {rows.num_rows:,} rows and {size / 2**20:.1f} MB"
            )
        if len(self._tables.keys() | {fold(name)}) > MOST_TABLES:
            raise ProgrammingError(
                f"a session has at most {MOST_TABLES} uploads: another one takes a name that you have used"
            )
        digest = _hash(rows)
        try:
            source = UploadedSource(self._write(digest, rows), digest=digest)
            tables = self._tables | {fold(name): Table(name, source, public=True, unique=((found,),))}
            told, most = json.dumps([name, rows.num_rows, found]), self._base.policy.budget.max_uploads
            self._base.ledger.remember_upload(self._analyst, digest, told, most)
            made = self._base.with_tables(tables.values())
            self._tables, self._sizes[fold(name)] = tables, size
            self._close_own()
        finally:
            self._remove_replaced()
        self._with_uploads = made
        return made

    def _remove_replaced(self) -> None:
        """Remove the files that no upload has any more; nothing reads the database that had them."""
        used = {
            each.source.digest for each in self._tables.values() if isinstance(each.source, UploadedSource)
        }
        for path in () if self._folder is None else self._folder.iterdir():
            if path.stem not in used:
                path.unlink()

    def _write(self, digest: str, rows: pa.Table) -> Path:
        import pyarrow.parquet as pq  # noqa: PLC0415  few sessions upload

        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dpsql-uploads-"))  # its user's alone
        path = self._folder / f"{digest}.parquet"
        if not path.exists():
            pq.write_table(rows, path)
        return path

    def close(self) -> Database:
        """Remove the files and close the database that has them; return the one without."""
        self._close_own()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._base

    def _close_own(self) -> None:
        if self._with_uploads is not self._base:
            self._with_uploads.close()
        self._with_uploads = self._base


def to_table(data: Any) -> pa.Table:  # noqa: ANN401  whatever Arrow reads
    """Return rows as an Arrow table: of one, a DataFrame, a mapping of columns, or what exports Arrow."""
    try:
        if isinstance(data, pa.Table):
            return data
        if hasattr(data, "__arrow_c_stream__") or isinstance(data, dict):
            return pa.table(data)
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        raise ProgrammingError(
            "an upload is an Arrow table, a DataFrame, or a mapping of columns of one length"
        ) from None


def _check_name(policy: Policy, name: str) -> None:
    if not name.isidentifier() or name_problem(name) or fold(name).startswith("dpsql"):
        raise ProgrammingError("the name of an upload is a word, and does not begin with dpsql")
    taken = [*policy.tables, *policy.views]
    if fold(name) in {fold(each) for each in taken}:
        raise ProgrammingError(
            f"{name[:60]} is a table of the policy, which no upload replaces: give it another name"
        )


def check_columns(name: str, rows: pa.Table) -> pa.Table:
    """Return rows of plain columns with distinct names; refuse others."""
    names = rows.column_names
    if not names or len(names) > MOST_COLUMNS or len({fold(each) for each in names}) < len(names):
        raise ProgrammingError(f"{name[:60]} has 1 to {MOST_COLUMNS} columns with different names")
    for place, column in enumerate(names):
        if problem := name_problem(column):
            raise ProgrammingError(f"a column of {name[:60]}: {problem}")
        kind = rows.schema.field(place).type
        kept = _find_type(kind)
        if _is_scalar(kept) and kept != kind:
            try:
                rows = rows.set_column(place, column, rows.column(place).cast(kept))
            except pa.ArrowException:
                raise ProgrammingError(
                    f"column {column[:60]} of {name[:60]} has values beyond {kept}: whole numbers are "
                    "BIGINT, and times have microseconds"
                ) from None
        elif not _is_scalar(kind):
            raise ProgrammingError(
                f"column {column[:60]} of {name[:60]} is {str(kind)[:60]}: an upload has numbers, texts, "
                "BOOLEAN, dates and times without a zone"
            )
    return rows.replace_schema_metadata(None)


def _find_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as which a column is kept: times and whole numbers as SQL has them, and no codes."""
    if pa.types.is_dictionary(kind):
        return _find_type(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return pa.timestamp("us")
    return pa.int64() if pa.types.is_unsigned_integer(kind) else kind


def _is_scalar(kind: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_decimal(kind):
        return int(kind.precision) <= 18 and int(kind.scale) >= 0
    if is_.is_timestamp(kind):
        return kind.tz is None
    plain = (is_.is_boolean, is_.is_integer, is_.is_float32, is_.is_float64, is_.is_string)
    return any(check(kind) for check in (*plain, is_.is_large_string, is_.is_date32))


def _find_key(name: str, rows: pa.Table, key: str | None) -> str:
    """Return the key of an upload: a column that has no value twice, and no NULL."""
    import pyarrow.compute as pc  # noqa: PLC0415  as above

    wanted = rows.column_names[0] if key is None else key
    found = next((each for each in rows.column_names if fold(each) == fold(wanted)), None)
    if found is None:
        raise ProgrammingError(f"{name[:60]} has no column {wanted[:60]}, by which it would be joined")
    values = rows.column(found)
    if pa.types.is_floating(values.type):
        raise ProgrammingError(f"the key {found[:60]} of {name[:60]} is no floating-point number: cast it")
    if values.null_count or pc.count_distinct(values).as_py() < len(values):
        raise ProgrammingError(
            f"the key {found[:60]} of {name[:60]} has a value twice or a NULL: a private row would find "
            "several rows; upload one row for each key"
        )
    return str(found)


def _hash(rows: pa.Table) -> str:
    """Return the hash of the names, types and values of rows."""
    sink = hashlib.sha256(repr([(each.name, str(each.type)) for each in rows.schema]).encode())
    for column in rows.columns:  # what lies in memory behind a NULL is no value
        for part in (column.is_valid(), column.drop_null()):
            for batch in pa.table([part.combine_chunks()], ["v"]).to_batches():
                sink.update(batch.serialize())
    return str(sink.hexdigest())
