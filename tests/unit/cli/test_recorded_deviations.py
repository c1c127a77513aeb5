"""`verify --goldens`: nodes on which the runtime that recorded the goldens deviates as documented,
and all nodes behind them, are compared with what it recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine, Said
from penstock.ir.tensor import Array
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

pytest.importorskip("tflite_micro")

VERIFY = ("verify", "m.tflite", "-t", "host", "--last-rung", "reference", "--goldens", "g.npz")
NONE = {"fused_activation_function": "NONE"}
POOL = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}


def tensor(name: str, shape: tuple[int, ...], scale: float, zero: int = 0) -> TensorSpec:
    return TensorSpec(name, shape, scales=(scale,), zero_points=(zero,))


def relu6() -> bytes:
    """Not rescaled."""
    tensors = (
        tensor("x", (1, 6, 6, 3), 0.05, 3),
        tensor("sum", (1, 6, 6, 3), 0.08, -7),
        tensor("odd", (1, 6, 6, 3), 6 / 255, -128),
        tensor("y", (1, 5, 5, 3), 6 / 255, -128),
    )
    operators = (
        OperatorSpec("ADD", (0, 0), (1,), NONE),
        OperatorSpec("RELU6", (1,), (2,)),
        OperatorSpec("MAX_POOL_2D", (2,), (3,), {**POOL, **NONE}),
    )
    return write_tflite(tensors, operators, (0,), (3,))


def clamped_integers() -> bytes:
    """Not clamped."""
    tensors = tuple(TensorSpec(name, (1, 12), "int32") for name in ("x", "z", "odd", "y"))
    operators = (
        OperatorSpec("SUB", (0, 1), (2,), {"fused_activation_function": "RELU6"}),
        OperatorSpec("ADD", (2, 1), (3,), NONE),
    )
    return write_tflite(tensors, operators, (0, 1), (3,))


def space_to_batch() -> bytes:
    """With an undefined padding, behind which all is undefined that was not recorded."""
    tensors = (
        tensor("x", (1, 3, 4, 2), 0.1, 7),
        TensorSpec("blocks", (2,), "int32", data=np.array([2, 2], np.int32)),
        TensorSpec("pads", (2, 2), "int32", data=np.array([[1, 0], [0, 2]], np.int32)),
        tensor("odd", (4, 2, 3, 2), 0.1, 7),
        tensor("y", (4, 2, 3, 2), 0.2, -3),
    )
    operators = (
        OperatorSpec("SPACE_TO_BATCH_ND", (0, 1, 2), (3,)),
        OperatorSpec("ADD", (3, 3), (4,), NONE),
    )
    return write_tflite(tensors, operators, (0,), (4,))


def pool() -> bytes:
    """Clamped to undefined bounds."""
    tensors = tuple(tensor(n, (1, k, k, 2), 1e-9) for n, k in (("x", 6), ("odd", 5), ("y", 5)))
    operators = (
        OperatorSpec("MAX_POOL_2D", (0,), (1,), {**POOL, "fused_activation_function": "RELU6"}),
        OperatorSpec("ADD", (1, 1), (2,), NONE),
    )
    return write_tflite(tensors, operators, (0,), (2,))


def cast() -> bytes:
    """Real numbers of which many leave int32."""
    tensors = (
        tensor("x", (1, 40), 4e7, 5),
        TensorSpec("real", (1, 40), "float32"),
        TensorSpec("odd", (1, 40), "int32"),
        TensorSpec("y", (1, 40), "int32"),
    )
    operators = (
        OperatorSpec("DEQUANTIZE", (0,), (1,)),
        OperatorSpec("CAST", (1,), (2,)),
        OperatorSpec("ADD", (2, 2), (3,), NONE),
    )
    return write_tflite(tensors, operators, (0,), (3,))


def depthwise() -> bytes:
    """Not computed, because `depth_multiplier` is 0."""
    weights = np.arange(54, dtype=np.int8).reshape(1, 3, 3, 6)
    tensors = (
        tensor("x", (1, 4, 4, 3), 0.1),
        TensorSpec("w", weights.shape, scales=(0.01,), zero_points=(0,), data=weights),
        TensorSpec("bias", (6,), "int32", (0.001,), (0,), data=np.arange(6, dtype=np.int32)),
        tensor("odd", (1, 4, 4, 6), 0.5, 3),
        tensor("y", (1, 4, 4, 6), 0.5, -3),
    )
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "depth_multiplier": 0, **NONE}
    options |= {"dilation_w_factor": 1, "dilation_h_factor": 1}
    operators = (
        OperatorSpec("DEPTHWISE_CONV_2D", (0, 1, 2), (3,), options),
        OperatorSpec("ADD", (3, 3), (4,), NONE),
    )
    return write_tflite(tensors, operators, (0,), (4,))


def unary(name: str, scale: float, result: float, zero: int = -128) -> bytes:
    """A function of elements, and an addition."""
    tensors = (
        tensor("x", (1, 60), scale, -128),
        tensor("odd", (1, 60), result, zero),
        tensor("y", (1, 60), result, zero),
    )
    operators = (OperatorSpec(name, (0,), (1,)), OperatorSpec("ADD", (1, 1), (2,), NONE))
    return write_tflite(tensors, operators, (0,), (2,))


DEFINED: dict[str, Callable[[], bytes]] = {"relu6": relu6, "clamped integers": clamped_integers}
UNDEFINED: dict[str, Callable[[], bytes]] = {
    "space to batch": space_to_batch,
    "pool": pool,
    "cast": cast,
    "depthwise": depthwise,
    "tanh": lambda: unary("TANH", 2.0**-30, 1 / 128, 0),
    "tanh of a large scale": lambda: unary("TANH", 2.0**36, 1 / 128, 0),
    "elu": lambda: unary("ELU", 1.0, 1e-8),
    "rsqrt": lambda: unary("RSQRT", 1e6, 1e3),
}
EVERY = DEFINED | UNDEFINED


@pytest.fixture
def recorded(penstock: CommandLine) -> Callable[[bytes], dict[str, Array]]:
    """Records goldens of a model; returns their members."""

    def record(raw: bytes) -> dict[str, Array]:
        Path("m.tflite").write_bytes(raw)
        assert penstock("golden", "m.tflite", "-o", "g.npz").code == 0
        with np.load("g.npz") as archive:
            return dict(archive)

    return record


Record = Callable[[bytes], dict[str, Array]]


def verified_with(penstock: CommandLine, members: dict[str, Array], name: str, at: int) -> Said:
    """The result with element `at` of a member altered by one."""
    altered = members[name].copy()
    altered.flat[at] += 1 if altered.flat[at] < 0 else -1
    np.savez("g.npz", allow_pickle=False, **(members | {name: altered}))
    return penstock(*VERIFY)


@pytest.mark.parametrize("network", EVERY.values(), ids=EVERY)
def test_what_the_runtime_recorded_is_explained(
    network: Callable[[], bytes], penstock: CommandLine, recorded: Record
) -> None:
    recorded(network())
    said = penstock(*VERIFY, "--json")
    assert said.code == 0, said.err
    _, reference = said.json["verified"]
    assert reference["tensors"] >= len(("x", "odd", "y", "output"))


@pytest.mark.parametrize("network", DEFINED.values(), ids=DEFINED)
def test_every_set_is_compared_where_the_deviation_is_defined(
    network: Callable[[], bytes], penstock: CommandLine, recorded: Record
) -> None:
    members = recorded(network())
    assert "not compared" not in penstock(*VERIFY).out
    outputs = [name for name in members if name.startswith("out")]
    assert len(outputs) > 1
    for name in outputs:
        assert verified_with(penstock, members, name, 0).code == 1


@pytest.mark.parametrize("network", EVERY.values(), ids=EVERY)
def test_an_altered_output_behind_the_deviation_names_its_node(
    network: Callable[[], bytes], penstock: CommandLine, recorded: Record
) -> None:
    members = recorded(network())
    said = verified_with(penstock, members, "out0_set0", 1)
    assert said.code == 1
    assert '"y"' in said.err


def test_an_altered_element_of_the_deviating_node_names_it(
    penstock: CommandLine, recorded: Record
) -> None:
    """Not its reader: the altered element is not handed on."""
    said = verified_with(penstock, recorded(relu6()), "t2", 5)
    assert said.code == 1
    assert 'm.tflite: node 1 RELU6 "odd"' in said.err
    assert "1 mismatches" in said.err


def test_elements_beside_undefined_ones_are_compared(
    penstock: CommandLine, recorded: Record
) -> None:
    """Padding is the last column of the batch's second half, at the top of its first."""
    members = recorded(space_to_batch())
    odd = members["t3"]
    inner = np.ravel_multi_index((0, 1, 0, 0), odd.shape)
    assert verified_with(penstock, members, "t3", int(inner)).code == 1


def test_paddings_that_differ_are_not_explained(penstock: CommandLine, recorded: Record) -> None:
    members = recorded(space_to_batch())
    corner = np.ravel_multi_index((0, 0, 2, 1), members["t3"].shape)
    assert verified_with(penstock, members, "t3", int(corner)).code == 1


def test_what_is_undefined_and_was_not_recorded_is_counted(
    penstock: CommandLine, recorded: Record
) -> None:
    members = recorded(space_to_batch())
    sets = sum(name.startswith("out") for name in members) - 1
    assert f"2 tensors of {sets} sets are not compared" in penstock(*VERIFY).out


def test_goldens_of_a_runtime_that_does_not_deviate_are_compared(
    penstock: CommandLine, recorded: Record
) -> None:
    """Of TensorFlow, which clamps."""
    members = recorded(clamped_integers())
    for k in range(sum(name.startswith("out") for name in members)):
        x, z = (members[f"in{i}_set{k}"].astype(np.int64) for i in (0, 1))
        clamped = (x - z).astype(np.int32).clip(0, 6)
        members[f"out0_set{k}"] = (clamped + z.astype(np.int64)).astype(np.int32)
        if k == 0:
            members |= {"t2": clamped, "t3": members["out0_set0"]}
    np.savez("g.npz", allow_pickle=False, **members)
    said = penstock(*VERIFY, "--json")
    assert (said.code, said.json["verified"][1]["note"]) == (0, "")
    assert verified_with(penstock, members, "out0_set1", 0).code == 1


def test_a_state_carries_a_deviation_to_the_next_run(
    penstock: CommandLine,
) -> None:
    """Only the first run of the first set is recorded with its tensors."""
    tensors = (
        tensor("x", (1, 4, 4, 2), 0.1, 7),
        tensor("h", (1, 4, 4, 2), 0.1, 7),
        TensorSpec("blocks", (2,), "int32", data=np.array([1, 1], np.int32)),
        TensorSpec("pads", (2, 2), "int32", data=np.array([[1, 0], [0, 1]], np.int32)),
        tensor("part", (1, 3, 3, 2), 0.1, 7),
        tensor("h_new", (1, 4, 4, 2), 0.1, 7),
        tensor("y", (1, 4, 4, 2), 0.1, 7),
    )
    window = {**POOL, **NONE}
    operators = (
        OperatorSpec("MAX_POOL_2D", (0,), (4,), window),
        OperatorSpec("SPACE_TO_BATCH_ND", (4, 2, 3), (5,)),
        OperatorSpec("ADD", (0, 1), (6,), NONE),
    )
    Path("m.tflite").write_bytes(write_tflite(tensors, operators, (0, 1), (5, 6)))
    state = ("--state", "h=h_new")
    assert penstock("golden", "m.tflite", "-o", "g.npz", *state).code == 0
    said = penstock(*VERIFY, *state, "--json")
    assert said.code == 0, said.err
    assert "3 tensors of 39 sets are not compared" in said.json["verified"][1]["note"]
