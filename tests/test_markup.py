"""Tables for notebooks: every text is escaped, and a reader that speaks can tell what a cell belongs to."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np

from vestige import Mean, Stream, Window
from vestige.audit import compare, measure_leakage
from vestige.markup import make_table


class Tags(HTMLParser):
    """Collects tags and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check_accessible(text: str) -> None:
    tags = Tags(text).found
    assert [tag for tag, _ in tags].count("caption") == 1
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in tags if tag == "th")
    assert {tag for tag, _ in tags} <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert not any("style" in attributes or "class" in attributes for _, attributes in tags)


def test_every_text_is_escaped() -> None:
    text = "<b>&\"'"
    shown = make_table(text, [text, text], [[text, text]], [text])
    check_accessible(shown)
    assert shown.count("&lt;b&gt;&amp;&quot;&#x27;") == 6


def test_a_stream_shows_its_clock_and_no_record() -> None:
    stream = Stream(Mean(), retention=96, notice=80, seed=0)
    stream.extend([123456.789] * 100, subjects=["canary"] * 100)
    shown = stream._repr_html_()
    check_accessible(shown)
    assert "<td>100</td>" in shown
    assert '<th scope="row">notice</th><td>80</td>' in shown
    assert "max_age" not in shown
    assert "123456" not in shown
    assert "canary" not in shown


def test_audits_are_tables() -> None:
    found = measure_leakage(Window(), retention=8, t=40, trials=20, workers=1)
    check_accessible(found._repr_html_())
    assert found._repr_html_().count("<tr>") == 1 + len(found.checkpoints) + 1, "a head, and all states together"
    rows = np.random.default_rng(0).normal(size=50)
    compared = compare({"<Window>": Window()}, retention=8, batches=8, trials=20, workers=1, data=rows)
    check_accessible(compared._repr_html_())
    assert "&lt;Window&gt;" in compared._repr_html_()
    for made in (found, compared):
        assert repr(made) == str(made)
        assert len(made.to_pandas()) == len(str(made).splitlines()) - 1 - (2 if made is found else 0)
    facts = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert [row["policy"] for row in facts["policies"]] == ["<Window>"]
