"""What commands import: help texts load no numerical library, and `import penstock` loads none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.pipeline.stages import STAGE_NAMES, STAGES
from penstock.scheduling.grouping.inside import ORDERS_INSIDE
from penstock.scheduling.grouping.strategies import ORDERS, STRATEGIES
from penstock.scheduling.options import INNER_ORDER_NAMES, ORDER_NAMES, STRATEGY_NAMES

HEAVY = (
    "numpy", "numba", "ortools", "onnx", "matplotlib", "pydantic", "rich", "jinja2", "rustworkx",
    "tflite", "flatbuffers", "cloudpickle", "multiprocessing",
)  # fmt: skip

LOADED = """
import sys
import penstock
if sys.argv[1:]:
    from penstock.cli import main
    try:
        main()
    except SystemExit as end:
        assert not end.code, end
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [(), ("--help",), ("compile", "--help"), ("verify", "--help"), ("--version",)],
    ids=" ".join,
)
def test_help_loads_no_library_of_the_compiler(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        (sys.executable, "-c", LOADED, *words),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "penstock" in loaded
    parses_options = words[:1] in (("compile",), ("verify",))
    # Typer itself validates the options of a command with pydantic.
    assert loaded & set(HEAVY) - ({"pydantic"} if parses_options else set()) == set()


def test_a_compilation_loads_no_library_of_networks() -> None:
    loaded = "import sys, penstock.api.compiling; print(*sys.modules)"
    done = subprocess.run(
        (sys.executable, "-c", loaded), capture_output=True, text=True, check=True, timeout=60
    )
    modules = done.stdout.split()
    assert "penstock.workers" in modules
    assert {"asyncio", "http", "ssl"}.isdisjoint(modules)


def test_names_for_help_texts_are_those_of_the_tables() -> None:
    assert tuple(stage.name for stage in STAGES) == STAGE_NAMES
    assert tuple(ORDERS) == ORDER_NAMES
    assert tuple(ORDERS_INSIDE) == INNER_ORDER_NAMES
    assert tuple(STRATEGIES) == STRATEGY_NAMES
