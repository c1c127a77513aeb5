"""The stages of the compiler, a program, and the consumers of programs."""

from __future__ import annotations

from collections.abc import Iterator

from tools.drawings.svg import Drawing, arrow, box, code, path, text

STAGES = (
    ("read, simplify", "Graph"),
    ("assign", "Parts"),
    ("schedule", "Frontier"),
    ("place", "Placement"),
    ("lower", "Program"),
)
COMMANDS = (
    "Loop r in [0, 48) step 2",
    "  Call conv1: x -> t, rows [r, r + 2)",
    "  Call conv2: t -> y, row r / 2",
)
CONSUMERS = (
    ("code generators", "C, command streams"),
    ("reference machine", "runs and checks it"),
    ("reports", "memory, cycles, cost"),
)
RING_SLOTS = 4


def drawing() -> Drawing:
    """Return the drawing."""
    return Drawing(
        "The stages of the compiler end with a program: commands, and buffers in an arena. Code "
        "generators, the reference machine and reports read the program.",
        500,
        430,
        (*_stages(), *_program(), *_arena(), *_consumers()),
    )


def _stages() -> Iterator[str]:
    width, gap = 82, 12
    for k, (verb, result) in enumerate(STAGES):
        x = 16 + k * (width + gap)
        yield text(x + width / 2, 20, verb.partition(",")[0], "middle", soft=True)
        yield box(x, 28, width, 28, "blue" if result == "Program" else "empty")
        yield text(x + width / 2, 47, result, "middle")
        if k:
            yield path([(x - gap + 2, 42), (x - 2, 42)], "soft")
    yield arrow(434, 58, 434, 88)


def _program() -> Iterator[str]:
    yield box(16, 90, 468, 206)
    yield text(28, 112, "Program: commands ..")
    for k, line in enumerate(COMMANDS):
        yield code(40, 134 + 19 * k, line)


def _arena() -> Iterator[str]:
    yield text(28, 206, ".. on buffers with addresses")
    x = 40
    for name, width, fill in (
        ("x: whole tensor", 190, "orange"),
        ("t", 120, "blue"),
        ("y", 110, "green"),
    ):
        yield box(x, 218, width, 34, fill)
        if fill == "blue":
            for slot in range(RING_SLOTS):
                yield box(x + slot * width / RING_SLOTS, 218, width / RING_SLOTS, 34, fill)
                centre = x + (slot + 0.5) * width / RING_SLOTS
                yield text(centre, 240, f"t{slot}", "middle")
        else:
            yield text(x + width / 2, 240, name, "middle")
        x += width
    yield text(230, 274, f"ring: row r is in slot r mod {RING_SLOTS}", soft=True)


def _consumers() -> Iterator[str]:
    width, gap = 148, 12
    for k, (name, purpose) in enumerate(CONSUMERS):
        x = 16 + k * (width + gap)
        yield arrow(x + width / 2, 298, x + width / 2, 330)
        yield box(x, 332, width, 56, "empty")
        yield text(x + width / 2, 354, name, "middle")
        yield f'<g transform="translate({x + width / 2:g} 375) scale(0.86)">'
        yield text(0, 0, purpose, "middle", soft=True) + "</g>"
    yield text(16, 414, "They do not depend on each other.", soft=True)
