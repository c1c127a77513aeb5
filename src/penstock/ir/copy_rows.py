"""CopyRows: the identity as an operator, which a copy engine executes by rows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, OperatorDefaults, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType


@dataclass(frozen=True, slots=True)
class CopyRows(OperatorDefaults):
    """A tensor with the elements of its input, in memory of its own."""

    @property
    def kind(self) -> str:
        return "copy"

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return inputs[0]

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        del site
        return inputs[0][out.slices]

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        del site
        return (out,)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (Affine.diagonal((1,) * site.output.rank),)

    def work(self, site: Site, out: Region) -> Work:
        """No work of the processor."""
        del site, out
        return Work(0, 0)

    def kernel(self, site: Site) -> Kernel:
        """A copy of any interval of rows, which takes the processor no cycles."""
        del site
        return Kernel("copy", by_rows=True, work_cycles=0, call_cycles=0)

    def in_place(self, site: Site) -> tuple[int, ...]:
        del site
        return ()
