"""Capacity errors state the least memory over all unset attributes, and that memory suffices."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import pytest

import penstock
from penstock import api
from penstock.hardware.load import load_target
from penstock.scheduling.options import Options
from penstock.uma import UMABackend

HELP = re.compile(r"with --accelerator (\S+) (?:use at least --sram )?(\d+)")
NEEDS = re.compile(r"needs (\d+) bytes")
MODEL = "zoo:tc_resnet8:frames=41"
"""Some of its tensors have 24 channels, which are no whole channel blocks of 16."""
MODES = ("memory_mode=shared_sram", "memory_mode=sram_only")
LAYOUTS = ("layout=nhcwb16", "layout=nhwc")


@cache
def least(accelerator: str, options: Options) -> int:
    """The least RAM by the frontier, which the message about a budget does not use."""
    found = api.explore(MODEL, accelerators=(accelerator,), options=options, stream_input=False)
    return found.choices.choices[0].ram_bytes


@pytest.mark.parametrize(
    ("macs", "given"),
    [
        (64, ""),
        (64, LAYOUTS[0]),
        pytest.param(64, MODES[0], marks=pytest.mark.long),
        pytest.param(128, "", marks=pytest.mark.long),
    ],
)
def test_the_least_reachable_is_the_least_of_every_open_attribute(macs: int, given: str) -> None:
    pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")
    npu = f"ethos_u55:macs={macs}"
    own = ",".join((npu, *((given,) if given else ())))
    options = Options(max_stripe=2)
    choices = [(given,) if given in values else values for values in (MODES, LAYOUTS)]
    every = [least(",".join((npu, *found)), options) for found in product(*choices)]
    with pytest.raises(penstock.CapacityError) as caught:
        api.compile(MODEL, sram=1100, accelerators=(own,), options=options)
    needed = NEEDS.search(str(caught.value))
    assert needed is not None
    named = {text: int(size) for text, size in HELP.findall(str(caught.value))}
    assert min((int(needed[1]), *named.values())) == min(every)
    for text, size in named.items():
        assert size < int(needed[1])
        done = api.compile(MODEL, sram=size, accelerators=(text,), options=options)
        assert done.report.ram_bytes.total == size


@pytest.mark.parametrize(
    ("options", "words"),
    [(Options(keep_input=True), "without --keep-input"), (Options(max_parts=1), "--max-parts")],
    ids=str,
)
def test_capacity_errors_state_the_ram_needed_without_a_user_s_option(
    options: Options, words: str
) -> None:
    with pytest.raises(penstock.CapacityError) as caught:
        api.compile("zoo:resnet8", sram=1100, options=options)
    found = re.search(rf"{words}\D*(\d+)", str(caught.value))
    assert found is not None
    done = api.compile("zoo:resnet8", sram=int(found[1]))
    assert done.report.ram_bytes.total == int(found[1])


def test_a_layout_that_does_not_exist_is_refused() -> None:
    with pytest.raises(penstock.UsageError, match="nhwcb16"):
        api.compile("zoo:lenet5", accelerators=("ethos_u55:layout=nhwcb16",))


class Npu(UMABackend):
    """An accelerator with attributes of which some have choices."""

    target_name = "npu"

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("lanes", default=8)
        self._register_target_attr("packs", default=True, choices={True: "", False: "unpacked"})
        self._register_target_attr("mode", default="a", choices={"a": "", "b": "", "c": "slow"})


def test_choices_are_all_combinations_of_unset_attributes() -> None:
    chip = load_target("host")
    found = Npu().accelerator({"lanes": "16"}, chip).open_choices
    assert [(choice.text, choice.note) for choice in found] == [
        ("npu:lanes=16,mode=b", ""),
        ("npu:lanes=16,mode=c", "slow"),
        ("npu:lanes=16,packs=False", "unpacked"),
        ("npu:lanes=16,packs=False,mode=b", "unpacked"),
        ("npu:lanes=16,packs=False,mode=c", "unpacked, slow"),
    ]
    attrs = found[-1].make().target.attrs
    assert attrs == {"lanes": 16, "packs": False, "mode": "c"}
    closed = Npu().accelerator({"packs": "true", "mode": "a"}, chip)
    assert closed.open_choices == ()
