"""Conditions of row copies: which tensors a cascade can read or write in rings in faster memory."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.ir.graph import Value
from penstock.ir.op import row_axis
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.row_copy import RowCopy
from penstock.scheduling.model.rows import Storage, rows_coincide


def readers(parts: Parts, cascade: Sequence[int], tensor: str) -> tuple[int, ...]:
    """Return the indices of those parts of a cascade that read a tensor.

    cascade: indices of the parts of the cascade.
    """
    return tuple(
        k for k in cascade if any(v.name == tensor for v in parts.parts[k].variable_inputs)
    )


def writer(parts: Parts, cascade: Sequence[int], tensor: str) -> int | None:
    """Return the index of the part of a cascade that writes a tensor; None if no part does.

    cascade: indices of the parts of the cascade.
    """
    return next((k for k in cascade if parts.parts[k].name == tensor), None)


def copyable(parts: Parts, cascade: Sequence[int], copy: RowCopy) -> bool:
    """Return whether a cascade can contain a row copy.

    cascade: indices of the parts of the cascade, which runs in stripes of rows.
    """
    condition = copyable_out if copy.out else copyable_in
    return condition(parts, cascade, copy.tensor)


def copyable_in(parts: Parts, cascade: Sequence[int], tensor: str) -> bool:
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
    if not _in_rows(parts, storage):
        return False
    reads = {k: read for k in cascade for read in rows.row_parts[k].reads if read.storage == number}
    return all(_reads_rows(parts, k, tensor, storage) for k in reads) and any(
        int(read.needed[-1]) == storage.rows for read in reads.values()
    )


def copyable_out(parts: Parts, cascade: Sequence[int], tensor: str) -> bool:
    """Return whether the rows of a tensor that a cascade writes can be copied out of a ring.

    The tensor must have at least two rows.  It must own its storage, and no other part may write
    there.  The storage must not be the ring of a queue.  The part that writes the tensor must
    compute it row by row on the processor, each row independently of the previous one.  Only later
    cascades may read the tensor.
    cascade: indices of the parts of the cascade, which runs in stripes of rows.
    """
    k, rows = writer(parts, cascade, tensor), parts.rows
    if k is None or parts.owners[tensor] != tensor or tensor not in rows.number:
        return False
    part, written = parts.parts[k], rows.number[tensor]
    storage = rows.storages[written]
    if not part.nodes or not _in_rows(parts, storage):
        return False
    others = (row_part.written == written for row_part in rows.row_parts)
    read = any(r.storage == written for j in cascade for r in rows.row_parts[j].reads)
    if sum(others) > 1 or read or rows.row_parts[k].whole or rows.row_parts[k].recurrent:
        return False
    return _computes_rows(part) and _is_storage(parts, part.output, storage)


def _in_rows(parts: Parts, storage: Storage) -> bool:
    """Return whether a storage has memory of its own for several rows, and belongs to no queue.

    False if each row overwrites the previous one (`Storage.accumulates`).
    """
    queues = (name for q in parts.queues for name in (q.ring, q.counter, *q.inside))
    several = storage.rows >= 2 and storage.row_bytes > 0 and not storage.accumulates
    return several and storage.name not in queues


def _reads_rows(parts: Parts, k: int, tensor: str, storage: Storage) -> bool:
    """Return whether the processor runs part `k`, and the part reads `tensor` row by row.

    Only such a part can read the rows from a ring instead.  False if the part computes its whole
    output in one call, if it also reads an alias of `tensor`, or if the rows of `tensor` are not
    those of its storage."""
    part = parts.parts[k]
    read = {v.name: v for v in part.variable_inputs if parts.owners[v.name] == storage.name}
    if set(read) != {tensor} or parts.rows.row_parts[k].whole:
        return False
    return _computes_rows(part) and _is_storage(parts, read[tensor], storage)


def _computes_rows(part: Part) -> bool:
    """Return whether the processor computes a part, row by row."""
    return part.kernel.by_rows and part.kernel.body is None


def _is_storage(parts: Parts, value: Value, storage: Storage) -> bool:
    """Return whether a value consists of all rows of its storage, each as a whole.

    If so, copies of the rows of the storage can replace the value.  The result is False for a batch
    of several images, because its rows extend over two axes.
    """
    same = rows_coincide(value, storage) and not parts.first_byte(value)
    shape = value.type.shape
    one_image = shape[row_axis(len(shape))] == storage.rows
    return same and one_image and value.type.size_bytes == storage.size_bytes
