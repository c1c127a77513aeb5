"""The memory figure: every buffer once, the true peak, reproducible, safe with any name."""

import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from small_compilation import of_steps, span

from penstock.program.program import Kind
from penstock.reports.block_label import PlotScale, Rectangle, block_label
from penstock.reports.memory_figure import SPANS_ID, memory_figure
from penstock.reports.memory_picture import memory_png, memory_svg
from penstock.reports.paint import INK, PAINTS
from penstock.reports.time_axis import TimeAxis
from penstock.reports.timeline import LivePiece, MemorySpan, Stretch, Timeline

SVG = "{http://www.w3.org/2000/svg}"
ODD_NAMES = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'quoted'",
    "$x^2$ \\alpha",
    "名前/слой/😀",
    "bell\x07 escape\x1b[31m nul\x00 surrogate\udc80",
    "long/" * 60,
    "",
    "/",
)


def chain(steps: int) -> Timeline:
    """Tensors of layers that each read the one before."""
    spans = tuple(
        span(f"net/layer_{k}/Relu", "arena", (k % 2) * 4096, (k % 2) * 4096 + 4000, k - 1, k)
        for k in range(steps + 1)
    )
    return of_steps(spans, steps)


def titles(svg: str) -> list[str]:
    """What a pointer on each block shows, in the blocks' order."""
    group = next(g for g in ElementTree.fromstring(svg).iter(f"{SVG}g") if g.get("id") == SPANS_ID)
    paths = group.findall(f"{SVG}path")
    return [path.findtext(f"{SVG}title", "") for path in paths]


def words(svg: str) -> list[str]:
    """Every text of the picture."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("steps", [1, 3, 70, 700])
def test_every_span_is_drawn_once_whatever_the_number_of_steps(steps: int) -> None:
    timeline = chain(steps)
    found = titles(memory_svg(timeline))
    assert [title.split(":")[0] for title in found] == [span.name for span in timeline.spans]


def test_a_block_is_as_wide_as_its_steps_and_as_high_as_its_bytes() -> None:
    spans = (span("a", "arena", 0, 100, -1, 0), span("b", "arena", 100, 400, 0, 1))
    (axes,) = memory_figure(of_steps(spans, 1)).axes
    (blocks,) = axes.collections
    boxes = [path.get_extents() for path in blocks.get_paths()]
    assert [tuple(box.extents) for box in boxes] == [(-1, 0, 1, 100), (0, 100, 2, 400)]


def test_a_title_says_name_bytes_addresses_steps_and_kind() -> None:
    spans = (span("net/x;net/bias", "io", 4096, 6144, -1, 0), span("y", "scratch", 0, 16, 0, 1))
    assert titles(memory_svg(of_steps(spans, 1))) == [
        "net/x: 2,048 bytes [4,096, 6,144), before the run to step 0, input, output",
        "y: 16 bytes [0, 16), step 0 to after the run, scratch",
    ]


def test_every_kind_of_buffer_in_ram_has_its_own_colours() -> None:
    assert set(PAINTS) == {kind.value for kind in Kind}
    assert len({paint.face for paint in PAINTS.values()}) == len(PAINTS)


def test_kinds_of_buffers_differ_in_lightness_and_carry_dark_text() -> None:
    """Lightness L* by CIE 1976, contrast by WCAG 2.1, where 4.5 is asked of small text."""
    faces = sorted(116 * luminance(paint.face) ** (1 / 3) - 16 for paint in PAINTS.values())
    assert min(b - a for a, b in pairwise(faces)) > 5
    for paint in PAINTS.values():
        assert (luminance(paint.face) + 0.05) / (luminance(INK) + 0.05) > 4.5


def luminance(color: str) -> float:
    """Relative luminance of an sRGB colour."""
    shares = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_live_bytes_do_not_count_holes() -> None:
    spans = (
        span("low", "arena", 0, 100, -1, 0),
        span("later", "arena", 0, 80, 1, 1),
        span("above a hole", "arena", 200, 300, 0, 0),
    )
    found = of_steps(spans, 1)
    assert found.live_bytes.tolist() == [100, 200, 80]
    assert (found.peak_bytes, found.peak_tick, found.height_bytes) == (200, 1, 300)


def test_calls_of_a_cascade_share_its_columns_and_whole_layers_have_one() -> None:
    piece = LivePiece(0, 8, 0, 7)
    stretches = (Stretch(2, 4, (0, 1), 0), Stretch(1, 1, (2, 2), None))
    axis = TimeAxis(Timeline((MemorySpan("a", "arena", (piece,)),), stretches))
    assert axis.places.tolist() == [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]
    assert axis.bounds == (0.0, 2.0, 3.0)
    assert axis.middles == (0.5, 1.5, 2.5)
    assert axis.interval(LivePiece(0, 8, 2, 5)) == (0.5, 2.0)


def test_cascades_take_half_of_the_picture_where_they_are_few_but_not_more_than_fourfold() -> None:
    def columns(whole: int) -> tuple[float, ...]:
        single = tuple(Stretch(1, 1, (k, k), None) for k in range(whole))
        return TimeAxis(Timeline((), (Stretch(2, 9, (whole, whole + 1), 0), *single))).widths

    assert columns(1)[0] == 2.0
    assert columns(6) == (6.0,) + (1.0,) * 6
    assert columns(100)[0] == 8.0


def test_rows_of_a_tensor_are_one_area_with_one_title() -> None:
    rows = tuple(LivePiece(64 * (k % 3), 64 * (k % 3) + 64, k + 1, k + 3) for k in range(12))
    cascade = Timeline((MemorySpan("net/x", "arena", rows),), (Stretch(2, 13, (4, 5), 0),))
    svg = memory_svg(cascade)
    assert titles(svg) == [
        "net/x, row by row: at most 128 bytes at a time, in [0, 192), steps 4–5 (call 1 of 13) to "
        "steps 4–5 (call 13 of 13), activations"
    ]
    assert "cascade 0: 13 calls" in words(svg)
    assert "peak 128 bytes, steps 4–5 (call 2 of 13); arena 192 bytes" in words(svg)


def test_the_peak_is_marked_with_its_bytes_its_step_and_the_arena_where_it_is_higher() -> None:
    spans = (span("a", "arena", 0, 1000, 0, 1), span("b", "arena", 3000, 5000, 1, 2))
    assert "peak 3,000 bytes, step 1; arena 5,000 bytes" in words(memory_svg(of_steps(spans, 3)))
    whole = (span("a", "arena", 0, 1000, 0, 1), span("b", "arena", 1000, 3000, 1, 2))
    assert "peak 3,000 bytes, step 1" in words(memory_svg(of_steps(whole, 3)))


@pytest.mark.parametrize(
    ("first", "last", "where"), [(-1, -1, "before the run"), (2, 2, "after the run")]
)
def test_a_peak_outside_the_run_is_called_so(first: int, last: int, where: str) -> None:
    spans = (span("a", "io", 0, 64, first, last), span("b", "arena", 0, 8, 0, 1))
    assert f"peak 64 bytes, {where}" in words(memory_svg(of_steps(spans, 2)))


def test_a_near_budget_is_a_line_and_a_far_one_only_words() -> None:
    timeline = chain(3)
    assert "budget 9,000 bytes" in words(memory_svg(timeline, 9000))
    assert "budget 900,000 bytes, above this figure" in words(memory_svg(timeline, 900000))
    assert not any("budget" in text for text in words(memory_svg(timeline)))


def test_large_blocks_carry_short_names_and_seven_hundred_steps_none() -> None:
    assert {"layer_1", "layer_2"} <= set(words(memory_svg(chain(3))))
    assert not any("layer" in text for text in words(memory_svg(chain(700))))


def test_a_label_never_leaves_its_block_and_avoids_the_curve_where_it_can() -> None:
    block = Rectangle(0, 2, 0, 1000)
    use = TimeAxis(of_steps((span("half", "arena", 0, 500, 2, 2),), 3))
    scale = PlotScale(column_points=60, byte_points=0.1)
    label = block_label(block, "name", "1,000", scale, use)
    assert label is not None
    half_x, half_y = label.width / 2 / 60, label.height / 2 / 0.1
    assert label.clear
    assert block.left <= label.x - half_x < label.x + half_x <= block.right
    assert block.lower <= label.y - half_y < label.y + half_y <= block.upper
    crossing = TimeAxis(of_steps((span("other", "arena", 0, 500, 0, 1),), 3))
    moved = block_label(block, "name", "1,000", scale, crossing)
    assert moved is not None
    assert moved.clear
    assert abs(moved.y - 500) > moved.height / 2 / 0.1


def test_a_block_too_small_for_any_word_has_none() -> None:
    use = TimeAxis(of_steps((), 3))
    assert block_label(Rectangle(0, 1, 0, 10), "name", "10", PlotScale(5, 0.1), use) is None


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_leave_the_picture_well_formed(name: str) -> None:
    svg = memory_svg(of_steps((span(name, "arena", 0, 8192, 0, 1),), 3))
    assert len(titles(svg)) == 1
    assert "<script" not in svg
    svg.encode()


def test_a_dollar_in_a_name_is_a_dollar() -> None:
    assert "$x^2$" in words(memory_svg(of_steps((span("$x^2$", "arena", 0, 8192, 0, 1),), 3)))


def test_an_arena_without_buffers_and_a_run_without_steps_still_have_a_picture() -> None:
    assert "peak 0 bytes, before the run" in words(memory_svg(of_steps((), 2)))
    assert len(titles(memory_svg(of_steps((span("x", "io", 0, 8, -1, 0),), 0)))) == 1


def test_the_picture_ignores_the_settings_of_the_user() -> None:
    import matplotlib

    expected = memory_svg(chain(3))
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.facecolor": "red"}):
        assert memory_svg(chain(3)) == expected


def test_the_png_is_a_png_of_the_same_bytes_twice() -> None:
    png = memory_png(chain(3))
    assert png.startswith(b"\x89PNG")
    assert png == memory_png(chain(3))


def test_matplotlib_and_jinja_are_imported_only_when_something_is_drawn() -> None:
    program = (
        "import sys, penstock.reports.html, penstock.reports.memory_picture\n"
        "print(sorted({'matplotlib', 'jinja2'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
