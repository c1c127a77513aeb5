"""Which tensors a cascade can read from copies of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.ir.op import row_axis
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.rows import Storage, rows_coincide


def readers(parts: Parts, cascade: Sequence[int], tensor: str) -> tuple[int, ...]:
    """Return the indices of those parts of a cascade that read a tensor.

    cascade: indices of the parts of the cascade.
    """
    return tuple(
        k for k in cascade if any(v.name == tensor for v in parts.parts[k].variable_inputs)
    )


def copyable(parts: Parts, cascade: Sequence[int], tensor: str) -> bool:
    """Return whether a cascade can read a tensor from copies of its rows.

    The tensor must be complete when the cascade begins.  It must have at least two rows, and as
    many as its storage.  It must not be stored in the ring of a queue.  Its readers in the cascade
    must compute their outputs row by row on the processor, and must not access the storage through
    another tensor.  At least one reader must need all rows.
    cascade: indices of the parts of the cascade, which runs in stripes of rows.
    """
    if tensor not in parts.owners:
        return False
    name, rows = parts.owners[tensor], parts.rows
    if name not in rows.number or any(parts.owners[parts.parts[k].name] == name for k in cascade):
        return False
    number = rows.number[name]
    storage = rows.storages[number]
    if storage.rows < 2 or not storage.row_bytes or storage.accumulates:
        return False
    if any(name in (q.ring, q.counter, *q.inside) for q in parts.queues):
        return False
    reads = {k: read for k in cascade for read in rows.row_parts[k].reads if read.storage == number}
    return all(_reads_rows(parts, k, tensor, storage) for k in reads) and any(
        int(read.needed[-1]) == storage.rows for read in reads.values()
    )


def _reads_rows(parts: Parts, k: int, tensor: str, storage: Storage) -> bool:
    """Return whether part `k` reads `storage` row by row, and only as `tensor`.

    False if the part reads another alias of the storage, or the whole tensor in one call."""
    part = parts.parts[k]
    read = {v.name: v for v in part.variable_inputs if parts.owners[v.name] == storage.name}
    if set(read) != {tensor} or parts.rows.row_parts[k].whole:
        return False
    value = read[tensor]
    same = rows_coincide(value, storage) and not parts.first_byte(value)
    shape = value.type.shape
    one_image = shape[row_axis(len(shape))] == storage.rows
    by_rows = part.kernel.by_rows and part.kernel.body is None
    return by_rows and same and one_image and value.type.size_bytes == storage.size_bytes
