"""Golden answers: what every format looks like, at 80 and at 120 columns."""

# ruff: noqa: E501  golden lines are as wide as what they show

from __future__ import annotations

import io
from fractions import Fraction
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.kernel.loss import Charge
from dpsql.release import Release
from dpsql.render import data
from dpsql.render.grid import Style
from dpsql.render.table import as_markdown, as_table
from tests.narrow import present

TEN = Charge(Fraction(10))
LONG = "Chronic obstructive pulmonary disease with acute exacerbation, unspecified | see J44"


def public() -> pa.Table:
    """Rows of a public table, with all that makes trouble."""
    return present(
        duckdb.sql(
            f"SELECT 1 AS id, '{LONG}' AS diagnosis, '日本語' AS name, 0.125 AS share, NULL AS note "
            "UNION ALL SELECT 22, 'a \"quoted\", b', chr(27) || '[31m', 1234.5, 'NULL' "
            "UNION ALL SELECT 333, chr(10), '', NULL, 'x'"
        )
    ).to_arrow_table()


@pytest.fixture
def release(fakes: SimpleNamespace) -> Release:
    made: Release = fakes.top_k(5)
    return made


TEXTS = {
    "table, release, 80": r"""
┌────────────────────────┬────────────┬─────┬──────────────────────────────────┐
│ diagnosis              │          n │ gap │ 0                          1,275 │
├────────────────────────┼────────────┼─────┼──────────────────────────────────┤
│ Essential hypertension │ 1,234 ± 41 │ 247 │ █████████████████████████████▒▒▒ │
│ Type 2 diabetes        │   987 ± 41 │ 184 │ ███████████████████████▒▒▒       │
│ Low back pain          │   803 ± 41 │ 590 │ ███████████████████▒▒▒           │
│ Asthma                 │   213 ± 41 │ 192 │ ████▒▒▒                          │
│ Ménière's disease      │    20 ± 41 │   — │ ▒▒                               │
└────────────────────────┴────────────┴─────┴──────────────────────────────────┘
epsilon 1 of 10 · noisy top-k with gap · 95% ± 41
""",
    "table, release, 120": r"""
┌────────────────────────┬────────────┬─────┬──────────────────────────────────────────┐
│ diagnosis              │          n │ gap │ 0                                  1,275 │
├────────────────────────┼────────────┼─────┼──────────────────────────────────────────┤
│ Essential hypertension │ 1,234 ± 41 │ 247 │ █████████████████████████████████████▒▒▒ │
│ Type 2 diabetes        │   987 ± 41 │ 184 │ █████████████████████████████▒▒▒▒        │
│ Low back pain          │   803 ± 41 │ 590 │ ███████████████████████▒▒▒▒              │
│ Asthma                 │   213 ± 41 │ 192 │ █████▒▒▒                                 │
│ Ménière's disease      │    20 ± 41 │   — │ ▒▒                                       │
└────────────────────────┴────────────┴─────┴──────────────────────────────────────────┘
epsilon 1 of 10 · noisy top-k with gap · 95% ± 41
""",
    "table, release, 80, ascii": r"""
+-------------------------+--------------+-----+-------------------------------+
| diagnosis               |            n | gap | 0                       1,275 |
+-------------------------+--------------+-----+-------------------------------+
| Essential hypertension  | 1,234 +/- 41 | 247 | ###########################-- |
| Type 2 diabetes         |   987 +/- 41 | 184 | #####################---      |
| Low back pain           |   803 +/- 41 | 590 | #################---          |
| Asthma                  |   213 +/- 41 | 192 | ###---                        |
| M\xe9ni\xe8re's disease |    20 +/- 41 |   - | --                            |
+-------------------------+--------------+-----+-------------------------------+
epsilon 1 of 10 - noisy top-k with gap - 95% +/- 41
""",
    "markdown, release": r"""
| diagnosis              |          n | gap |
| ---------------------- | ---------: | --: |
| Essential hypertension | 1,234 ± 41 | 247 |
| Type 2 diabetes        |   987 ± 41 | 184 |
| Low back pain          |   803 ± 41 | 590 |
| Asthma                 |   213 ± 41 | 192 |
| Ménière's disease      |    20 ± 41 |   — |

*epsilon 1 of 10 · noisy top-k with gap · 95% ± 41*
""",
    "table, public, 80": r"""
┌─────┬─────────────────────────────────────────┬──────────┬──────────┬────────┐
│  id │ diagnosis                               │ name     │    share │ note   │
├─────┼─────────────────────────────────────────┼──────────┼──────────┼────────┤
│   1 │ Chronic obstructive pulmonary disease … │ 日本語   │    0.125 │ NULL   │
│  22 │ a "quoted", b                           │ \x1b[31m │ 1234.500 │ 'NULL' │
│ 333 │ \n                                      │          │     NULL │ x      │
└─────┴─────────────────────────────────────────┴──────────┴──────────┴────────┘
""",
    "table, public, 120": r"""
┌─────┬─────────────────────────────────────────────────────────────────────────────────┬──────────┬──────────┬────────┐
│  id │ diagnosis                                                                       │ name     │    share │ note   │
├─────┼─────────────────────────────────────────────────────────────────────────────────┼──────────┼──────────┼────────┤
│   1 │ Chronic obstructive pulmonary disease with acute exacerbation, unspecified | s… │ 日本語   │    0.125 │ NULL   │
│  22 │ a "quoted", b                                                                   │ \x1b[31m │ 1234.500 │ 'NULL' │
│ 333 │ \n                                                                              │          │     NULL │ x      │
└─────┴─────────────────────────────────────────────────────────────────────────────────┴──────────┴──────────┴────────┘
""",
    "table, public, 80, ascii": r"""
+-----+-------------------------------+--------------------+----------+--------+
|  id | diagnosis                     | name               |    share | note   |
+-----+-------------------------------+--------------------+----------+--------+
|   1 | Chronic obstructive pulmon... | \u65e5\u672c\u8a9e |    0.125 | NULL   |
|  22 | a "quoted", b                 | \x1b[31m           | 1234.500 | 'NULL' |
| 333 | \n                            |                    |     NULL | x      |
+-----+-------------------------------+--------------------+----------+--------+
""",
    "markdown, public": r"""
|  id | diagnosis                                                                             | name       |    share | note   |
| --: | ------------------------------------------------------------------------------------- | ---------- | -------: | ------ |
|   1 | Chronic obstructive pulmonary disease with acute exacerbation, unspecified \| see J44 | 日本語     |    0.125 | NULL   |
|  22 | a "quoted", b                                                                         | \\x1b\[31m | 1234.500 | 'NULL' |
| 333 | \\n                                                                                   |            |     NULL | x      |
""",
}

DATA = {
    "csv, release": (
        "diagnosis,n\r\n"
        "Essential hypertension,1234.4\r\n"
        "Type 2 diabetes,987.1\r\n"
        "Low back pain,803.0\r\n"
        "Asthma,212.6\r\n"
        "Ménière's disease,20.3\r\n"
    ),
    "json, release": (
        "[\n"
        '{"diagnosis": "Essential hypertension", "n": 1234.4},\n'
        '{"diagnosis": "Type 2 diabetes", "n": 987.1},\n'
        '{"diagnosis": "Low back pain", "n": 803.0},\n'
        '{"diagnosis": "Asthma", "n": 212.6},\n'
        '{"diagnosis": "Ménière\'s disease", "n": 20.3}\n'
        "]\n"
    ),
    "jsonl, release": (
        '{"diagnosis": "Essential hypertension", "n": 1234.4}\n'
        '{"diagnosis": "Type 2 diabetes", "n": 987.1}\n'
        '{"diagnosis": "Low back pain", "n": 803.0}\n'
        '{"diagnosis": "Asthma", "n": 212.6}\n'
        '{"diagnosis": "Ménière\'s disease", "n": 20.3}\n'
    ),
    "csv, public": (
        "id,diagnosis,name,share,note\r\n"
        '1,"Chronic obstructive pulmonary disease with acute exacerbation, unspecified | see J44",日本語,0.125,\r\n'
        '22,"a ""quoted"", b",\x1b[31m,1234.500,NULL\r\n'
        '333,"\n","",,x\r\n'
    ),
    "json, public": (
        "[\n"
        '{"id": 1, "diagnosis": "Chronic obstructive pulmonary disease with acute exacerbation, unspecified | see J44", "name": "日本語", "share": 0.125, "note": null},\n'
        '{"id": 22, "diagnosis": "a \\"quoted\\", b", "name": "\\u001b[31m", "share": 1234.500, "note": "NULL"},\n'
        '{"id": 333, "diagnosis": "\\n", "name": "", "share": null, "note": "x"}\n'
        "]\n"
    ),
    "jsonl, public": (
        '{"id": 1, "diagnosis": "Chronic obstructive pulmonary disease with acute exacerbation, unspecified | see J44", "name": "日本語", "share": 0.125, "note": null}\n'
        '{"id": 22, "diagnosis": "a \\"quoted\\", b", "name": "\\u001b[31m", "share": 1234.500, "note": "NULL"}\n'
        '{"id": 333, "diagnosis": "\\n", "name": "", "share": null, "note": "x"}\n'
    ),
}


def rows_of(name: str, release: Release) -> tuple[pa.Table, Release | None]:
    return (release.rows, release) if name == "release" else (public(), None)


@pytest.mark.parametrize("case", TEXTS)
def test_text(case: str, release: Release) -> None:
    kind, name, *more = case.split(", ")
    style = Style(int(more[0]) if more else 80, more[1] if more[1:] else "utf-8")
    draw = {"table": as_table, "markdown": as_markdown}[kind]
    assert draw(*rows_of(name, release), style, total=TEN) == TEXTS[case].removeprefix("\n")


@pytest.mark.parametrize("case", DATA)
def test_data(case: str, release: Release) -> None:
    kind, name = case.split(", ")
    out = io.BytesIO()
    getattr(data, f"write_{kind}")(rows_of(name, release)[0], out)
    assert out.getvalue().decode() == DATA[case]


@pytest.mark.parametrize("stream", [True, False])
def test_arrow(release: Release, *, stream: bool) -> None:
    out = io.BytesIO()
    data.write_arrow(release.rows, out, stream=stream)
    buffer = pa.py_buffer(out.getvalue())
    reader = pa.ipc.open_stream(buffer) if stream else pa.ipc.open_file(buffer)
    assert reader.read_all().equals(release.rows)


def test_parquet(release: Release) -> None:
    out = io.BytesIO()
    data.write_parquet(release.rows, out)
    assert pq.read_table(pa.BufferReader(out.getvalue())).equals(release.rows)
