from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.errors import ModelError, OutputError
from penstock.ir.array_archive import pack_arrays
from penstock.simulators.goldens import (
    Goldens,
    array_crc32,
    golden_bytes,
    goldens_to_members,
    read_goldens,
    write_goldens,
)
from penstock.simulators.tflite_micro import GoldenSet

Array = NDArray[Any]


def row(*values: int) -> Array:
    return np.array([values], np.int8)


def sample() -> Goldens:
    """Two sets of one input and two outputs; TensorFlow Lite Micro differs in the second."""
    tensors = ((0, row(1, 2)), (3, row(-7)), (4, np.array([[70000]], np.int32)))
    return Goldens(
        model="net.tflite",
        runtime="some runtime 1.0",
        set_numbers=(0, 1),
        kinds=("uniform", "real:yes"),
        sets=(
            GoldenSet((row(1, 2),), (row(3), row(4)), tensors),
            GoldenSet((row(5, 6),), (row(7), row(8))),
        ),
        tensor_set=0,
        tensor_crc32=tuple((index, array_crc32(values)) for index, values in tensors),
        tflm_sets=(
            GoldenSet((row(1, 2),), (row(3), row(4))),
            GoldenSet((row(5, 6),), (row(7), row(9))),
        ),
        tflm_tensor_crc32=((0, 1), (3, 2), (4, 3)),
        stateful=True,
        model_crc32=123,
    )


def saved(path: Path, members: dict[str, Array]) -> Path:
    path.write_bytes(pack_arrays(members))
    return path


def refusal(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_goldens(path)
    error = caught.value
    assert error.where == str(path)
    assert error.what
    assert error.why
    assert error.help
    return error


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    write_goldens(sample(), tmp_path / "g.npz")
    again = read_goldens(tmp_path / "g.npz")
    members, expected = goldens_to_members(again), goldens_to_members(sample())
    assert members.keys() == expected.keys()
    for name, values in members.items():
        assert values.dtype == expected[name].dtype
        assert np.array_equal(values, expected[name])
    assert again.tflm_sets[1].outputs[1] == row(9)
    assert again.kinds == ("uniform", "real:yes")
    assert again.stateful


def test_writing_twice_gives_the_same_bytes_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = golden_bytes(sample())
    later = time.struct_time((2033, 5, 18, 3, 33, 20, 2, 138, 0))
    monkeypatch.setattr(time, "localtime", lambda seconds=0: later)
    assert golden_bytes(sample()) == first


def test_numpy_reads_the_archive_without_us(tmp_path: Path) -> None:
    write_goldens(sample(), tmp_path / "g.npz")
    with np.load(tmp_path / "g.npz") as archive:
        meta = json.loads(str(archive["meta"]))
        assert archive["out1_set1"] == row(8)
    assert meta["tensor_crc32_set"] == 0
    assert meta["tensor_crc32"]["3"] == array_crc32(row(-7))


def test_an_archive_of_tensors_only_is_one_set_with_its_number(tmp_path: Path) -> None:
    meta = np.array(json.dumps({"input_set": 5}))
    goldens = read_goldens(saved(tmp_path / "g.npz", {"t12": row(1), "t3": row(2), "meta": meta}))
    assert goldens.set_numbers == (5,)
    assert goldens.tensor_set == 0
    assert goldens.sets[0].inputs == goldens.sets[0].outputs == ()
    assert [index for index, _ in goldens.sets[0].tensors] == [3, 12]


def test_an_archive_that_a_user_saved_without_meta_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", in0_set0=row(1), out0_set0=row(2))
    goldens = read_goldens(tmp_path / "g.npz")
    assert goldens.kinds == ("",)
    assert goldens.tensor_set is None
    assert goldens.sets[0].outputs[0] == row(2)


def test_crcs_may_belong_to_a_later_set_than_the_first(tmp_path: Path) -> None:
    meta = np.array(json.dumps({"tensor_crc32": {"2": 9}, "tensor_crc32_set": 7}))
    members = {"in0_set2": row(1), "out0_set2": row(1), "in0_set7": row(1), "out0_set7": row(1)}
    goldens = read_goldens(saved(tmp_path / "g.npz", {**members, "meta": meta}))
    assert goldens.set_numbers == (2, 7)
    assert goldens.tensor_set == 1
    assert goldens.tensor_crc32 == ((2, 9),)


def test_a_missing_archive_is_an_error_that_says_how_to_make_one(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none.npz")
    assert error.code == "golden-002"
    assert "penstock golden" in error.help


def test_an_archive_cut_off_anywhere_is_called_damaged(tmp_path: Path) -> None:
    whole = golden_bytes(sample())
    for length in range(0, len(whole), 97):
        (tmp_path / "g.npz").write_bytes(whole[:length])
        assert refusal(tmp_path / "g.npz").code == "golden-003"


def test_an_altered_byte_never_ends_in_a_traceback(tmp_path: Path) -> None:
    whole = golden_bytes(sample())
    outcomes: set[str] = set()
    for position in range(0, len(whole), 23):
        altered = bytearray(whole)
        altered[position] ^= 0x55
        (tmp_path / "g.npz").write_bytes(altered)
        try:
            read_goldens(tmp_path / "g.npz")
        except ModelError as error:
            outcomes.add(error.code)
    assert "golden-003" in outcomes


def test_pickled_members_are_refused_and_never_loaded(tmp_path: Path) -> None:
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=True, in0_set0=np.array([{"a": 1}], object))
    (tmp_path / "g.npz").write_bytes(packed.getvalue())
    assert refusal(tmp_path / "g.npz").code == "golden-003"


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({}, "there are no goldens in it"),
        ({"in0_set0": row(1)}, "sets [0] have inputs or outputs, but not both"),
        (
            {"in0_set0": row(1), "in2_set0": row(1), "out0_set0": row(1)},
            'members "in<k>_set0" have a gap',
        ),
        (
            {"in0_set0": row(1), "out0_set0": row(1), "tflm_out0_set3": row(1)},
            'members "tflm_out<k>_set<s>" are of sets [3]',
        ),
    ],
)
def test_members_that_contradict_each_other_are_named(
    tmp_path: Path, members: dict[str, Array], what: str
) -> None:
    error = refusal(saved(tmp_path / "g.npz", members))
    assert (error.code, error.what) == ("golden-004", what)


@pytest.mark.parametrize(
    ("meta", "what"),
    [
        ("{", 'member "meta" is not JSON'),
        ("[1]", 'member "meta" is not a JSON object'),
        ('{"kinds": ["a", "b"]}', 'key "kinds" of "meta" does not name the kind of each set'),
        ('{"tensor_crc32": 4}', 'key "tensor_crc32" of "meta" does not map tensor indices to CRCs'),
        ('{"tensor_crc32": {"1": 2}, "tensor_crc32_set": 1}', "tensors belong to set 1"),
        ('{"model_crc32": "x"}', 'key "model_crc32" of "meta" is no natural number'),
    ],
)
def test_a_wrong_meta_is_named(tmp_path: Path, meta: str, what: str) -> None:
    members = {"in0_set0": row(1), "out0_set0": row(1), "meta": np.array(meta)}
    error = refusal(saved(tmp_path / "g.npz", members))
    assert (error.code, error.what) == ("golden-004", what)


@pytest.mark.parametrize(
    "members",
    [
        {"t0": np.zeros((1, 4), np.int8)},
        {"in0_set0": np.array(3, np.int8), "out0_set0": np.zeros((2, 4), np.int8)},
        {"in0_set0": np.zeros((2, 4), np.int8), "out0_set0": np.zeros((1, 4), np.int8)},
        {"in0_set0": np.zeros((0, 4), np.int8), "out0_set0": np.zeros((0, 4), np.int8)},
        {
            "in0_set0": np.zeros((2, 4), np.int8),
            "out0_set0": np.zeros((2, 4), np.int8),
            "tflm_out0_set0": np.array(3, np.int8),
        },
    ],
)
def test_sets_that_are_no_sequences_are_refused(tmp_path: Path, members: dict[str, Array]) -> None:
    meta = np.array('{"stateful": true}')
    error = refusal(saved(tmp_path / "g.npz", {**members, "meta": meta}))
    assert error.code == "golden-004"
    assert "are no sequences of one length" in error.what


def test_a_folder_that_does_not_exist_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written") as caught:
        write_goldens(sample(), tmp_path / "none" / "g.npz")
    assert caught.value.why == "No such file or directory"


def test_every_shared_archive_is_read_and_written_back_alike(
    shared_models: Path, tmp_path: Path
) -> None:
    folder = shared_models / "goldens"
    archives = [*folder.glob("*.all_tensors.npz"), *folder.glob("ops/rand_op_s*.npz")]
    assert len(archives) > 20
    for path in archives:
        goldens = read_goldens(path)
        write_goldens(goldens, tmp_path / "g.npz")
        with np.load(path) as theirs, np.load(tmp_path / "g.npz") as ours:
            assert set(theirs.files) == set(ours.files)
            for name in set(theirs.files) - {"meta"}:
                assert np.array_equal(theirs[name], ours[name])


def test_where_the_runtimes_differ_both_answers_are_kept(shared_models: Path) -> None:
    goldens = read_goldens(shared_models / "goldens" / "ops" / "rand_op_sum_hw.npz")
    assert not np.array_equal(goldens.sets[0].outputs[0], goldens.tflm_sets[0].outputs[0])
    assert goldens.tensor_crc32 != goldens.tflm_tensor_crc32
    assert goldens.tensor_set == 2


def test_altered_values_are_read_so_that_the_ladder_can_name_their_layer(tmp_path: Path) -> None:
    members = goldens_to_members(sample()) | {"t3": row(-8)}
    found = read_goldens(saved(tmp_path / "g.npz", members))
    assert np.array_equal(dict(found.sets[found.tensor_set or 0].tensors)[3], row(-8))
