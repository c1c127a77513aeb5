"""MemoryAssignment: the regions of tensors by name, by alias, as operands and as numbers."""

from __future__ import annotations

from penstock.backends.processor_parts import assign
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.parts import Parts

EVERYTHING_IN_SRAM = MemoryAssignment("sram", "flash")


def parts() -> Parts:
    """A convolution, a view of its output, and a dense layer that reads the view."""
    net = GraphBuilder("net")
    x = net.input((1, 4, 4, 2))
    features = net.conv2d(x, 3, 3, name="features")
    view = net.reshape(features, (1, 48), name="view")
    return assign(net.build(net.fully_connected(view, 5, name="scores")), load_target("host"))


def test_tensors_are_in_the_default_region_unless_listed() -> None:
    found = EVERYTHING_IN_SRAM.extended([("b", "dram"), ("a", "dram"), ("c", "sram")])
    assert found.exceptions == (("a", "dram"), ("b", "dram"))
    assert [found.region(tensor) for tensor in "abcd"] == ["dram", "dram", "sram", "sram"]


def test_restriction_returns_tensors_to_the_default_region() -> None:
    found = MemoryAssignment("sram", "flash", (("a", "dram"), ("b", "tcm")))
    kept = found.restricted(lambda tensor: tensor != "a")
    assert (kept.region("a"), kept.region("b")) == ("sram", "tcm")


def test_an_alias_is_in_the_region_of_its_storage() -> None:
    net = parts()
    convolution, dense = net.parts
    found = EVERYTHING_IN_SRAM.extended([("features", "dram")])
    assert found.for_part(dense, net.owners).exceptions == (("view", "dram"),)
    assert found.for_part(convolution, net.owners).exceptions == (("features", "dram"),)
    assert EVERYTHING_IN_SRAM.for_part(dense, net.owners) == EVERYTHING_IN_SRAM


def test_operands_in_the_default_region_and_constants_have_no_name() -> None:
    _, dense = parts().parts
    assert EVERYTHING_IN_SRAM.operand_regions(dense) == ()
    found = EVERYTHING_IN_SRAM.extended([("view", "dram")])
    assert found.operand_regions(dense) == ("dram", "", "", "")  # x, weights, bias; y
    found = EVERYTHING_IN_SRAM.extended([("scores", "tcm")])
    assert found.operand_regions(dense) == ("", "", "", "tcm")


def test_regions_are_numbered_by_first_appearance() -> None:
    found = MemoryAssignment("sram", "flash", (("a", "dram"), ("b", "tcm"), ("c", "dram")))
    assert found.region_numbers(["x", "c", "b", "a"]).tolist() == [0, 1, 2, 1]
