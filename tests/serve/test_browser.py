"""The pages in a headless Chromium: the whole way clicked and typed, by keyboard alone, at two widths."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dpsql.serve.users import User
from tests.serve.browser import Browser, browsing, missing
from tests.serve.process import DPSQL, PASSWORDS, Running, running
from tests.served import let_in
from tests.support.world import write_world

pytestmark = [pytest.mark.browser, pytest.mark.skipif(missing() is not None, reason=missing() or "")]

HOSTILE = "<img src=x onerror=\"document.title='stolen'\">'; --"
POLICY = f"""
[budget]
epsilon = 10
default_epsilon = 0.5
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["start", "search", "basket", "help", {json.dumps(HOSTILE)}]
page.complete = true
[serve]
listen = ["127.0.0.1:0"]
[analysts."*"]
epsilon = 10
"""


@dataclass
class Served:
    process: Running
    folder: Path

    def url(self, end: str) -> str:
        """Return the address of a page, by the end of its path."""
        return next(
            part
            for line in self.process.said
            for part in line.replace(",", " ").split()
            if part.startswith("http://") and part.endswith(end)
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    pages = ["start"] * 50 + ["search"] * 30 + ["basket"] * 12 + ["help"] * 5 + [HOSTILE] * 3
    rows = {"user_id": [i // 7 for i in range(2000)], "page": [pages[i % 100] for i in range(2000)]}
    write_world(folder, POLICY, visits=rows)
    let_in(folder, PASSWORDS["alice"], User("alice", "alice"))
    command = [*DPSQL, "-p", str(folder / "dpsql.toml"), "serve"]
    with running([*command, "--http", "127.0.0.1:0", "--owner-page", "127.0.0.1:0"]) as process:
        yield Served(process, folder)
        assert process.stop() == 0


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as opened:
        opened.devtools("Emulation.setScrollbarsHidden", hidden=True)
        yield opened


@pytest.fixture
def browser(window: Browser, served: Served) -> Iterator[Browser]:
    """A window with nobody signed in; at the end no script was refused and none has failed."""
    window.size(1280, 900)
    window.colours("light")
    window.devtools("Network.clearBrowserCookies")
    window.logged()
    window.open(served.url("/"))
    window.until(lambda: window.shown("#sign-in"), "the form")
    yield window
    expected = ("401 (Unauthorized)", "422 (Unprocessable", "409 (Conflict", "404 (Not Found")
    severe = [each["message"] for each in window.logged() if each["level"] == "SEVERE"]
    assert [each for each in severe if not any(known in each for known in expected)] == []


def sign_in(browser: Browser) -> None:
    browser.type("#name", "alice")
    browser.press("Tab")
    browser.type("#password", PASSWORDS["alice"])
    browser.press("Enter")
    browser.until(lambda: browser.shown("#work"), "the page")


def write(browser: Browser, text: str) -> None:
    """Replace the statement by typing."""
    browser.click("#sql")
    browser.press("a", held="Control")
    browser.press(*text)
    browser.press("Escape")


def test_a_new_analyst_gets_an_answer_in_four_steps_by_keyboard(browser: Browser) -> None:
    sign_in(browser)  # three: a name, a password, Enter
    browser.until_text("#price-status", "Costs epsilon 0.5; then 9.5 is left")
    assert "within ±" in browser.text("#price")
    browser.press("Enter", held="Control")  # the fourth
    browser.until_text("#answer-status", "epsilon 0.5 was spent; left: epsilon 9.5")
    browser.until(lambda: browser.run("return document.querySelectorAll('.picture .bar').length") == 5)
    assert browser.run("return document.querySelectorAll('.picture .band').length") == 5
    browser.until_text("#budget-text", "epsilon 9.5 of 10 left")
    browser.until_text("#price-status", "asked before")
    # Names of groups are text.
    assert HOSTILE in browser.text("#answer table")
    assert browser.run("return document.querySelectorAll('#answer img').length") == 0
    assert browser.run("return document.title") == "dpsql"


def test_an_answer_says_what_it_leaves_out_and_assumes(browser: Browser) -> None:
    sign_in(browser)
    write(browser, "SELECT COUNT(*) AS n FROM visits WHERE page = 'start'")
    browser.until_text("#price-status", "Costs epsilon 0.5")
    browser.press("Enter", held="Control")
    browser.until_text("#price", "of a unit beyond a bound, found by search: noise and excess to 2B")
    browser.until_text("#answer", "left out: rows of a unit beyond")
    browser.click("#answer details summary")
    browser.until_text("#answer details", "rows that count")


def test_a_refusal_is_marked_and_rewritten_with_one_click(browser: Browser) -> None:
    sign_in(browser)
    write(browser, "SELECT pagr, COUNT(*) AS n FROM visits WHERE usr > 1 GROUP BY pagr TOP 3")
    browser.until_text("#price-status", "efused")
    marked = "return [...document.querySelectorAll('.wrong')].map((each) => each.textContent)"
    assert browser.run(marked) == ["pagr", "usr"]
    browser.click(".obstacles .link")
    selected = (
        "const a = document.querySelector('#sql'); return a.value.slice(a.selectionStart, a.selectionEnd)"
    )
    assert browser.run(selected) == "pagr"
    assert browser.run("return document.querySelector('#ask').disabled") is True
    write(browser, "SELECT COUNT(DISTINCT user_id) AS n FROM visit")
    browser.until_text("#price-status", "efused")
    browser.click("#use-rewrite")
    browser.until_text("#price-status", "Costs")
    assert browser.run("return document.querySelectorAll('.wrong').length") == 0
    assert "FROM visits" in browser.run("return document.querySelector('#sql').value")


def test_words_are_completed_by_keyboard(browser: Browser) -> None:
    sign_in(browser)
    browser.click("#sql")
    browser.press("a", held="Control")
    browser.press(*"SELECT WITH DIFF")
    browser.until(lambda: browser.shown("#completions"), "completions")
    browser.press("Tab", *" OPTIONS (eps")
    browser.press("Tab", *" = 0.25) pa")
    browser.press("Tab", *", COUNT(*) AS n FROM vi")
    browser.press("Tab", *" WHERE page = 'sta")
    browser.press("Tab", *" GROUP BY page TOP 1")
    browser.press("Escape")
    expected = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) page, COUNT(*) AS n FROM visits "
        "WHERE page = 'start' GROUP BY page TOP 1"
    )
    assert browser.run("return document.querySelector('#sql').value") == expected
    browser.until_text("#price-status", "Costs epsilon 0.25")
    assert browser.run("return document.activeElement.id") == "sql"
    browser.press("Tab")  # with the list closed it leaves the editor
    assert browser.run("return document.activeElement.id") != "sql"


def test_earlier_answers_are_opened_and_downloaded_free(browser: Browser, tmp_path: Path) -> None:
    sign_in(browser)
    write(
        browser,
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.125) COUNT(DISTINCT user_id) AS n FROM visits",
    )
    browser.until_text("#ask", "Ask for epsilon 0.125")
    before = browser.text("#budget-text")
    browser.click("#ask")
    browser.until_text("#answer-status", "was spent")
    browser.until(lambda: browser.text("#budget-text") != before, "what is left")
    left = browser.text("#budget-text")
    browser.run("document.querySelector('#answer').replaceChildren()")
    browser.click("#releases .release")
    browser.until_text("#answer-status", "opened again; nothing was spent")
    browser.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    files = {"CSV": "csv", "Parquet": "parquet", "SVG": "svg"}
    for place, ending in enumerate(files.values(), 1):
        browser.click(f".downloads button:nth-of-type({place})")
        browser.until(lambda end=ending: list(tmp_path.glob(f"release-*.{end}")), ending)  # type: ignore[misc]
    assert pq.read_table(next(tmp_path.glob("*.parquet"))).column_names[0] == "n"
    assert next(tmp_path.glob("*.csv")).read_text().startswith("n,")
    assert browser.text("#budget-text") == left


def test_whoever_signs_out_leaves_nothing_behind(browser: Browser, served: Served) -> None:
    sign_in(browser)
    browser.until(lambda: browser.run("return document.querySelectorAll('#releases button').length"))
    assert browser.run("return document.cookie") == ""
    browser.click("#sign-out")
    browser.until(lambda: browser.shown("#sign-in"), "the form")
    assert browser.text("#releases") == browser.text("#answer") == ""
    assert browser.run("return document.querySelector('#sql').value") == ""
    browser.open(served.url("/"))
    browser.until(lambda: browser.shown("#sign-in"), "the form")
    browser.type("#name", "alice")
    browser.type("#password", "wrong")
    browser.press("Enter")
    browser.until_text("#sign-in-error", "name or password is wrong")


CONTRAST = """
const luminance = (rgb) => {
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = rgb.map((c) => linear(c / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const found = parts(getComputedStyle(e).backgroundColor);
    if (found.length < 4 || found[3] === 1) return found.slice(0, 3);
  }
  return [255, 255, 255];
};
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !e.checkVisibility()) continue;
  if (e.closest('svg, script, textarea, [disabled]')) continue;
  const [a, b] = [luminance(parts(getComputedStyle(e).color)), luminance(ground(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.push([e.tagName, e.className, walker.currentNode.textContent.slice(0, 30), ratio]);
}
return bad;
"""
NAMELESS = """
const labelled = (e) => e.labels?.length || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
  || (e.tagName === 'BUTTON' || e.tagName === 'A' || e.tagName === 'SUMMARY' ? e.textContent.trim() : '');
const kinds = 'button, input, textarea, a, summary, progress, svg[role], [role=region]';
const found = [...document.querySelectorAll(kinds)];
return found.filter((e) => e.checkVisibility() && !labelled(e)).map((e) => e.outerHTML.slice(0, 80));
"""

OVERLAPS = """
const parts = [...document.querySelectorAll('.picture svg text, .picture svg rect')];
const boxes = parts.map((e) => [e.textContent, e.getBoundingClientRect()]);
const before = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
const meet = (a, b) => !before(a, b) && !before(b, a);
return boxes.flatMap(([text, a], i) =>
  boxes.slice(i + 1).filter(([, b]) => meet(a, b)).map(([other]) => [text, other]));
"""


def ask(browser: Browser, text: str) -> None:
    """Write a statement, and ask it as soon as it has a price."""
    browser.run("document.querySelector('#answer-status').textContent = ''")
    write(browser, text)
    browser.until(lambda: not browser.run("return document.querySelector('#ask').disabled"), "a price")
    browser.click("#ask")
    browser.until_text("#answer-status", "left:")


CELLS = """
return [...document.querySelectorAll('#answer tbody tr')].map((row) => row.children[arguments[0]].textContent)
"""


def test_rows_are_turned_sorted_and_copied_by_keyboard(browser: Browser) -> None:
    sign_in(browser)
    before = browser.text("#budget-text")
    ask(browser, "SELECT range AS a, 60 - range AS b FROM range(60)")
    assert browser.run(CELLS, 0) == [str(i) for i in range(25)]
    assert "rows 1 to 25 of 60" in browser.text("#answer caption")
    browser.run("document.querySelector('[data-turn=on]').focus()")
    browser.press("Enter", "Enter")
    assert browser.run(CELLS, 0) == [str(i) for i in range(50, 60)]
    assert (
        browser.run("return document.activeElement.getAttribute('aria-label')") == "Rows, rows 51 to 60 of 60"
    )
    browser.run("document.querySelectorAll('.sort')[1].focus()")
    browser.press("Enter")
    assert browser.run(CELLS, 1) == [str(i) for i in range(60, 35, -1)]
    browser.press("Enter")
    assert browser.run(CELLS, 1)[:3] == ["1", "2", "3"]
    assert browser.run("return document.activeElement.textContent") == "b"
    sorts = "return [...document.querySelectorAll('#answer thead th')].map((each) => each.ariaSort)"
    assert browser.run(sorts) == ["none", "ascending"]
    browser.run("[...document.querySelectorAll('.turns button')].pop().focus()")
    browser.press("Enter")
    browser.until_text(".pages [role=status]", "60 rows were copied")
    browser.run("document.querySelector('#sql').select()")
    browser.press("v", held="Control")
    copied = browser.run("return document.querySelector('#sql').value").splitlines()
    assert copied[:2] == ["a\tb", "59\t1"]
    assert len(copied) == 61
    assert browser.text("#budget-text") == before
    top = "return document.querySelector('#answer thead th').getBoundingClientRect().top"
    browser.run("document.querySelector('.pages .scroll').scrollTop = 80")
    at = browser.run(top)
    browser.run("document.querySelector('.pages .scroll').scrollTop = 140")
    assert browser.run("return document.querySelector('.pages .scroll').scrollTop") > 100
    assert browser.run(top) == pytest.approx(at, abs=1), "the head stays"


def test_the_accessibility_tree_has_the_picture_in_words_and_the_table(browser: Browser) -> None:
    sign_in(browser)
    ask(browser, "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page")
    browser.until(lambda: browser.shown(".picture svg"), "the picture")
    nodes = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    there = [
        (each["role"]["value"], each.get("name", {}).get("value", ""))
        for each in nodes
        if not each.get("ignored") and "role" in each
    ]
    (said,) = (name for role, name in there if role in ("image", "img"))
    assert said.startswith("Bars: n by page, 95% intervals: largest start ")
    assert re.search(r"smallest \S.* \d+", said)
    assert [name for role, name in there if role == "columnheader"] == ["page", "n"]
    assert ("button", "n") in there
    assert ("button", "Copy") in there
    assert sum(role == "rowheader" for role, _ in there) == 5
    assert any(role == "table" and name.startswith("Release ") for role, name in there)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_can_be_read(browser: Browser, width: int, scheme: Any) -> None:
    def checked() -> None:
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run(CONTRAST) == []
        assert browser.run(NAMELESS) == []

    browser.size(width, 900)
    browser.colours(scheme)
    checked()
    sign_in(browser)
    browser.until_text("#price-status", "Costs" if browser.text("#releases") == "none yet" else "")
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    checked()
    write(browser, "SELECT 'x' AS a, pagr FROM visits -- why\nGROUP BY 3.5")
    browser.until_text("#price-status", "efused")
    checked()
    write(browser, "SELECT page, 1000000 * COUNT(*) AS n FROM visits GROUP BY page")
    browser.until(lambda: not browser.run("return document.querySelector('#ask').disabled"))
    browser.click("#ask")
    browser.until(lambda: browser.shown(".picture svg"), "the picture")
    checked()
    assert re.search(r" to | ± ", browser.text(".picture svg")), "ranges, of either shape"
    assert browser.run(OVERLAPS) == []


def test_the_colours_are_chosen(browser: Browser) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(ground)
    browser.colours("dark")
    dark = browser.run(ground)
    assert dark != light
    browser.click("#theme")
    assert (browser.text("#theme"), browser.run(ground)) == ("Colours: light", light)
    browser.run("location.reload()")
    browser.until_text("#theme", "Colours: light")
    browser.click("#theme")
    browser.colours("light")
    assert (browser.text("#theme"), browser.run(ground)) == ("Colours: dark", dark)
    browser.click("#theme")
    assert browser.text("#theme") == "Colours: system"


def test_the_owner_sees_where_the_budget_went(browser: Browser, served: Served) -> None:
    sign_in(browser)
    options = "OPTIONS (epsilon = 0.0625)"
    write(
        browser,
        f"SELECT WITH DIFFERENTIAL_PRIVACY {options} /* {HOSTILE} */ COUNT(*) AS n FROM visits",
    )
    browser.until_text("#ask", "Ask for epsilon 0.0625")
    browser.click("#ask")
    browser.until_text("#answer-status", "was spent")
    link = (served.folder / "dpsql-owner-page.url").read_text().strip()
    assert link.startswith(served.url("/owner") + "#")
    browser.open(link)
    browser.until(lambda: browser.shown("#work"), "the owner's page")
    assert browser.run("return location.href") == served.url("/owner")  # the key is taken out at once
    browser.until_text("#entries", "alice")
    assert "visits" in browser.text("#by")
    assert HOSTILE in browser.text("#policy")
    assert HOSTILE in browser.text("#entries")
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.title") == "dpsql: the owner's page"
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            browser.size(width, 900)
            browser.colours(scheme)
            assert browser.run("return document.documentElement.scrollWidth") <= width
            assert browser.run(CONTRAST) == []
            assert browser.run(NAMELESS) == []
    log = json.dumps(served.process.log)
    assert link.partition("#")[2] not in log
    assert PASSWORDS["alice"] not in log
    browser.click("#sign-out")
    browser.until(lambda: browser.shown("#sign-in"), "the form")
    time.sleep(0.1)
    assert "alice" not in browser.text("#sign-in")
