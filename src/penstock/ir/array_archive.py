"""`.npz` archives of arrays: reading without pickled objects, writing with reproducible bytes."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from penstock.ir.tensor import Array
from penstock.limits import (
    DEFAULT_SIZE_LIMIT_BYTES,
    ENTRY_BYTES,
    Allowance,
    SizeLimitError,
)

# Earliest date of the format, given to all members so that archives are reproducible.
FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


# Those that NumPy writes; others may take gigabytes to decompress anything.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class ArchiveError(ValueError):
    """The file is damaged, or no archive of arrays."""


def read_arrays(path: Path, limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES) -> dict[str, Array]:
    """The arrays in an archive, by name.

    Raises OSError if the file cannot be read, ArchiveError if it is damaged, no archive, or
    contains pickled objects, and SizeLimitError if the arrays take more bytes than the limit."""
    allowance = Allowance(limit_bytes)
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                what = f'array "{member.filename}" of {member.file_size} bytes'
                allowance.take(ENTRY_BYTES + member.file_size, what, str(path))
                if member.compress_type not in _METHODS:
                    raise ArchiveError(f"{member.filename} is compressed by another method")
            return {
                member.filename.removesuffix(".npy"): _array(archive.read(member))
                for member in archive.infolist()
            }
    except (OSError, SizeLimitError):
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for damaged files
        raise ArchiveError(str(error) or type(error).__name__) from error


def read_array(path: Path, limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES) -> Array:
    """The array in an `.npy` file.

    Raises OSError if the file cannot be read, ArchiveError if it is damaged or contains pickled
    objects, and SizeLimitError if it takes more bytes than the limit."""
    raw = path.read_bytes()
    Allowance(limit_bytes).take(len(raw), f"a file of {len(raw)} bytes", str(path))
    try:
        return _array(raw)
    except Exception as error:  # NumPy raises a dozen kinds for damaged files
        raise ArchiveError(str(error) or type(error).__name__) from error


def _array(member: bytes) -> Array:
    """The array in a member of an archive.  Raises ValueError if its header states another size."""
    stream = io.BytesIO(member)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format")
    read = np.lib.format.read_array_header_1_0
    shape, _, dtype = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(stream)
    stated_bytes, found_bytes = math.prod(shape) * dtype.itemsize, len(member) - stream.tell()
    if dtype.hasobject:
        raise ValueError("the array contains pickled objects")
    if stated_bytes != found_bytes:
        raise ValueError(f"the array has {found_bytes} bytes, its header states {stated_bytes}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def pack_arrays(arrays: Mapping[str, Array]) -> bytes:
    """An archive without time, user or machine, so that its bytes are reproducible."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, values in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, values, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=FIRST_ZIP_DATE)
            entry.create_system = 3  # Unix, on every system
            archive.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return packed.getvalue()
