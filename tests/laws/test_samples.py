"""Law: every operator has samples in `tests/samples`, so that the other laws have something to run
over; from them `--update-golden` writes what the package states of operators."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.small_tensors import Sample
from found import SAMPLES, every_sample
from penstock.backends import operator_names
from penstock.ir.op import Op
from penstock.ir.tensor import TensorType
from penstock.ops.registry import foreign_names, operator_files, operators


@pytest.mark.parametrize("op", operators().values(), ids=lambda op: op.__name__)
def test_every_operator_has_a_sample(op: type[Op]) -> None:
    assert any(type(sample.op) is op for _, sample in SAMPLES)


def test_every_file_lists_at_least_two_samples() -> None:
    files = Counter(name.rpartition("-")[0] for name, _ in SAMPLES)
    assert set(files) == {file.module.__name__.rpartition(".")[2] for file in operator_files()}
    assert min(files.values()) >= 2


def test_the_package_states_operands_and_names_of_kernels(pytestconfig: pytest.Config) -> None:
    rows: dict[str, dict[str, dict[object, None]]] = {}
    for _, sample in SAMPLES:
        row = rows.setdefault(type(sample.op).__name__, {"operands": {}})
        row["operands"][len(sample.site.inputs)] = None
        if not sample.op.ALIAS:
            kernel = sample.op.kernel(sample.site)
            for key, found in (("parameters", kernel.params), ("tables", kernel.tables)):
                row.setdefault(key, {}).update(dict.fromkeys(name for name, _ in found))
    lines = (
        f"{op} = {{ {', '.join(f'{key} = {json.dumps([*row[key]])}' for key in row)} }}"
        for op, row in sorted(rows.items())
    )
    path = Path(operator_names.__file__).with_name("operator_facts.toml")
    text = "\n".join(("# pytest tests/laws/test_samples.py --update-golden", *lines, ""))
    if pytestconfig.getoption("--update-golden"):
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text


def test_an_operator_without_a_kernel_has_facts() -> None:
    (facts,) = operator_names.operator_facts("Reshape", "an example")
    assert (facts.parameters, facts.tables) == ((), ())


def test_no_two_operators_have_one_name() -> None:
    classes = [op for file in operator_files() for op in file.ops]
    assert len({op.__name__ for op in classes}) == len(classes)
    names = [name for file in operator_files() for op in file.ops for name in op.TFLITE]
    assert sorted(names) == sorted(foreign_names())


@every_sample
def test_a_sample_is_small(sample: Sample) -> None:
    tensors: tuple[TensorType, ...] = (*sample.site.inputs, sample.site.output)
    assert min(t.elements for t in tensors) > 0
    assert max(t.elements for t in tensors) <= 4096
