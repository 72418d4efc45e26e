"""Campaigns and how they are told: curves in characters, JSON, HTML."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import noise
from dpsql.audit import (
    CATALOGUE,
    Campaign,
    Counterexample,
    Outcome,
    PValues,
    Subject,
    Verdict,
    as_data,
    as_html,
    campaign,
    figure,
    strip,
)
from dpsql.audit.events import OutputEvent


def verdict(
    ps: tuple[float, ...] = (0.0, 0.0, 0.4, 1.0),
    *,
    epsilon: float = 0.5,
    violated: bool = False,
    name: str = "a <mechanism>",
    bound: float = 0.45,
) -> Verdict:
    found = Counterexample(
        "one above", (1, 1), (2, 1), {"k": 2}, OutputEvent(), epsilon, 0.0, 900, 500, 1_000
    )
    curve = tuple(PValues(0.25 * (i + 1), p, 1.0) for i, p in enumerate(ps))
    return Verdict(name, epsilon, 0.0, violated, 0.3, bound, 0.999, found, curve, 1_000, 4_000, 7, 0.25)


def mechanism(
    counts: NDArray[np.int64], trials: int, entropy: noise.Entropy, *, epsilon: Fraction
) -> NDArray[np.float64]:
    return (counts[0] + noise.laplace(epsilon, trials, entropy=entropy)).astype(float)


SUBJECT = Subject("a <mechanism>", "dpsql", "adds noise & more", mechanism, "one")
WRONG = Subject("a wrong one", "incorrect", "adds none", mechanism, "one", wrong_at=1.0)


def outcome(
    subject: Subject = SUBJECT,
    *,
    violated: bool = False,
    epsilon: Fraction = Fraction(1, 2),
    bound: float = 0.45,
) -> Outcome:
    return Outcome(subject, epsilon, verdict(violated=violated, name=subject.name, bound=bound))


@pytest.mark.parametrize(
    ("subject", "epsilon", "violated", "expected"),
    [
        (SUBJECT, "0.5", False, True),
        (SUBJECT, "0.5", True, False),
        (WRONG, "0.5", True, True),
        (WRONG, "0.5", False, False),
        (WRONG, "1.5", False, True),
        (WRONG, "1.5", True, False),
    ],
)
def test_what_is_expected_of_whom(subject: Subject, epsilon: str, violated: bool, expected: bool) -> None:
    found = outcome(subject, violated=violated, epsilon=Fraction(epsilon))
    assert found.is_expected is expected
    assert Campaign((found,), 0.999, 0.01, 1.0).is_expected is expected


def test_how_near_the_bound_comes() -> None:
    assert outcome(bound=0.4).near
    assert not outcome(bound=0.37).near


def test_a_campaign_divides_its_error_rate_and_reports_progress() -> None:
    told = []
    done = campaign(
        [SUBJECT],
        [Fraction(1), Fraction(2)],
        trials=2_000,
        error_rate=2e-9,
        entropy=noise.SeededEntropy(4),
        on_progress=lambda *args: told.append(args),
    )
    assert done.confidence == 1 - 1e-9
    assert told == [(1, 2, SUBJECT, Fraction(1)), (2, 2, SUBJECT, Fraction(2))]
    assert done.is_expected
    assert [one.verdict.epsilon for one in done.outcomes] == [1.0, 2.0]
    assert len({tuple(t.epsilon for t in one.verdict.curve) for one in done.outcomes}) == 1
    assert done.outcomes[1].verdict.curve[-1].epsilon == 3.2


def test_a_strip() -> None:
    assert strip(verdict((0.0, 0.2, 0.5, 1.0))) == "▁▂▅█"
    assert strip(verdict((0.0, 0.2, 0.5, 1.0)), plain=True) == "_.=#"


def test_a_figure() -> None:
    drawn = figure([verdict(), verdict((0.0, 0.0, 0.0, 1.0), epsilon=0.75)], rows=4, columns=21)
    assert drawn.splitlines() == [
        "  1.0 ┤          ┊    ┊    x",
        "      │          ┊    ┊",
        "  0.5 ┤          ┊    o",
        "      │          ┊    ┊",
        "  0.0 ┤     x    x    x",
        "      └─────────────────────",
        "    p  0        0.5        1  epsilon tested",
        "       o a <mechanism>, claims 0.5",
        "       x a <mechanism>, claims 0.75",
    ]


def test_a_figure_in_ascii() -> None:
    drawn = figure([verdict()], plain=True)
    assert drawn.isascii()
    assert drawn.endswith("claims 0.5\n")
    assert figure([]) == ""


def test_as_json() -> None:
    data = json.loads(
        json.dumps(as_data(Campaign((outcome(), outcome(WRONG, violated=True)), 0.999, 0.01, 1.5)))
    )
    assert data["expected"] is True
    first = data["audits"][0]
    assert first["mechanism"] == "a <mechanism>"
    assert first["counterexample"]["first"] == [1, 1]
    assert first["counterexample"]["arguments"] == {"k": 2}
    assert first["curve"][2] == {"epsilon": 0.75, "forward": 0.4, "backward": 1.0}
    assert data["audits"][1]["violated"] is True
    assert "D1 = [1, 1], D2 = [2, 1] (k = 2)" in first["words"]


def test_inputs_of_any_type_become_json() -> None:
    odd = Counterexample("p", {"ann"}, np.array([1]), {"x": Fraction(1, 2)}, OutputEvent(), 1.0, 0.0, 1, 0, 9)
    data = as_data(
        Campaign(
            (Outcome(SUBJECT, Fraction(1), Verdict("m", 1, 0, False, 1, 0, 0.9, odd, (), 9, 9, 1, 0.1)),),
            0.9,
            0.1,
            0.1,
        )
    )
    assert json.loads(json.dumps(data))["audits"][0]["counterexample"]["arguments"] == {"x": "1/2"}


class Page(HTMLParser):
    """Collects tags, and checks that they nest."""

    VOID = frozenset({"meta", "line", "polyline"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_as_html() -> None:
    text = as_html(
        Campaign((outcome(), outcome(epsilon=Fraction(1)), outcome(WRONG, violated=True)), 0.999, 0.01, 1)
    )
    page = Page(text)
    names = [tag for tag, _ in page.tags]
    assert "script" not in names
    assert not [attrs for _, attrs in page.tags if any(name.startswith("on") for name in attrs)]
    assert not re.search(r"(src|href)=|url\(|https?:", text), "the page needs nothing else"
    assert names.count("svg") == 2
    assert names.count("polyline") == 3
    words = "".join(page.words)
    assert "a <mechanism>" in words
    assert "adds noise & more" in words
    assert "Known mistakes" in words
    assert "not private" in words
    assert "3 verdicts, all as expected" in words


def test_html_says_what_is_unexpected() -> None:
    words = "".join(Page(as_html(Campaign((outcome(violated=True),), 0.999, 0.01, 1))).words)
    assert "1 verdicts, 1 not as expected" in words
    assert "not private, unexpected" in words


def test_every_subject_says_what_it_is() -> None:
    for subject in CATALOGUE:
        assert len(subject.about) > 10
        assert subject.kind in ("dpsql", "reference", "incorrect")
        assert subject.is_wrong(0.2) is (subject.kind == "incorrect")
