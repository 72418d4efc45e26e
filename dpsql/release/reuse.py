"""When a stored answer is given again: versions of the data, and keys of questions.

Equal keys mean the same question on the same data. A version is a hash of the content of a table's files,
computed once per change. Sizes and times of files are no version: a DuckDB database changes in its log while
the file stays, and `touch` changes times alone. They only show when a hash has to be computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from dpsql.errors import OperationalError
from dpsql.lazy_dataclass import replace
from dpsql.ledger import Ledger
from dpsql.package_version import VERSION
from dpsql.policy import (
    CsvSource,
    DatabaseSource,
    FileSource,
    ParquetSource,
    Policy,
    Table,
    TableDomain,
    UnitVia,
    files_of,
)
from dpsql.policy.table_parts import names_below
from dpsql.policy.zones import DATABASE

if TYPE_CHECKING:
    from datetime import datetime

    from _typeshed import WriteableBuffer

    from dpsql.analysis import Plan
    from dpsql.kernel.loss import Charge

CHANGING = "the data is being changed; nothing was charged, ask again"

Stamps = tuple[tuple[str, tuple[int, ...]], ...]
"""The path, device, inode, size and times of every file; equal ones mean that no file was touched."""

_SETTLED_SECONDS = 2.0
"""A file changed less than this before it was hashed may change again without its times showing it."""
_ATTEMPTS = 5
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
"""What DuckDB names a database's logs: the second and third are there if a checkpoint was cut short."""


class Versions:
    """Versions of those tables of a policy that are read from local files; a ledger keeps the hashes."""

    def __init__(
        self, policy: Policy, ledger: Ledger | None = None, on_read: Callable[[int], None] = lambda size: None
    ) -> None:
        """`on_read` is called with the number of bytes after each part of a file that is hashed."""
        self._policy = policy
        self._ledger = ledger
        self._on_read = on_read
        self._known: dict[Path, tuple[tuple[int, ...], str]] = {}
        self._unchanging: dict[tuple[str, ...], list[Path]] = {}
        """The files of tables, none of which has a list of files that may change."""

    def stamps(self, tables: Iterable[Table] | None = None) -> Stamps:
        """Return the stamps of the files of these tables (None: of all), without reading the files.

        Of a table of several files, which ones they are is stamped as well: an added or removed one shows.
        """
        chosen = list(self._policy.tables.values() if tables is None else tables)
        files, listed = self._list_files(chosen)
        return (*((str(file), _stamp(file)) for file in files), *((words, ()) for words in listed))

    def size(self, tables: Iterable[Table]) -> int:
        """Return the bytes of the files of these tables: a private fact, for the owner."""
        return sum(stamp[2] for file in self._list_files(tables)[0] if (stamp := _stamp(file)))

    def _list_files(self, tables: Iterable[Table]) -> tuple[list[Path], list[str]]:
        """Return the files of these tables in order, each once, and a text of each list that may change."""
        chosen = list(tables)
        names_of_tables = tuple(table.name for table in chosen)
        if (known := self._unchanging.get(names_of_tables)) is not None:
            return known, []
        files: dict[str, Path] = {}
        listed: set[str] = set()
        for table in chosen:
            found = self._files(table)
            files.update((os.fspath(file), file) for file in found)
            if isinstance(table.source, FileSource) and table.source.parts is not None:
                names = json.dumps(names_below(table.source, found))
                listed.add(f"{table.name}: {hashlib.sha256(names.encode()).hexdigest()}")
        in_order = [file for _, file in sorted(files.items())]
        if not listed:
            self._unchanging[names_of_tables] = in_order
        return in_order, sorted(listed)

    def held_stamps(self) -> Stamps:
        """Return the stamps of the files that a session keeps open, in memory, copied, or in a list."""
        return self.stamps(t for t in self._policy.tables.values() if _is_held(t))

    def tell(self, tables: Iterable[Table]) -> bool:
        """Whether a change of these tables' data shows: in their files, or in the owner's `data_version`.

        Tables of a remote engine may change at any time, unless the owner declares a version of them.
        """
        return self._policy.data_version is not None or all(self._files(table) for table in tables)

    def content(self, tables: Iterable[Table], *, again: bool = False) -> str:
        """Return a hash of the content of these tables' files; tables of a remote engine add nothing to it.

        A file whose times did not change is not read again, unless `again`.
        Raises `OperationalError` if a file is being written.
        """
        tables = list(tables)
        for _ in range(_ATTEMPTS):
            files, listed = self._list_files(tables)
            before = [_stamp(file) for file in files]
            hashes = [self._hash(file, stamp, again=again) for file, stamp in zip(files, before, strict=True)]
            if [_stamp(file) for file in files] == before and self._list_files(tables) == (files, listed):
                return hashlib.sha256("\n".join([*hashes, *listed]).encode()).hexdigest()
        raise OperationalError(CHANGING)

    def _files(self, table: Table) -> list[Path]:
        match table.source:
            case ParquetSource() | CsvSource():
                return files_of(table.source)
            case DatabaseSource() if self._policy.engine == "duckdb" and self._policy.database is not None:
                database = self._policy.database
                return [database, *(database.with_name(database.name + log) for log in _LOGS)]
        return []

    def _hash(self, file: Path, stamp: tuple[int, ...], *, again: bool) -> str:
        if not stamp:
            return "absent"
        for recall in () if again else (self._known.get, self._recall):
            known = recall(file)
            if known is not None and known[0] == stamp:
                self._known[file] = known
                return known[1]
        now = time.time()
        try:
            with _CountedFile(file, self._on_read) as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError:
            return "unreadable"
        if max(stamp[-2:]) < (now - _SETTLED_SECONDS) * 1e9 and _stamp(file) == stamp:
            self._known[file] = (stamp, found)
            if self._ledger is not None:
                self._ledger.remember(f"file {file}", json.dumps([stamp, found]))
        return found

    def _recall(self, file: Path) -> tuple[tuple[int, ...], str] | None:
        text = self._ledger.recall(f"file {file}") if self._ledger is not None else None
        if text is None:
            return None
        stamp, found = json.loads(text)
        return tuple(stamp), str(found)


class _CountedFile(io.FileIO):
    """A file that tells how many bytes were read."""

    def __init__(self, file: Path, on_read: Callable[[int], None]) -> None:
        super().__init__(file)
        self._on_read = on_read

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer; return the number of bytes."""
        size = super().readinto(buffer)
        self._on_read(size)
        return size


def _is_held(table: Table) -> bool:
    """Whether a session goes on with what it opened of a table, whatever happens to the table's files."""
    source = table.source
    if table.public or isinstance(source, DatabaseSource):
        return True
    return source.parts is not None or (isinstance(source, CsvSource) and source.format.encoding != "utf-8")


def is_settled(stamps: Stamps) -> bool:
    """Whether no file was changed so recently that it may change again without its times telling it."""
    latest = (time.time() - _SETTLED_SECONDS) * 1e9
    return all(max(stamp[-2:], default=0) < latest for _, stamp in stamps)


def _stamp(file: Path) -> tuple[int, ...]:
    """Return a file's device, inode, size and times; empty if it is not there."""
    try:
        stat = os.stat(file)
    except OSError:
        return ()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


_COMBINING = ("combine", "at_release")
_CHANGES = {2: "the policy changed", 3: "the data changed", 4: "dpsql or the engine was updated"}
"""Position of a part of a key -> what its change means; before them are the parts of the question itself."""


def source_version(policy: Policy, table: Table, versions: Versions) -> str:
    """Return a hash of a table's declaration and data; when it changes, the table is checked again.

    The tables through which its rows find their unit, and those of its domains, are part of it: what the
    owner declares is about rows that have a unit, and about the values of a domain.
    For local files the hash covers their content, for a remote engine the owner's `data_version`. It also
    covers the versions of dpsql and of the engine: another version may have looked for less.
    """
    remote = isinstance(table.source, DatabaseSource) and policy.engine != "duckdb"
    tables = tables_read(policy, [table.name])
    data = f"declared {policy.data_version}" if remote else versions.content(tables)
    return _hash(policy.fingerprint(tables), data, *_versions())


@cache
def _versions() -> tuple[str, str]:
    return VERSION, duckdb.__version__


def reuse_key(plan: Plan, policy: Policy, versions: Versions, charge: Charge, *, again: bool = False) -> str:
    """Return a hash of everything that can change the answer; the statement's text is not a part of it.

    The compiled SQL carries literals with their types; the selection, the options with all defaults filled
    in, and the answer's columns carry the rest. A parameter's value is a literal by then, so it makes no
    difference whether a value was bound or written. What the columns are called is no part of it either:
    a stored release gets other names (see `renaming`). A requested error enters as the epsilon found
    for it. Of the policy and the data, only the tables that the statement reads enter. Each part has its own
    hash, so that the parts in which two keys differ are known. With `again` every file is read again.

    The kept ladders that know what an answer leaves out are part of it, since its intervals depend on them.

    Two layouts give answers with other noise, so that of a statement whose costs are divided is part of it.

    Where a time zone was looked up, the version of the database of zones is part of it.

    Where the largest charge has no delta, no answer depends on the option, which several releases share.
    Of parts of units that count as closed, private data are no part of it: they change no more, the policy
    says. What is read of public tables may change.

    Whether the statement selects by noise is no part of it: an answer is stored with both intervals.
    """
    options = {
        n: repr(getattr(plan.options, n))
        for n in plan.options.__dataclass_fields__
        if n not in ("at", "fresh", "error", "layout", "price", *_COMBINING)
    }
    layout = plan.epsilon_division
    if layout.order is not None:
        options["layout"] = repr(layout.order)
    if plan.options.combine is not None:  # it is another answer, and no stored one
        options |= {name: repr(getattr(plan.options, name)) for name in _COMBINING}
    if plan.options.order_share is None:  # releases of before have none
        del options["order_share"]
    if not charge.delta:
        options["delta"] = repr(None)
    if plan.apart > 1:  # its intervals are wider
        options["apart"] = repr(plan.apart)
    kept = [None if each is None else each.kept for each in (*plan.left_out, *plan.cut_values)]
    if plan.groups_left_out is not None:
        kept.append(plan.groups_left_out.kept)
    if any(kept):
        known = [None if each is None else (each.ladder.number, each.current) for each in kept]
        options["ladders"] = repr(known)
    tables = tables_read(policy, plan.compiled.tables)
    if plan.closed and not again:  # what is refined must be of the same rows, not of rows that count as such
        data = _version_of_closed_parts(tables, versions)
    else:
        data = _data(tables, policy, versions, again=again)
    unnamed = tuple(replace(output, name="") for output in plan.outputs)
    parts = (
        _hash(plan.compiled.sql, repr(plan.selection), repr(unnamed)),
        _hash(repr(sorted(options.items()))),
        policy.fingerprint(tables),
        _hash(data),
        _hash(*_versions(), *(each.what for each in plan.assumed if DATABASE in each.what)),
    )
    return ".".join(parts)


def _data(tables: Iterable[Table], policy: Policy, versions: Versions, *, again: bool = False) -> str:
    if policy.data_version is not None:
        return f"declared {policy.data_version}"
    return versions.content(tables, again=again)


def _version_of_closed_parts(tables: Iterable[Table], versions: Versions) -> str:
    public = [table for table in tables if table.public]
    return f"closed parts {versions.content(public)}" if public else "closed parts"


def find_same_data(plan: Plan, policy: Policy, versions: Versions) -> frozenset[tuple[str, str]]:
    """Return what `data_of` has of releases of the rows that a statement reads now, under this policy.

    Or of rows that counted as closed when they were counted.
    """
    tables = tables_read(policy, plan.compiled.tables)
    known = _data(tables, policy, versions), _version_of_closed_parts(tables, versions)
    return frozenset((policy.fingerprint(tables), _hash(data)) for data in known)


def data_of(key: str) -> tuple[str, str]:
    """Return a reuse key's hashes of the policy's tables and of the data; empty for any other text."""
    parts = key.split(".")
    return (parts[2], parts[3]) if len(parts) == _PARTS else ("", "")


_PARTS = 5


def tables_read(policy: Policy, names: Iterable[str]) -> tuple[Table, ...]:
    """Return the tables that a statement names, their parents, and the tables of their public domains."""
    found: dict[str, Table] = {}
    waiting = list(names)
    while waiting:
        table = policy.table(waiting.pop())
        if table is None or table.name in found:
            continue
        found[table.name] = table
        waiting += [domain.table for domain in table.domain.values() if isinstance(domain, TableDomain)]
        if isinstance(table.unit, UnitVia):
            waiting.append(table.unit.table)
    return tuple(sorted(found.values(), key=lambda table: table.name))


def question(key: str) -> str:
    """Return the prefix that the keys of one question share under every policy and all data."""
    query, options, *_ = key.split(".")
    return f"{query}.{options}."


def why_charged_again(key: str, before: list[tuple[str, datetime]]) -> str:
    """Explain why a statement that was asked before is charged again; empty if it was not asked before.

    `before` has the keys under which the same question or the same text was stored, newest first.
    """
    for old, when in before:
        reasons = changes(key, old)
        if reasons:
            return f"asked before, on {when:%Y-%m-%d %H:%M}; charged again: {reasons}"
    return ""


def changes(key: str, before: str) -> str:
    """Say what changed from an earlier key to this one; empty for keys of different questions."""
    now, then = key.split("."), before.split(".")
    if len(then) != len(now) or then[1] != now[1]:
        return ""  # another dpsql's key, or other options
    changed = [place for place in _CHANGES if then[place] != now[place]]
    if {2, 3} <= {*changed}:
        changed.remove(3)  # under another policy the statement may read other tables: no change of data
    return " and ".join(_CHANGES[place] for place in changed)


def _hash(*texts: str) -> str:
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:32]
