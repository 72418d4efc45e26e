"""Every listed form that takes a text, written over two columns."""

from __future__ import annotations

from dpsql.kernel.tree import listed_forms

_OTHERS = {"BIGINT": "3", "INTEGER": "3", "#INTEGER": "2", "#LENGTH": "1000", "#PAD": "'é'"}
_FIRST = ("LIKE", "ILIKE", "NOT_LIKE")


def forms(column: str, other: str) -> list[str]:
    """Write each form with the column in each place of a text, and short texts or the other one elsewhere."""
    found: dict[str, None] = {}
    for entries in listed_forms().values():
        for form in entries:
            places = [i for i, want in enumerate(form.arguments) if want == "VARCHAR"]
            known = all(want == "VARCHAR" or want in _OTHERS for want in form.arguments)
            if not places or not known:
                continue
            texts = ("'%a%b'", "'é%'", "'short'") if form.name in _FIRST else ("'a'", "'é'", "'Ab1,'")
            for text in texts:
                parts = [
                    column if i == places[0] else text if want == "VARCHAR" else _OTHERS[want]
                    for i, want in enumerate(form.arguments)
                ]
                found[form.template.format(*parts)] = None
            if form.arguments == ("VARCHAR", "VARCHAR") and form.template.startswith("("):  # comparisons
                found[form.template.format(column, other)] = None
    return list(found)
