"""Seed: TVM PR 13242, convolution schedules for Cortex-M. Measures cycles per output."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

from benchmarks.requantisation import Form, form_of, generic_core, network, pointwise, wide_form
from examples.seeds.page import Absence, absences, figure, heading
from penstock import api

MODEL = "zoo:mobilenet_v1:alpha=0.25,resolution=96,classes=2"
"""A network with the layer shapes of vww, the visual wake words model of MLPerf Tiny."""
TARGET, MHZ = "cortex-m4", 120
OUTPUTS = (8, 64)
KERNELS = {
    "1x1 and general convolution": ("conv2d_s8_dsp", 0),
    "depthwise convolution": ("depthwise_conv2d_s8_dsp", 0),
    "fully connected": ("fully_connected_s8_dsp", 1),
}
"""Kernels whose requantisation is measured, and whether their form corrects the sign."""

INTRODUCTION = """\
PR 13242 rewrites convolution for Cortex-M: kernels with DSP instructions, the input zero point
folded into the bias, requantisation by one high multiply. "New optimized C intrinsic for
convolutions" claims 15 cycles per output of a 1x1 convolution with 4 input channels where generic C
takes 29; "Faster re-quantization algorithm!" claims 8 times fewer cycles and over 5 times fewer
bytes loaded.
All figures below are measured on the simulated Cortex-M4, both sides compiled with the same flags.
The pull request counts only the sums; our figures include requantisation and the store."""


def kernels_are_shared() -> bool:
    """Whether kernels are copied from the runtime and do not depend on the geometry of layers."""
    runtime = files("penstock").joinpath("runtime")
    bundle = api.compile("zoo:lenet5", TARGET).bundle()
    kernels = [Path(name).name for name, _ in bundle.files if name.startswith("kernels/")]
    return bool(kernels) and all(
        runtime.joinpath(name).read_bytes() == bundle[f"kernels/{name}"] for name in kernels
    )


def nothing_is_measured_on_hardware() -> bool:
    """Whether a report contains only estimated and simulated cycles."""
    cycles = api.compile("zoo:lenet5", TARGET).report.cycles
    return {field.name for field in fields(cycles)} == {"estimated", "simulated"}


ABSENT = (
    Absence("Kernels generated per layer geometry: kernels are handwritten and shared.",
            kernels_are_shared),
    Absence("Measurements on a board: cycles are those of a simulated core without wait states.",
            nothing_is_measured_on_hardware),
)  # fmt: skip


def main() -> None:
    print(INTRODUCTION)
    with tempfile.TemporaryDirectory() as folder:
        generic = generic_core("zig", Path(folder))
        points = [pointwise(generic, outputs, "zig") for outputs in OUTPUTS]
        wide = wide_form(generic)
    heading("1x1 convolution of 4 input channels, cycles per output")
    figure("generic C, sums only", 29, points[0].generic, digits=1)
    for point in points:
        figure(f"optimised, {point.outputs} output channels", 15, point.ours, digits=1)
    core = network(MODEL, "zig").core
    print_requantisation(wide, {name: form_of(core, key) for name, key in KERNELS.items()})
    print_network()
    absences(ABSENT)


def print_requantisation(wide: Form, forms: dict[str, Form]) -> None:
    """Print the improvement of each kernel's requantisation over the one with five constants."""
    print(f"\nRequantisation by five constants: {wide.cycles:.1f} cycles, ", end="")
    print(f"{wide.loaded_bytes:.0f} bytes loaded per output, {len(wide.wide)} 64-bit instructions")
    heading("times fewer than that")
    for name, form in forms.items():
        figure(f"cycles, {name}", 8, wide.cycles / form.cycles, digits=1)
        figure(f"bytes, {name}", 5, wide.loaded_bytes / form.loaded_bytes, digits=1)


def print_network() -> None:
    """Run the network on the simulated core, and compare every tensor."""
    ran = api.run(MODEL, TARGET)
    cycles = ran.report.cycles.simulated or 0
    heading(f"{MODEL}, one inference")
    figure("ms at 120 MHz; PR 13752: vww on a board, of TVM", 137, cycles / MHZ / 1000, digits=1)
    print("  (TVM removes the all-zero channels of vww; the random weights here have none)")
    for kind in sorted({layer.kind for layer in ran.compiled.layers}):
        chosen = [layer.step for layer in ran.compiled.layers if layer.kind == kind]
        counts = [ran.steps[k] for k in chosen if k is not None]
        share = sum(count.cycles for count in counts if count is not None) / cycles
        print(f"  {kind:18} {len(chosen):2} layers  {share:6.1%} of the cycles")
    print('"TFLite-ground-truth" compares 27 convolutions within one step; penstock, exactly:')
    for rung in api.verify(MODEL, TARGET).rungs:
        found = rung.compared
        print(f"  {rung.step:8} {found.elements:,} elements of {found.tensors} tensors, "
              f"{found.mismatches} mismatches")  # fmt: skip


if __name__ == "__main__":
    main()
