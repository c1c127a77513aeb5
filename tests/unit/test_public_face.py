"""The public face in an interpreter and in a notebook: names, version, repr, HTML."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.metadata import version

import pytest

import penstock
from command_line import CommandLine
from penstock import api
from penstock.api.arguments import LAST_RUNGS
from penstock.pipeline.request import STAGE_NAMES
from penstock.revision import identity

MOST_LETTERS = 300


def test_dir_lists_the_public_names_only() -> None:
    assert dir(penstock) == sorted([*penstock.__all__, "__version__"])
    assert all(hasattr(penstock, name) for name in dir(penstock))


def test_the_version_is_the_package_s(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert penstock.__version__ == version("penstock")
    said = CommandLine(monkeypatch, capsys)("--version")
    assert (said.code, said.out, said.err) == (0, f"penstock {identity()}\n", "")
    assert identity().startswith(penstock.__version__)


@pytest.fixture(scope="module")
def results() -> tuple[object, ...]:
    """What each function of the public API returns."""
    target = "host"  # needs no simulated core
    return (
        penstock.compile("zoo:resnet8"),
        penstock.compile("zoo:lenet5", accelerators=("nvdla",)),
        penstock.explore("zoo:lenet5"),
        penstock.run("zoo:lenet5", target),
        penstock.verify("zoo:lenet5", target),
        api.request("zoo:lenet5", accelerators=("dot4",)),
    )


def records(value: object, depth: int) -> Iterator[object]:
    """A value and the records that it holds, down to a depth."""
    yield value
    if depth and dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            some = inner[:3] if isinstance(inner, tuple) else (inner,)
            for each in some:
                if dataclasses.is_dataclass(each):
                    yield from records(each, depth - 1)


def test_the_repr_of_a_result_and_of_what_it_holds_is_short(results: tuple[object, ...]) -> None:
    long = {
        type(record).__name__: len(repr(record))
        for result in results
        for record in records(result, 3)
        if len(repr(record)) > MOST_LETTERS
    }
    assert long == {}


def test_the_repr_of_a_result_says_its_figures(results: tuple[object, ...]) -> None:
    compiled, _, explored, ran, verified, _ = results
    assert isinstance(compiled, penstock.Compiled)
    assert f"RAM {compiled.report.ram_bytes.total:,} bytes" in repr(compiled)
    assert repr(explored).startswith("Explored(lenet5 for cortex-m4: ")
    assert repr(ran).startswith("Ran(1 inferences, lenet5 for ")
    assert "machine: 0 mismatches" in repr(verified)


def test_options_show_what_differs_from_the_defaults() -> None:
    assert repr(penstock.Options()) == "Options()"
    assert repr(penstock.Options(max_stripe=4)) == "Options(max_stripe=4)"


class Frames(HTMLParser):
    """The page inside of each frame."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.pages: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe"
        self.pages.append(dict(attrs)["srcdoc"] or "")


def test_notebooks_show_the_page_of_a_result(results: tuple[object, ...]) -> None:
    compiled, _, explored, ran, verified, _ = results
    assert isinstance(compiled, penstock.Compiled)
    assert isinstance(explored, penstock.Explored)
    assert isinstance(ran, penstock.Ran)
    assert isinstance(verified, penstock.Verified)
    page = dict(compiled.bundle().files)["report.html"].decode()
    assert Frames(compiled._repr_html_()).pages == [page]
    page = dict(explored.bundle().files)["frontier.html"].decode()
    assert Frames(explored._repr_html_()).pages == [page]
    assert Frames(ran._repr_html_()).pages == [dict(ran.bundle().files)["profile.html"].decode()]
    assert "checked: machine" in Frames(verified._repr_html_()).pages[0]


def test_the_help_of_the_package_begins_with_its_functions() -> None:
    description = str(penstock.__doc__)
    functions = [n for n in penstock.__all__ if inspect.isfunction(getattr(penstock, n))]
    rows = re.findall(r"^    (\w+)  +\S", description, re.MULTILINE)
    assert sorted(rows) == functions
    assert [n for n in penstock.__all__ if not n.endswith("Error") and n not in description] == []


def test_the_help_of_functions_lists_values() -> None:
    assert all(f'"{name}"' in str(penstock.show.__doc__) for name in STAGE_NAMES)
    assert all(f'"{name}"' in str(penstock.verify.__doc__) for name in LAST_RUNGS)
    for name in penstock.__all__:
        text = str(getattr(penstock, name).__doc__)
        assert re.search(r"`[A-Z]+_[A-Z_]+`", text) is None, name
