"""Shared: the developers' folder of models, goldens and facts beside the repository.

It is no part of the product: whoever has none can still use the zoo and `tests/models`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ModelError

REPOSITORY = Path(__file__).resolve().parents[1]
DEFAULT_MODELS = REPOSITORY.parent / "shared" / "models"


@dataclass(frozen=True, slots=True)
class Shared:
    """The folder of models, and what lies in and beside it."""

    models: Path

    @property
    def facts(self) -> Path:
        """What is known of competitors."""
        return self.models.parent / "facts"

    def networks(self) -> tuple[Path, ...]:
        """Whole networks, by name."""
        return tuple(sorted(self.models.glob("*.tflite")))

    def operators(self) -> tuple[Path, ...]:
        """Networks of one operator, by name."""
        return tuple(sorted((self.models / "ops").glob("*.tflite")))

    def goldens(self, model: Path) -> tuple[Path, ...]:
        """The archives of ground truth for a model of this folder."""
        folder = self.models / "goldens" / model.parent.relative_to(self.models)
        names = (f"{model.stem}.npz", f"{model.stem}.all_tensors.npz")
        return tuple(folder / name for name in names if (folder / name).is_file())

    def named(self, names: list[str]) -> tuple[Path, ...]:
        """Models of this folder by file name, with or without folder and suffix.

        Raises ModelError where there is none of that name."""
        known = {path.stem: path for path in (*self.operators(), *self.networks())}
        stems = [Path(name).name.removesuffix(".tflite") for name in names]
        for stem in stems:
            if stem not in known:
                raise ModelError(
                    "bench-002",
                    f"there is no model {stem!r}",
                    where=str(self.models),
                    why="goldens are known for the models of this folder only",
                    help=f"take one of {', '.join(path.stem for path in self.networks())}",
                )
        return tuple(known[stem] for stem in stems)


def find_shared(folder: Path | None) -> Shared:
    """The folder given, or the one beside the repository.  Raises ModelError where it is not."""
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
