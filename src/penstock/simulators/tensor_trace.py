"""TensorTrace: assembles the regions that a machine computes into tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.ir.region import Region
from penstock.ir.tensor import Array


class TensorTrace:
    """Trace hook that assembles computed regions into whole tensors.

    Elements that are not computed, because nothing reads them, are masked (`numpy.ma`)."""

    def __init__(self, tensors: dict[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._tensors = tensors
        self._shapes = shapes

    def __call__(self, name: str, region: Region, elements: Array) -> None:
        if name not in self._tensors:
            empty = np.zeros(self._shapes[name], elements.dtype)
            self._tensors[name] = np.ma.array(empty, mask=True)
        self._tensors[name][region.slices] = elements


def gathered(tensors: dict[str, Array]) -> dict[str, Array]:
    """The tensors of `TensorTrace`; those whose elements are all computed as plain arrays."""
    return {k: v if np.ma.is_masked(v) else np.ma.getdata(v) for k, v in tensors.items()}
