"""Small TFLite models whose files are damaged: of the repository and of `shared` beside it."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
OWN = ("tests/models/*.tflite", "src/penstock/demo/*.tflite")
SHARED = ("*_int8.tflite", "*quant*.tflite", "*.tflite", "ops/*.tflite")
MOST_BYTES = 200_000


def tflite_subjects() -> tuple[Path, ...]:
    """The files, each once."""
    shared = REPOSITORY.parent / "shared" / "models"
    found = [path for pattern in OWN for path in sorted(REPOSITORY.glob(pattern))]
    found += [path for pattern in SHARED for path in sorted(shared.glob(pattern))]
    small = (path for path in found if path.stat().st_size <= MOST_BYTES)
    return tuple({path.resolve(): path for path in small}.values())
