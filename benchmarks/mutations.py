"""Mutations of model files: of their bytes, and of the numbers that they contain.

Everything is drawn from the generator that is handed in, so a seed and a number name a mutant.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tflite import BuiltinOperator

from benchmarks import onnx_mutations
from benchmarks.drawn_names import drawn_name
from benchmarks.file_fields import Field, file_fields
from benchmarks.schema_fields import schema_fields
from tools.tflite_rewriting import codes_of, renamed, tensor_names, with_codes

TFLITE, ONNX, ASSUMED = ".tflite", ".onnx", ".assumed.onnx"
"""Suffixes: the last one's real numbers are taken as if they were quantised."""
SUFFIXES = (ASSUMED, ONNX, TFLITE)
"""The longest first."""
Mutation = Callable[["Subject", bytearray, Random], str]


@dataclass(frozen=True, slots=True)
class Subject:
    """An intact model file, and where its fields are; those of ONNX have no fixed places."""

    name: str
    raw: bytes
    fields: tuple[Field, ...]
    schema: tuple[Field, ...] = ()

    @staticmethod
    def of(name: str, raw: bytes) -> Subject:
        if name.endswith(ONNX):
            return Subject(name, raw, ())
        return Subject(name, raw, file_fields(raw), schema_fields(raw))

    @property
    def suffix(self) -> str:
        """What a file's name ends in so that it is read as this one."""
        return next(s for s in SUFFIXES if self.name.endswith(s))

    def labelled(self, label: str) -> list[Field]:
        return [field for field in self.fields if field.label == label]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A damaged model file; `story` says what was done to which."""

    number: int
    story: str
    raw: bytes
    suffix: str = ".tflite"


def mutant(subjects: Sequence[Subject], seed: int, number: int) -> Mutant:
    """Mutant `number` of a seed: a model with one to four mutations."""
    random = Random(f"{seed}/{number}")
    subject = random.choice(subjects)
    raw = bytearray(subject.raw)
    plan = _PLAN if subject.fields else _ONNX_PLAN
    every, weights = zip(*plan, strict=True)
    mutations = random.choices(every, weights, k=random.choice((1, 1, 1, 1, 2, 2, 3, 4)))
    # What moves bytes goes last: the fields of the intact file are no longer where they were.
    ordered = sorted(mutations, key=every.index)
    story = "; ".join(mutate(subject, raw, random) for mutate in ordered)
    return Mutant(number, f"{subject.name}: {story}", bytes(raw), subject.suffix)


def field(subject: Subject, raw: bytearray, random: Random) -> str:
    """One number becomes another; each kind of number is as likely as any other."""
    label = random.choice(sorted({f.label for f in subject.fields}))
    chosen = random.choice(subject.labelled(label))
    return _set(raw, chosen, random.choice(_candidates(subject, chosen, random)))


def scalar(subject: Subject, raw: bytearray, random: Random) -> str:
    """Any scalar of the schema becomes another value, or that of another place of its kind."""
    label = random.choice(sorted({f.label for f in subject.schema}))
    places = [f for f in subject.schema if f.label == label]
    chosen = random.choice(places)
    old, other = chosen.read(subject.raw), random.choice(places).read(subject.raw)
    if chosen.format in ("<f", "<d"):
        reals = (0.0, -0.0, -old, old * 2, old / 2, math.nan, math.inf, -math.inf, 1e-45, 3e38)
        return _set(raw, chosen, random.choice((*reals, other)))
    bits = 8 * chosen.size
    ends = (0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 2**bits - 1)
    near = (int(old) + 1, int(old) - 1, -int(old), int(old) * 2)
    flipped = int(old) ^ 1 << random.randrange(bits)
    values = (*ends, *near, flipped, int(other), random.randrange(256))
    return _set(raw, chosen, random.choice(values))


def operator_code(subject: Subject, raw: bytearray, random: Random) -> str:
    """Operator codes in one of their two fields, or an operator that is another one."""
    codes = codes_of(subject.raw) if subject.schema else []
    if not codes or BuiltinOperator.CUSTOM in codes:
        return "custom operators"
    if random.random() < 0.5:
        codes[random.randrange(len(codes))] = random.choice(_CODES)
    fields = random.choice(((True, False), (False, True), (True, True)))
    raw[:] = with_codes(bytes(raw), codes, builtin=fields[0], deprecated=fields[1])
    return f"operator codes {codes} in fields {fields}"


def names(subject: Subject, raw: bytearray, random: Random) -> str:
    """Tensors get names that look like what the compiler derives, or that C or a terminal read."""
    known = tensor_names(subject.raw)
    found = [random.choice((name, drawn_name(known, random))) for name in known]
    raw[:] = renamed(bytes(raw), found)
    return f"names {found}"


def scale(subject: Subject, raw: bytearray, random: Random) -> str:
    """A scale becomes some power of two larger or smaller."""
    places = subject.labelled("scale")
    if not places:
        return "no scale"
    chosen = random.choice(places)
    return _set(raw, chosen, _times(chosen.read(subject.raw), 2.0 ** random.randint(-60, 60)))


def extent(subject: Subject, raw: bytearray, random: Random) -> str:
    """An extent becomes another one in every shape in which it stands."""
    places = [f for f in subject.labelled("extent") if f.read(subject.raw) > 0]
    if not places:
        return "no extent"
    old = random.choice(places).read(subject.raw)
    new = random.choice((1, 2, int(old) + 1, int(old) * 2, 33, 70, 1000, 2**16, 2**20, 2**30))
    for place in places:
        if place.read(subject.raw) == old:
            _set(raw, place, new)
    return f"extent {old} everywhere {new}"


def cycle(subject: Subject, raw: bytearray, random: Random) -> str:
    """Two indices of tensors change places: nodes read what comes later, or write what is read."""
    a, b = (random.choice(subject.labelled("tensor")) for _ in range(2))
    first, second = a.read(raw), b.read(raw)
    _set(raw, a, second)
    _set(raw, b, first)
    return f"tensors {first} and {second} change places"


def bits(subject: Subject, raw: bytearray, random: Random) -> str:
    """Some bits flip."""
    places = [random.randrange(8 * len(raw)) for _ in range(random.choice((1, 1, 3, 30)))]
    for place in places:
        raw[place // 8] ^= 1 << place % 8
    return f"bits {places} flipped"


def byte(subject: Subject, raw: bytearray, random: Random) -> str:
    """A byte of the file's structure, not of its large buffers, becomes any other."""
    places = [field.position for field in subject.fields] or range(len(raw))
    near = random.choice(places) + random.randrange(-24, 24)
    place = min(max(near, 0), len(raw) - 1)
    raw[place] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
    return f"byte {place} set to {raw[place]}"


def swap(subject: Subject, raw: bytearray, random: Random) -> str:
    """Two blocks change places."""
    size = random.randint(1, max(1, len(raw) // 8))
    a, b = (random.randrange(len(raw) - size + 1) for _ in range(2))
    first, second = bytes(raw[a : a + size]), bytes(raw[b : b + size])
    raw[a : a + size] = second
    raw[b : b + size] = first
    return f"{size} bytes at {a} and {b} change places"


def double(subject: Subject, raw: bytearray, random: Random) -> str:
    """A block stands twice."""
    size = random.randint(1, max(1, len(raw) // 8))
    at = random.randrange(len(raw) - size + 1)
    raw[at:at] = raw[at : at + size]
    return f"{size} bytes at {at} stand twice"


def truncate(subject: Subject, raw: bytearray, random: Random) -> str:
    """The end is missing."""
    size = random.choice(
        (0, 4, 8, random.randrange(len(raw) or 1), len(raw) - random.randint(1, 64))
    )
    del raw[max(0, size) :]
    return f"truncated to {len(raw)} bytes"


_CODES = tuple(range(128)) + tuple(range(128, 210, 7))

_PLAN: tuple[tuple[Mutation, int], ...] = (
    (names, 5),
    (operator_code, 5),
    (scalar, 20),
    (field, 6),
    (scale, 4),
    (extent, 3),
    (cycle, 2),
    (bits, 3),
    (byte, 4),
    (swap, 1),
    (double, 1),
    (truncate, 1),
)
MUTATIONS = tuple(mutation for mutation, _ in _PLAN)


def _of_onnx(change: onnx_mutations.Change) -> Mutation:
    """A change of the protobuf as a mutation of bytes."""
    return lambda subject, raw, random: onnx_mutations.changed(change, raw, random)


_ONNX_PLAN: tuple[tuple[Mutation, int], ...] = (
    (_of_onnx(onnx_mutations.number), 12),
    (_of_onnx(onnx_mutations.rename), 5),
    (_of_onnx(onnx_mutations.constant), 5),
    (_of_onnx(onnx_mutations.edge), 4),
    (_of_onnx(onnx_mutations.attribute), 4),
    (_of_onnx(onnx_mutations.extent), 3),
    (_of_onnx(onnx_mutations.operator), 3),
    (_of_onnx(onnx_mutations.node), 3),
    (_of_onnx(onnx_mutations.kind_of_data), 2),
    (_of_onnx(onnx_mutations.opened), 1),
    (bits, 2),
    (byte, 2),
    (swap, 1),
    (double, 1),
    (truncate, 1),
)

_SIZES = (-(2**31), -2, -1, 0, 1, 2, 3, 4, 7, 64, 255, 65535, 2**16, 2**24, 2**30, 2**31 - 1)


def _candidates(subject: Subject, chosen: Field, random: Random) -> Sequence[int | float]:
    """Values worth trying in a field."""
    old = chosen.read(subject.raw)
    match chosen.label:
        case "scale":
            return (0.0, -old, math.nan, math.inf, -math.inf, 1e-45, 1e-38, 3e38, 1.0, 1 / 256)
        case "zero":
            ends = (-(2**63), -(2**31), -129, -128, 0, 127, 128, 255, 2**31, 2**63 - 1)
            return (*ends, random.randint(-128, 127))
        case "tensor" | "buffer" | "code":
            others = [int(f.read(subject.raw)) for f in subject.labelled(chosen.label)]
            return (random.choice(others), random.choice(others), -1, 0, max(others) + 1, 2**31 - 1)
        case "type" | "kind" | "deprecated":
            return (random.randrange(20), random.randrange(128))
        case "builtin":
            return (random.randrange(210), -1, 2**31 - 1)
        case "length":
            return (0, 1, int(old) - 1, int(old) + 1, int(old) // 2, 2**30, 2**31, 2**32 - 1)
        case _:
            return (*_SIZES, int(old) + 1, int(old) - 1, int(old) * 2, random.randrange(16))


def _set(raw: bytearray, place: Field, value: int | float) -> str:
    """Writes a value, modulo the field's size."""
    before = place.read(raw)
    if isinstance(value, float):
        struct.pack_into(place.format, raw, place.position, value)
    else:
        size = place.size
        raw[place.position : place.position + size] = (value % 256**size).to_bytes(size, "little")
    return f"{place.label} at {place.position} from {before} to {value}"


def _times(value: float, factor: float) -> float:
    """The product, in the range of single precision."""
    return min(max(value * factor, -3.0e38), 3.0e38)
