"""What functional models of driver functions need."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from penstock.ir.tensor import Array


def elements(content: Array, dtype: DTypeLike, *shape: int) -> Array:
    """The elements that lie at an address: a view of `content`, the bytes from there on.

    What is written into them is written into the memory.

    >>> memory = np.zeros(8, np.uint8)
    >>> elements(memory[4:], np.int16, 1, 2)[:] = -2
    >>> memory
    array([  0,   0,   0,   0, 254, 255, 254, 255], dtype=uint8)
    """
    size_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return content[:size_bytes].view(dtype).reshape(shape)
