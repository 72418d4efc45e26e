"""The papers' figures: one short run of all of them, on a data set of one's own and on made ones."""

import csv
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
VOID = {"meta"}


class Balanced(HTMLParser):
    """Checks that every element is closed, and counts them."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    counts = (20_000 / np.arange(1, 301)).astype(np.int64)
    items = np.random.default_rng(0).permutation(300)
    table = pa.table({"item": pa.array(items), "n": pa.array(counts)})
    pq.write_table(table, folder / "t40i10d100k_counts.parquet")
    command = [sys.executable, str(ROOT / "examples" / "reproduce"), "--quick", "--trials", "2"]
    done = subprocess.run(
        [*command, "--data", str(folder), "--out", str(folder / "report.html")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder / "report.html"


def test_the_page_stands_alone_and_is_well_formed(report):
    text = report.read_text("utf-8")
    page = Balanced()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.seen
    assert not re.search(r"(src|href)\s*=\s*['\"](https?:|/)", text)
    assert page.seen.count("h2") == 8


def test_every_figure_has_its_axes_labelled_and_something_in_it(report):
    panels = re.findall(r"<svg viewBox.*?</svg>", report.read_text("utf-8"), flags=re.DOTALL)
    assert len(panels) >= 18
    for panel in panels:
        assert re.search(r'aria-label="\S.*: .* over ', panel)
        assert len(re.findall('class="label">[^<]', panel)) == 2
        assert "nan" not in panel
        assert re.search(r'<path d="M[\d.]+ [\d.]+L|<circle|fill-opacity', panel)


def test_it_says_which_data_are_the_papers_and_beside_what_each_claim_stands(report):
    text = report.read_text("utf-8")
    assert "the free-gap papers&#x27; T40I10D100K, complete" in text
    assert "made on the spot; stands in for" in text
    sections = text.split("<h2>")[1:]
    assert all("class='mark" in section for section in sections)


def test_every_table_is_a_file_too(report):
    folder = report.with_name("report-tables")
    linked = set(re.findall(r"href='report-tables/(\w+\.csv)'", report.read_text("utf-8")))
    assert linked == {path.name for path in folder.iterdir()}
    assert len(linked) == 11
    for path in folder.iterdir():
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        assert rows
        assert {len(row) for row in rows} == {len(head)}
