"""Seed: TVM PR 13242, convolution schedules for Cortex-M.  Its figures beside ours of today."""

from __future__ import annotations

from penstock import api

MODEL = "zoo:mobilenet_v1:alpha=0.25,resolution=96,classes=2"
MHZ = 120

CLAIMS = """\
PR 13242, "New optimized C intrinsic": the inner loop of a 1x1 convolution over 4 channels takes
    15 instead of 29 cycles an output; "Faster re-quantization": about 8 times fewer cycles.
PR 13242, "TFLite-ground-truth": each convolution of MLPerf's vww is compared with TFLite
    (facts/tvm-prior-art.md 3.3: 27 layers, one output step of tolerance).
PR 13752, vww on a Cortex-M4 of 120 MHz, on hardware: 1741 -> 137 ms, partly by leaving out
    channels of zeros (same section).
CMSIS-NN, the same vww on our cycle model: 30,454,879 cycles, 253.8 ms (facts/cortex-m.md 2.1)."""

MISSING = """\
Not there yet: kernels for the DSP instructions, or generated per layer; the cheap requantisation
where it is proved exact.  Portable C serves every geometry, and the ratio to CMSIS-NN above is the
room that this leaves.  What is better than the seed: every tensor is compared, not convolutions
only, and the tolerance is nothing."""


def main() -> None:
    print(CLAIMS)
    ran = api.run(MODEL, "cortex-m4")
    cycles, report = ran.report.cycles.simulated or 0, ran.report
    print(f"\npenstock today, {MODEL}, of vww's shape:")
    print(f"    {cycles:,} cycles, {cycles / MHZ / 1000:.1f} ms at {MHZ} MHz (modelled, no waits)")
    print(f"    {report.instructions.simulated:,} instructions, {report.macs.executed:,} products")
    print(f"    {cycles / report.macs.executed:.1f} cycles a product; CMSIS-NN on vww: 4.07")
    for kind in sorted({layer.kind for layer in ran.compiled.layers}):
        chosen = [layer.step for layer in ran.compiled.layers if layer.kind == kind]
        share = sum(ran.steps[k].cycles for k in chosen if k is not None) / cycles
        print(f"    {kind:18} {len(chosen):2} layers  {share:6.1%} of the cycles")
    verified = api.verify(MODEL, "cortex-m4")
    for rung in verified.rungs:
        c = rung.comparison
        print(f"    {rung.step:8} {c.elements:,} elements of {c.tensors} tensors: {c.mismatches}")
    print(f"\n{MISSING}")


if __name__ == "__main__":
    main()
