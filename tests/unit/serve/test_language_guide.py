"""Every statement of the guide for programs is accepted on the shipped clinic."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsql.serve.mcp
from dpsql.kernel.loss import Charge
from dpsql.session import Session

GUIDE = (Path(dpsql.serve.mcp.__file__).parent / "language.md").read_text("utf-8")
STATEMENTS = re.findall(r"```sql\n(.*?)```", GUIDE, re.DOTALL)
DATA = Path(dpsql.__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("clinic")
    for file in DATA.iterdir():
        if file.suffix in (".toml", ".parquet"):
            shutil.copyfile(file, folder / file.name)
    session = Session(folder / "clinic.toml", "agent")
    yield session
    session.close()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_of_the_guide_is_priced(clinic: Session, statement: str) -> None:
    prepared = clinic.prepare(statement)
    assert prepared.private
    assert prepared.price != Charge() or statement.startswith("CHECK ")  # its stream has paid


def test_the_guide_is_two_pages() -> None:
    assert len(STATEMENTS) == 9
    assert len(GUIDE.splitlines()) < 120
