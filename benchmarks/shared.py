"""Shared: the developers' folder of models, goldens and facts beside the repository.

The product does not depend on it; without it, the zoo and `tests/models` remain.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ModelError

REPOSITORY = Path(__file__).resolve().parents[1]
DEFAULT_MODELS = Path(os.environ.get("PENSTOCK_SHARED") or REPOSITORY.parent / "shared") / "models"


@dataclass(frozen=True, slots=True)
class Shared:
    """The folder of models, and the folders in and beside it."""

    models: Path

    @property
    def facts(self) -> Path:
        """Published and measured figures of other compilers."""
        return self.models.parent / "facts"

    def networks(self) -> tuple[Path, ...]:
        """Whole networks, sorted by name."""
        return tuple(sorted(self.models.glob("*.tflite")))

    def operators(self) -> tuple[Path, ...]:
        """Networks of one operator, sorted by name."""
        return tuple(sorted((self.models / "ops").glob("*.tflite")))

    def goldens(self, model: Path) -> tuple[Path, ...]:
        """The golden archives of a model of this folder."""
        folder = self.models / "goldens" / model.parent.relative_to(self.models)
        names = (f"{model.stem}.npz", f"{model.stem}.all_tensors.npz")
        return tuple(folder / name for name in names if (folder / name).is_file())

    def named(self, names: list[str]) -> tuple[Path, ...]:
        """Models of this folder by file name, with or without folder and suffix.

        Raises ModelError for an unknown name.
        """
        known = {path.stem: path for path in (*self.operators(), *self.networks())}
        stems = [Path(name).name.removesuffix(".tflite") for name in names]
        for stem in stems:
            if stem not in known:
                raise ModelError(
                    "bench-002",
                    f"there is no model {stem!r}",
                    where=str(self.models),
                    why="goldens are known for the models of this folder only",
                    help=f"use one of {', '.join(path.stem for path in self.networks())}",
                )
        return tuple(known[stem] for stem in stems)


def find_shared(folder: Path | None) -> Shared:
    """The given folder, or the one beside the repository.  Raises ModelError if it does not
    exist."""
    models = (folder or DEFAULT_MODELS).absolute()
    if not models.is_dir():
        raise ModelError(
            "bench-001",
            "the folder of shared models does not exist",
            where=str(models),
            why="it holds models of others and figures of competitors, and is no part of penstock",
            help="put it there, or name one with --models FOLDER; without it, try the zoo: "
            "penstock profile zoo:mobilenet_v1:alpha=0.25,resolution=96",
        )
    return Shared(models)
