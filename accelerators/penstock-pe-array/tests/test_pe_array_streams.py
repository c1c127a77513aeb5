"""Command streams of PE arrays: what they contain, and that a wrong register is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from arrays import TINY, accelerator, described, windows
from lowered import inputs_of_graph
from offloading import compiled, layer_by_layer
from penstock import ladder
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.uma import Place, StreamCommand
from penstock_pe_array import model
from penstock_pe_array.hardware import GLOBAL_BUFFER, Hardware
from penstock_pe_array.stream import (
    OPERATIONS,
    REGISTERS,
    WRITE,
    Configure,
    Load,
    Operation,
    decode,
    encode,
    registers_header,
)

FIELDS = [
    (kind, field.name) for kind in OPERATIONS if kind is not Configure for field in fields(kind)
]
SIZES = {name: size // 2 for name, size in TINY.items()}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compilation, ...]:
    """Layers of every sort, in tiles of every axis, and in large tiles."""
    folder = tmp_path_factory.mktemp("array")
    texts = described(banks=1, shared=2048, **SIZES), described()
    return tuple(layer_by_layer(compiled(windows(), accelerator(folder, text))) for text in texts)


def outcome(done: Compilation) -> Mapping[str, Array] | None:
    """The tensors that the functional model computes; None if it refuses the streams."""
    try:
        tensors, _ = ladder.in_machine(done, done.program, inputs_of_graph(done.model, 3))
    except Exception:
        return None
    return tensors


def equal(one: Mapping[str, Array], other: Mapping[str, Array] | None) -> bool:
    return other is not None and all(np.array_equal(one[name], other[name]) for name in one)


def changed(value: int | Place, field: str) -> int | Place:
    """A wrong value of a register."""
    if isinstance(value, Place):
        return replace(value, offset_bytes=value.offset_bytes + 1)
    if "multiplier" in field:
        return value // 2
    return value + {"least": 100, "most": -100, "out_c": -1, "runs": -1}.get(field, 1)


def is_noticed(
    done: Compilation,
    wrong: Callable[[bytes], Iterator[Operation]],
    monkeypatch: pytest.MonkeyPatch,
) -> bool:
    """Whether other streams give another result, or are refused."""
    right = outcome(done)
    assert right is not None
    with monkeypatch.context() as patch:
        patch.setattr(model, "decode", wrong)
        return not equal(right, outcome(done))


@pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=[f"{kind.__name__}.{field}" for kind, field in FIELDS]
)
def test_a_wrong_register_is_noticed(
    kind: type[Any], field: str, networks: Sequence[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(stream: bytes) -> Iterator[Operation]:
        for operation in decode(stream):
            if type(operation) is kind:
                operation = replace(operation, **{field: changed(getattr(operation, field), field)})
            yield operation

    assert any(is_noticed(done, wrong, monkeypatch) for done in networks)


@pytest.mark.parametrize("kind", [kind for kind in OPERATIONS if kind is not Configure])
def test_a_missing_operation_is_noticed(
    kind: type[Any], networks: Sequence[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one of each stream."""

    def fewer(stream: bytes) -> Iterator[Operation]:
        is_first = True
        for operation in decode(stream):
            if type(operation) is kind and is_first:
                is_first = False
            else:
                yield operation

    assert all(is_noticed(done, fewer, monkeypatch) for done in networks)


def test_streams_write_only_what_changes() -> None:
    array = Configure.of(Hardware())
    copy = Load(0, 8, Place(1, 64), 2, 16, 32, 16)
    commands = [StreamCommand("", (), one) for one in (array, copy, copy, replace(copy, local=40))]
    stream = encode(commands)
    assert list(decode(stream)) == [command.record for command in commands]
    writes = len(stream) // WRITE.size
    # Weight-stationary is 0; a load into buffer 0 has six other registers.
    assert writes == (len(fields(Configure)) - 1 + 1) + (6 + 1) + 1 + (1 + 1)


def test_streams_state_which_addresses_are_in_the_global_buffer() -> None:
    copy = Load(1, 8, Place(2, -4, GLOBAL_BUFFER), 2, 16, 32, 16)
    (found,) = decode(encode([StreamCommand("", (), copy)]))
    assert found == copy


def test_the_header_numbers_registers_as_streams_do() -> None:
    names = re.findall(r"PE_([A-Z0-9_]+),", registers_header())
    assert [name.lower() for name in names[: len(REGISTERS)]] == list(REGISTERS)
    assert len(REGISTERS) < 256
