"""Where a password comes from: the caller, DPSQL_PASSWORD, `~/.pgpass`, or a prompt."""

from __future__ import annotations

import getpass
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import OperationalError

if TYPE_CHECKING:
    from dpsql.remote.target import Target

VARIABLE = "DPSQL_PASSWORD"


def password_of(target: Target) -> str:
    """Return the password or token of a target's user; raises `OperationalError` if there is none."""
    for found in (target.password, os.environ.get(VARIABLE), _from_file(target)):
        if found:
            return found
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass(f"Password of {target.user} on {target.label}: ")
    raise OperationalError(
        f"no password for {target.user} on {target.label}\n"
        f"Hint: set {VARIABLE}, or write a line HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass (mode 0600)"
    )


def _from_file(target: Target) -> str | None:
    """Look a password up as libpq does: the first line whose fields all match."""
    file = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            return None  # as libpq: a file that others can read is not used
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError, RuntimeError):
        return None
    host = "localhost" if target.is_socket else target.host
    wanted = (host, str(target.port), target.database, target.user)
    for line in lines:
        fields = _fields(line)
        if line.startswith("#") or len(fields) != 5:
            continue
        if all(field in ("*", value) for field, value in zip(fields, wanted, strict=False)):
            return fields[4]
    return None


def _fields(line: str) -> list[str]:
    r"""Split a line at its colons; `\:` and `\\` stand for the characters themselves.

    >>> _fields(r"host:*:shop:alice:a\:b")
    ['host', '*', 'shop', 'alice', 'a:b']
    """
    fields, escaped = [""], False
    for character in line:
        if escaped or character not in "\\:":
            fields[-1] += character
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            fields.append("")
    return fields
