"""report.html: complete, well-formed, self-contained, reproducible."""

import dataclasses
import os
import pickle
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from small_compilation import Example

from penstock.reports.engine_work import CycleCounts
from penstock.reports.html import render_html
from penstock.reports.report import Flash, Instructions, Optimality, Point, RungReport
from penstock.reports.timeline import Timeline

VOID = {"meta", "br", "wbr", "img", "hr", "link", "input"}
LOADING = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}


class Page(HTMLParser):
    """A page's elements and text; fails where an element is not closed in its turn."""

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html.decode())
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page(example: Example) -> Page:
    return Page(render_html(example.report, example.layers, (example.timeline,), None))


def test_the_page_shows_the_totals(example: Example) -> None:
    words = page(example).words
    for figure in ("13,312", "12,288", "1,034", "512", "1,024", "45,678", "1,234,567", "1,300,000"):
        assert figure in words
    assert "9,876,543 estimated" in words
    assert "not simulated" in words


def test_the_page_shows_what_was_simulated_measured_and_checked(example: Example) -> None:
    report = dataclasses.replace(
        example.report,
        flash_bytes=Flash(50000, 45678, 4322),
        cycles=CycleCounts(9876543, 8750001),
        instructions=Instructions(5490001),
        ram_bytes_streamed_input=11111,
        stack_bytes_measured=222,
        verified=(RungReport("machine", 7, 6543, 0), RungReport("host", 7, 6543, 21)),
    )
    words = Page(render_html(report, example.layers, (example.timeline,), example.counts)).words
    for figure in ("4,322", "8,750,001 simulated", "5,490,001", "11,111", "222", "21 mismatches"):
        assert figure in words
    for count in example.counts:
        assert f"{count.cycles:,}" in words
        assert f"{count.instructions:,}" in words


def test_every_layer_is_a_line_with_its_figures(example: Example) -> None:
    words = page(example).words
    for layer in example.layers:
        shape = "×".join(map(str, layer.shape))
        assert f"{layer.step} {layer.kind}" in words
        assert shape in words
        for figure in (layer.macs, layer.read_bytes, layer.written_bytes, layer.cycles):
            assert f"{figure:,}" in words


def test_shares_are_of_simulated_cycles_where_there_are_any(example: Example) -> None:
    words = page(example).words
    assert "91.1 %" in words
    assert "Shares refer to estimated cycles." in words
    counted = Page(
        render_html(example.report, example.layers, (example.timeline,), example.counts)
    ).words
    assert "91.4 %" in counted
    assert "Shares refer to simulated cycles." in counted


def test_certificates_are_said_in_words(example: Example) -> None:
    report = dataclasses.replace(example.report, optimality=Optimality("optimal", 0.25, -1.0))
    words = Page(render_html(report, example.layers, (example.timeline,), None)).words
    assert "proved optimal: no other order of whole layers needs less memory" in words
    assert "at most 25.0 % above a proved lower bound" in words
    assert "nothing is proved" in words


def test_the_frontier_is_a_table_where_it_has_more_than_one_point(example: Example) -> None:
    assert "Frontier" not in page(example).words
    points = (Point(7777, 999, 1), Point(8888, 888, 2))
    report = dataclasses.replace(example.report, frontier=points)
    assert "7,777 999" in Page(render_html(report, example.layers, (example.timeline,), None)).words


def test_every_span_is_in_the_page_once(example: Example) -> None:
    svg = render_html(example.report, example.layers, (example.timeline,), None).decode()
    assert svg.count("</title></path>") == len(example.timeline.spans)


def test_the_page_loads_nothing(example: Example) -> None:
    html = render_html(example.report, example.layers, (example.timeline,), None)
    found = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & {
        tag for tag, _ in found.elements
    }
    for _, attributes in found.elements:
        for name in LOADING & set(attributes):
            assert (attributes[name] or "").startswith("#")
    assert not re.search(rb"@import|url\((?!#)", html)
    # What is left are names of XML languages, which are not addresses.
    assert set(re.findall(rb'(\S+)="https?:', html)) <= {b"xmlns", b"xmlns:xlink"}
    assert len(re.findall(rb"https?:", html)) == len(re.findall(rb'xmlns\S*="https?:', html))


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "\"><img src='x'>",
        "{{ 7 * 7 }} & {% raw %}",
        "名前/слой/😀",
        "nul\x00 escape\x1b[31m surrogate\udc80",
        "a/" * 150,
        "x" * 300,
    ],
)
def test_odd_names_are_shown_as_they_are_and_nothing_more(example: Example, name: str) -> None:
    plain = page(example)
    report = dataclasses.replace(example.report, model=name, target=name)
    layers = (dataclasses.replace(example.layers[0], name=name), *example.layers[1:])
    first, *others = example.timeline.spans
    spans = (dataclasses.replace(first, name=name), *others)
    timeline = dataclasses.replace(example.timeline, spans=spans)
    found = Page(render_html(report, layers, (timeline,), None))
    kinds = [tag for tag, _ in found.elements if tag in ("table", "tr", "td", "path", "svg", "h1")]
    assert kinds.count("td") == [tag for tag, _ in plain.elements].count("td")
    assert kinds.count("svg") == 1
    assert not {"script", "img"} & {tag for tag, _ in found.elements}
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    assert any(attributes.get("title") == shown for _, attributes in found.elements)
    assert found.words.startswith(" ".join(shown.split()))


def test_a_network_without_layers_has_a_page(example: Example) -> None:
    assert "small.tflite" in Page(render_html(example.report, (), (Timeline((), ()),), None)).words


def test_the_page_has_the_same_bytes_under_another_hash_seed(example: Example) -> None:
    arguments = (example.report, example.layers, (example.timeline,), None, 20000)
    expected = render_html(*arguments)
    assert render_html(*arguments) == expected
    program = "\n".join(
        (
            "import pickle, sys",
            "from penstock.reports.html import render_html",
            "sys.stdout.buffer.write(render_html(*pickle.load(sys.stdin.buffer)))",
        )
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(arguments),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
    )
    assert ran.stdout == expected


def test_measurements_must_be_of_every_layer(example: Example) -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        render_html(example.report, example.layers, (example.timeline,), example.counts[:1])
