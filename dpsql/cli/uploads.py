"""`dpsql --upload NAME=FILE`: public tables of files, such as predictions, for statements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.errors import ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dpsql.session_api import AnalystSession


def send_uploads(session: AnalystSession, given: Sequence[str]) -> None:
    """Keep the tables of files in a session, each under its name; the key is its first column."""
    for text in given:
        name, equal, path = text.partition("=")
        if not equal or not name.isidentifier() or not path:
            raise click.UsageError("--upload takes NAME=FILE, a CSV file with a header or a Parquet file")
        session.upload(name, _read_file(Path(path)))


def _read_file(path: Path) -> pa.Table:
    """Read a file of the analyst's own."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path) if path.suffix == ".parquet" else arrow_csv.read_csv(path)
    except (OSError, pa.ArrowException) as problem:
        what = "cannot be read" if isinstance(problem, OSError) else "is no CSV or Parquet file"
        raise ProgrammingError(f"the upload {path} {what}") from None
