"""Reports in a real browser: seven networks at three widths, and what a reader can do with them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from available import SMALL_VWW
from browser import PROBES, Browser
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.reports.html import render_html
from penstock.reports.layer import TensorRole
from penstock.simulators.calling import ExecutionCounts

WIDTHS = (360, 800, 1440)
MODELS = {
    "kws": ("zoo:tc_resnet8", {}),
    "vww": (SMALL_VWW, {}),
    "mobilenetv2": ("zoo:mobilenet_v2:alpha=0.35,resolution=48", {}),
    "streamed": (SMALL_VWW, {"stream_input": True}),
    "chains": (SMALL_VWW, {"stream_input": True, "optimize": "size"}),
    "ethos_u55": ("zoo:tc_resnet8", {"accelerators": ["ethos_u55"]}),
    "nvdla": ("zoo:tc_resnet8", {"accelerators": ["nvdla"]}),
}
"""A network and settings."""


HOT_LAYERS = "return Array.from(document.querySelectorAll('tr.hot'), (row) => row.dataset.layer)"


@cache
def compiled(name: str) -> api.Compiled:
    target = "cortex-m55" if name == "ethos_u55" else "cortex-m4"
    if name == "ethos_u55":
        pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")
    model, settings = MODELS[name]
    return api.compile(model, target, **settings)


@pytest.fixture
def opened(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> str:
    """Opens the report that the test names; kws by default."""
    name = getattr(request, "param", "kws")
    page = compiled(name)
    path = tmp_path / "report.html"
    path.write_bytes(page.page())
    browser.requests()
    browser.console()
    browser.resize(1440)
    browser.prefer("light")
    browser.open(path)
    return name


def has_no_layout_faults(browser: Browser) -> None:
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(PROBES["overlaps"]) == []
    assert browser.run(PROBES["outside"]) == []


@pytest.mark.parametrize("opened", MODELS, indirect=True)
def test_a_report_loads_nothing_and_fits_at_every_width(
    opened: str, browser: Browser, tmp_path: Path
) -> None:
    for width in WIDTHS:
        browser.resize(width)
        has_no_layout_faults(browser)
        # pytest keeps the folders of its last three runs, so that one can look at the pictures.
        picture = browser.screenshot(tmp_path / f"{opened}-{width}.png")
        assert len(picture) > 15_000  # an empty page has fewer
        # The best columns of the table of layers are in sight without scrolling.
        box, heads = browser.find("#layers .box"), browser.all("#layers thead th")
        right = box.rect["x"] + box.rect["width"]
        assert all(head.rect["x"] + head.rect["width"] <= right + 1 for head in heads[:3])
    requests = browser.requests()
    assert requests
    assert all(address.startswith("file://") for address in requests)
    assert browser.console() == []
    layers = compiled(opened).model_layers
    assert len(browser.all("#layers tbody tr")) == len(layers)
    assert len(browser.all("#graph .row")) == len(layers) + 1
    blocks = sum(len(timeline.spans) for timeline in compiled(opened).timelines)
    assert len(browser.all("path.block")) == blocks
    outputs = {t.size_bytes for one in layers for t in one.tensors if t.role is TensorRole.OUTPUT}
    wholes = browser.texts("#graph .row .bytes .whole")[1:]
    assert {int(re.sub(r"\D", "", text)) for text in wholes} <= outputs
    cascades = {step.cascade for layer in layers for step in layer.steps} - {None}
    assert len(browser.all("#graph .cascade")) == len(cascades)
    bands = {layer.main.bands.total_words for layer in layers if layer.main.bands}
    titles = [one for one in browser.texts("#graph .title.bands") if one != "all columns"]
    assert sorted(titles) == sorted(bands)
    assert len(browser.all("#layers .expander")) == sum(len(one.steps) > 1 for one in layers)
    engines = {layer.engine for layer in layers} - {"caller"}
    assert bool(browser.all("#timeline .span")) == (len(engines) > 1)
    resources = [
        layer for layer in layers if layer.main.breakdown and layer.main.breakdown.by_resource
    ]
    limits = browser.texts("#resources .row:not(.muted) > :nth-child(4)")
    assert [text.rsplit(" ", 1)[0] for text in limits] == [layer.limit for layer in resources]
    assert bool(resources) == (opened in ("ethos_u55", "nvdla"))
    fallbacks = compiled(opened).report.left_to_cpu
    reasons = browser.texts("#engines h3 + .framed tbody tr")
    assert len(reasons) == len(fallbacks)
    assert all(any(node.reason in text for text in reasons) for node in fallbacks)


def test_the_axis_of_cycles_and_the_zoom_keep_labels_apart(opened: str, browser: Browser) -> None:
    before = browser.find("path.curve").get_attribute("d")
    browser.find('#memory button[aria-pressed="false"]').click()
    assert browser.find("path.curve").get_attribute("d") != before
    assert "cycles (estimated)" in browser.texts("#memory .axis text")
    has_no_layout_faults(browser)
    whole = browser.find("path.curve").get_attribute("d")
    browser.run("document.querySelector('#memory .figure').focus()")
    browser.press("+", "+", "\ue014")  # right arrow
    zoomed = browser.find("path.curve").get_attribute("d")
    assert zoomed != whole
    has_no_layout_faults(browser)
    browser.press("0")
    assert browser.find("path.curve").get_attribute("d") == whole


def test_a_layer_under_the_pointer_is_marked_in_every_view(opened: str, browser: Browser) -> None:
    layers = compiled(opened).model_layers
    index, layer = next(
        (k, one.main)
        for k, one in enumerate(layers)
        if one.main.cascade is not None and k and one.main.reads
    )
    browser.hover(browser.all("#graph .row")[1 + index])
    assert browser.run(HOT_LAYERS) == [str(index)]
    assert len(browser.all("path.block.hot")) >= 1
    assert len(browser.all("#graph .cascade.hot")) == 1
    assert len(browser.all("#memory .strip.hot")) == 1
    assert len(browser.all("#graph .row.warm")) == len([read for read in layer.reads if read >= 0])
    tip = browser.find("#tip")
    assert tip.is_displayed()
    assert f"step {layer.step}" in tip.text
    browser.hover(browser.find("h1"))
    assert browser.all(".hot, .warm") == []
    assert not tip.is_displayed()


def test_a_block_marks_its_layer(opened: str, browser: Browser) -> None:
    block = browser.run(
        "return [...document.querySelectorAll('path.block')].find((one) => "
        "!one.classList.contains('rows') && one.__data__.layers && one.__data__.kind === 'arena')"
    )
    browser.hover(block)
    assert "live: " in browser.find("#tip").text
    assert len(browser.all("#graph .row.hot")) == 1


def test_a_click_opens_the_panel_of_a_layer_and_a_click_beside_blocks_closes_it(
    opened: str, browser: Browser
) -> None:
    """A finger has no hover: its pointer leaves before the click."""
    options = "{ bubbles: true, clientX: 300, clientY: 300 }"
    click = f"arguments[0].dispatchEvent(new MouseEvent('click', {options}))"
    browser.run(click, browser.all("#graph .row")[3])
    assert browser.find("#detail").is_displayed()
    assert not browser.find("#tip").is_displayed()
    assert browser.run(HOT_LAYERS) == ["2"]
    browser.run(click, browser.find(".plot"))
    assert browser.run(HOT_LAYERS) == []
    assert not browser.find("#detail").is_displayed()
    assert "live in arena" in browser.find("#tip").text


@pytest.mark.parametrize("opened", ["kws", "ethos_u55"], indirect=True)
def test_the_panel_states_the_facts_of_a_layer(opened: str, browser: Browser) -> None:
    layers = compiled(opened).model_layers
    facts = (
        "return Object.fromEntries(Array.from(document.querySelectorAll('#detail dt'), "
        "(name) => [name.textContent, name.nextSibling.textContent]))"
    )
    browser.run("document.querySelector('#layers tbody tr').focus()")
    browser.press("\ue007")  # Enter
    for width in WIDTHS:
        browser.resize(width)
        assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    for index, layer in enumerate(layers[:4]):
        shown = browser.run(facts)
        for attribute in layer.attributes:
            assert shown[attribute.name] == attribute.words
        assert shown["kernel"] == ", ".join(layer.kernels)
        assert shown.get("stored in flash", "0 ").startswith(f"{layer.weight_bytes:,} ")
        assert shown["MACs"] == f"{layer.macs:,}"
        assert shown["weights, bias"].startswith(f"{layer.main.constant_bytes:,} bytes")
        assert layer.main.place[:12] in browser.find("#detail .origin").text
        roles = browser.texts("#detail tbody td:nth-child(2)")
        assert roles == [one.role for one in layer.tensors]
        sizes = browser.texts("#detail tbody td:nth-child(5)")
        assert sizes == [f"{one.size_bytes:,}" for one in layer.tensors]
        zeros = browser.texts("#detail tbody td:nth-child(7)")
        assert zeros == [str(one.zero_point) for one in layer.tensors]
        assert browser.run(HOT_LAYERS) == [str(index)]
        browser.press("\ue015")  # down: the panel follows
    browser.find("#detail button[aria-label='previous layer']").click()
    assert f"step {layers[3].step}:" in browser.find("#detail h2").text
    browser.press("\ue00c")  # Escape
    assert not browser.find("#detail").is_displayed()
    assert browser.console() == []


@pytest.mark.parametrize("opened", ["vww"], indirect=True)
def test_lists_are_shown_whole_and_views_select_columns(opened: str, browser: Browser) -> None:
    def hidden(selector: str) -> int:
        script = "const box = document.querySelector(arguments[0]); return box.%s - box.%s"
        return browser.run(script % ("scrollHeight", "clientHeight"), selector)

    assert hidden("#layers .box") <= 0  # 31 rows do not scroll
    assert hidden("#graph .graph") > 0
    button = browser.find("#graph .whole-button")
    assert button.text == f"show all {len(compiled(opened).model_layers)} layers"
    button.click()
    assert hidden("#graph .graph") <= 0
    assert button.text == "show fewer layers"
    shown = "return [...document.querySelectorAll('#layers thead th:not([hidden])')].length"
    cost = browser.run(shown)
    sideways = browser.find("#layers .sideways")
    assert not sideways.is_displayed()  # the default columns fit at 1440 pixels
    views = browser.all("#layers .group button")
    assert [view.text for view in views] == ["cost", "speed", "operator", "memory", "all"]
    views[4].click()
    browser.settle()
    assert browser.run(shown) == len(browser.all("#layers thead th")) > cost
    assert sideways.is_displayed()
    views[2].click()
    heads = [text.replace("\n", " ") for text in browser.texts("#layers thead th:not([hidden])")]
    wanted = {"kernel size", "stride", "padding", "input shape", "weight bytes", "output scale"}
    assert wanted <= set(heads)
    box = browser.find("#layers .box").rect
    browser.run("document.querySelector('#layers .box').scrollLeft = 400")
    assert browser.find("#layers tbody th").rect["x"] <= box["x"] + 2  # the names stay


@pytest.mark.parametrize("opened", ["mobilenetv2"], indirect=True)
def test_the_graph_is_drawn_and_walked(opened: str, browser: Browser) -> None:
    layers = compiled(opened).model_layers
    browser.all("#graph .group button")[1].click()
    assert not browser.find("#graph .layers").is_displayed()
    assert len(browser.all(".layer-box[tabindex]")) == len(layers)
    assert browser.run(PROBES["overlapping_boxes"]) == 0
    joins = [one for one in layers if len(one.main.reads) > 1]
    assert joins  # residual connections, which are lines beside the boxes
    lines = sum(len(one.main.reads) for one in layers)
    assert len(browser.all(".flow .edge")) == lines
    browser.run("document.querySelector('.layer-box[tabindex=\"0\"]').focus()")
    assert browser.run(HOT_LAYERS) == ["0"]
    browser.press("\ue015")  # down: to a layer that reads it
    assert browser.run(HOT_LAYERS) == ["1"]
    browser.press("\ue013")  # up: back
    assert browser.run(HOT_LAYERS) == ["0"]
    assert len(browser.all(".layer-box.hot")) == 1
    browser.press("\ue007")  # Enter: its panel
    assert browser.find("#detail").is_displayed()
    browser.press("\ue00c")
    browser.all("#graph .group button")[0].click()
    browser.run("document.querySelector('#graph .row[data-layer=\"1\"]').focus()")
    browser.press("\ue012")  # left: what it reads
    assert browser.run(HOT_LAYERS) == ["0"]
    browser.press("\ue014")  # right: a reader
    assert browser.run(HOT_LAYERS) == ["1"]
    assert browser.console() == []


@pytest.mark.parametrize("opened", ["chains"], indirect=True)
def test_steps_of_a_layer_are_shown_on_demand(opened: str, browser: Browser) -> None:
    layers = compiled(opened).model_layers
    index, layer = next((k, one) for k, one in enumerate(layers) if len(one.steps) > 2)
    browser.run("document.querySelector('#layers .expander').click()")
    assert not browser.find("#detail").is_displayed()
    parts = browser.texts("#layers tr.part > th")
    assert parts == [one.bands.words for one in layer.steps if one.bands]
    cycles = browser.texts("#layers tr.part > td:nth-child(4)")
    assert cycles == [f"{one.cycles:,}" for one in layer.steps]
    browser.run("document.querySelector('#layers .expander').click()")
    assert browser.all("#layers tr.part") == []
    browser.run(f"document.querySelector('#layers tr[data-layer=\"{index}\"]').click()")
    tables = browser.all("#detail table")
    assert len(tables) == 2
    assert len(browser.all("#detail table[aria-label=Steps] tbody tr")) == len(layer.steps)
    scales = browser.find("#detail details.more")
    assert not scales.find_element("css selector", "div").is_displayed()
    browser.run("arguments[0].open = true", scales)
    listed = scales.find_element("css selector", "div").text.split()
    assert len(listed) in {len(one.channel_scales) for one in layer.tensors}
    assert has_no_wide_page(browser)
    assert browser.console() == []


def has_no_wide_page(browser: Browser) -> bool:
    return browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_profile_shows_what_was_simulated(browser: Browser, tmp_path: Path) -> None:
    done = compiled("kws")
    steps = [
        ExecutionCounts(instructions=10 * k, cycles=1000 * (k + 1)) for k in range(len(done.layers))
    ]
    report = done.report.with_counts(steps)
    counts = [layer.best_cycles for layer in report.model_layers]
    path = tmp_path / "profile.html"
    path.write_bytes(render_html(report))
    browser.console()
    browser.open(path)
    heads = [text.replace("\n", " ") for text in browser.texts("#layers thead th")]
    assert heads[:5] == [
        "layer",
        "step",
        "share of cycles",
        "cycles, simulated",
        "instruc- tions",
    ]
    assert browser.texts("#layers tbody td:nth-child(4)") == [f"{cycles:,}" for cycles in counts]
    total = sum(counts)
    assert browser.texts("#layers tfoot td:nth-child(4)") == [f"{total:,}"]
    last = f"{100 * counts[-1] / total:.1f} %"
    assert browser.texts("#layers tbody td:nth-child(3)")[-1] == last
    assert browser.console() == []


def test_the_table_sorts_and_filters(opened: str, browser: Browser) -> None:
    layers = compiled(opened).model_layers

    def column(heading: str) -> list[str]:
        heads = [text.replace("\n", " ") for text in browser.texts("#layers thead th")]
        return browser.texts(f"#layers tbody tr > :nth-child({heads.index(heading) + 1})")

    order = column("step")
    button = "#layers thead th:nth-child(4) button"
    assert browser.find(button).text == "cycles,\nestimated"
    browser.find(button).click()
    largest_first = sorted((layer.cycles for layer in layers), reverse=True)
    assert column("cycles, estimated") == [f"{cycles:,}" for cycles in largest_first]
    browser.find(button).send_keys("\ue007")  # Enter: the keyboard does the same
    assert column("cycles, estimated") == [f"{cycles:,}" for cycles in reversed(largest_first)]
    head = browser.find("#layers thead th:nth-child(4)")
    assert head.get_attribute("aria-sort") == "ascending"
    browser.find(button).click()
    assert column("step") == order
    kind, limit = layers[0].kind, layers[0].cycles
    box = browser.find("#layers input")
    box.send_keys(kind.upper())
    assert set(column("operator")) == {one.kind for one in layers if kind in one.kind}
    box.clear()
    box.send_keys(f"cycles>={limit} operator={kind}")
    matching = [one for one in layers if one.cycles >= limit and one.kind == kind]
    assert column("step") == [str(one.step) for one in matching]
    assert browser.texts("#layers .count") == [f"{len(matching)} of {len(layers)} rows"]
    total = sum(one.cycles for one in matching)
    assert browser.texts("#layers tfoot td:nth-child(4)") == [f"{total:,}"]
    box.send_keys(" nothing-has-this-name")
    assert column("step") == []


def test_the_keyboard_moves_through_the_layers_and_keeps_one(opened: str, browser: Browser) -> None:
    browser.run("document.querySelector('#layers tbody tr').focus()")
    assert browser.run(HOT_LAYERS) == ["0"]
    browser.press("\ue015", "\ue015")  # down
    assert browser.run(HOT_LAYERS) == ["2"]
    browser.press("\ue007")  # Enter keeps it
    browser.hover(browser.find("h1"))
    browser.run("document.activeElement.blur()")
    assert browser.run(HOT_LAYERS) == ["2"]
    browser.press("\ue00c")  # Escape releases it
    assert browser.run(HOT_LAYERS) == []
    browser.run("document.querySelector('#graph .row[tabindex]').focus()")
    browser.press("\ue015")
    assert browser.run(HOT_LAYERS) == ["1"]
    assert f"step {compiled(opened).model_layers[1].step}" in browser.find("#tip").text
    browser.press("\ue010")  # End
    assert browser.run(HOT_LAYERS) == [str(len(compiled(opened).model_layers) - 1)]


def test_commands_of_points_are_copied_by_click_and_by_key(opened: str, browser: Browser) -> None:
    browser.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )

    def clipboard() -> str:
        script = "navigator.clipboard.readText().then(arguments[0], (e) => arguments[0](String(e)))"
        return browser.driver.execute_async_script(script)

    points = compiled(opened).report.frontier
    assert len(browser.all("#frontier .point")) == len(points) > 1
    for place, point in ((0, points[0]), (len(points) - 1, points[-1])):
        browser.run(f"document.querySelectorAll('#frontier .point')[{place}].focus()")
        assert f"RAM {point.ram_bytes:,} bytes" in browser.find("#tip").text
        browser.press("\ue007")
        browser.settle()
        assert f" --sram {point.ram_bytes} -o " in clipboard()
    browser.find("#frontier tbody tr button.copy").click()
    browser.settle()
    assert f" --sram {points[0].ram_bytes} -o " in clipboard()
    assert "Copied" in browser.find("#status").text
    chosen = browser.texts("#frontier tr.chosen > :first-child")
    selected = next(point for point in points if point.chosen)
    assert chosen == [f"▸ {selected.ram_bytes:,}"]


def test_dark_and_light_follow_the_system_and_the_button(opened: str, browser: Browser) -> None:
    contrast, light = browser.run(PROBES["contrast"])
    assert contrast > 7
    browser.prefer("dark")
    contrast, dark = browser.run(PROBES["contrast"])
    assert contrast > 7
    assert dark < 0.1 < 0.8 < light
    browser.find("#theme").click()
    assert browser.run(PROBES["contrast"])[1] == light
    browser.find("#theme").click()
    assert browser.run(PROBES["contrast"])[1] == dark
    browser.prefer("light")
    assert browser.run(PROBES["contrast"])[1] == dark


@pytest.mark.parametrize("count", [2, 1000])
def test_any_names_and_any_number_of_layers(browser: Browser, tmp_path: Path, count: int) -> None:
    from odd_report import odd_report

    path = tmp_path / "odd.html"
    path.write_bytes(odd_report(count))
    browser.console()
    browser.open(path)
    for width in WIDTHS:
        browser.resize(width)
        has_no_layout_faults(browser)
    assert browser.console() == []
    assert browser.run("return document.querySelectorAll('#page script, #page img').length") == 0
    assert len(browser.all("#layers tbody tr")) == count
    # A layer that is marked in one list is brought into sight in the other.
    browser.run("document.querySelector('#layers tbody tr:last-child').focus()")
    middle = browser.run(
        "const row = document.querySelector('#graph .row.hot').getBoundingClientRect();"
        "const box = document.querySelector('#graph .graph').getBoundingClientRect();"
        "return [row.top - box.top, box.bottom - row.bottom]"
    )
    assert min(middle) > 0
    browser.find("#layers input").send_keys(f"step={count - 1}")
    assert len(browser.all("#layers tbody tr")) == 1


def test_the_ends_of_short_names_are_seen_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    net = GraphBuilder("net")
    y = net.input((1, 8, 8, 4))
    names = [f"activation_{k}" for k in range(1, 4)]
    for name in names:
        y = net.conv2d(y, 4, 3, name=name)
    done = api.compile(net.build(y))
    path = tmp_path / "report.html"
    path.write_bytes(done.page())
    browser.open(path)
    browser.resize(400)
    ends = browser.texts("#layers tbody th .cut > .end")
    assert ends == [name[-4:] for name in names]


def test_an_exploration_and_a_frame_of_a_notebook(browser: Browser, tmp_path: Path) -> None:
    found = api.explore("zoo:lenet5", "cortex-m4")
    path = tmp_path / "frontier.html"
    path.write_bytes(dict(found.bundle().files)["frontier.html"])
    browser.console()
    browser.open(path)
    for width in WIDTHS:
        browser.resize(width)
        has_no_layout_faults(browser)
    points = len(found.choices.choices) + len(found.choices.streamed or ())
    assert len(browser.all("#frontier .point")) == points
    assert len(browser.all("#frontier tbody tr")) == points
    frame = tmp_path / "notebook.html"
    notebook = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    frame.write_text(f"<!DOCTYPE html><title>n</title>{notebook}", "utf-8")
    browser.driver.get(frame.as_uri())
    browser.driver.switch_to.frame(0)
    assert len(browser.all("#frontier .point")) == points
    browser.find("#frontier button.copy").click()
    browser.settle()
    assert "--sram" in browser.find("#status").text
    browser.driver.switch_to.default_content()
    assert browser.console() == []
