"""Rows of storages: those of an alias or of an in-place partner, if nothing accesses their own."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.backends.processor_parts import assign
from penstock.hardware.load import load_target
from texts.graph_reader import graph_from_text


def rows_of(text: str, *, stream_input: bool = False) -> Mapping[str, tuple[int, int]]:
    """By the name of a storage: number of rows, and bytes of each."""
    parts = assign(graph_from_text(text), load_target("host"), stream_input=stream_input)
    return {one.name: (one.rows, one.row_bytes) for one in parts.rows.storages}


def in_place(text: str) -> list[bool]:
    """Whether each part overwrites its first input."""
    parts = assign(graph_from_text(text), load_target("host"))
    return [part.reads[0].in_place for part in parts.rows.row_parts]


VIEWED = """
graph g
input x: int8[1,1,8,4] scale 0.5
view: int8[1,8,1,4] scale 0.5 = Reshape(x, shape=(1, 8, 1, 4))
y: int8[1,8,1,4] scale 0.5 = Softmax(view)
output y
"""


def test_an_input_has_the_rows_of_the_view_that_is_read() -> None:
    assert rows_of(VIEWED) == {"x": (8, 4), "y": (8, 4)}


def test_a_streamed_input_has_the_rows_that_the_caller_supplies() -> None:
    assert rows_of(VIEWED, stream_input=True)["x"] == (1, 32)


def test_rows_that_a_kernel_accesses_itself_are_kept() -> None:
    both = VIEWED.replace("[1,1,8,4]", "[1,2,4,4]").replace(
        "output y", "z: int8[1,2,4,4] scale 0.5 = Softmax(x)\noutput y, z"
    )
    assert rows_of(both)["x"] == (2, 16)


def test_a_single_row_is_divided_though_a_kernel_reads_it() -> None:
    both = VIEWED.replace("output y", "z: int8[1,1,8,4] scale 0.5 = Softmax(x)\noutput y, z")
    assert rows_of(both)["x"] == (8, 4)


EXCHANGED = """
graph g
input x: int8[1,2,8,4] scale 0.5
wide: int8[1,8,2,4] scale 0.5 = ExchangeAxes(x)
rows: int8[1,8,2,4] scale 0.5 = Softmax(wide)
y: int8[1,2,8,4] scale 0.5 = ExchangeAxes(rows)
output y
"""


def test_partners_of_calls_in_place_are_divided_alike() -> None:
    assert rows_of(EXCHANGED) == {name: (8, 8) for name in ("x", "wide", "rows", "y")}
    assert in_place(EXCHANGED) == [True, False, True]


def test_an_exchanged_tensor_that_is_read_by_rows_is_not_overwritten() -> None:
    read = EXCHANGED.replace("output y", "z: int8[1,2,8,4] scale 0.5 = Softmax(x)\noutput y, z")
    assert rows_of(read)["x"] == (2, 32)
    assert in_place(read)[0] is False
