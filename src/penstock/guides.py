"""Guides: the pages of docs/how-to that messages refer to, and where the user finds them."""

from __future__ import annotations

import sys
from pathlib import Path
from site import getuserbase
from types import MappingProxyType

FOLDER = "docs/how-to"  # The folder of the guides in the repository.
# The same in an environment into which a wheel is installed; `pyproject.toml` states it, too.
INSTALLED_FOLDER = "share/doc/penstock/how-to"

# Title by name of the file, without its suffix.
TITLES = MappingProxyType(
    {
        "add-a-backend": "Add a backend",
        "add-a-target": "Add a target",
        "add-an-operator": "Add an operator",
        "add-to-a-firmware-project": "Add a model to a firmware project",
        "from-keras": "From Keras and TensorFlow Lite",
        "from-pytorch": "From PyTorch",
        "quantise-onnx": "Quantise an ONNX model",
        "write-a-tiler": "Write a tiler",
    }
)


def guide(page: str) -> str:
    """Return the title of a guide and the path of its file."""
    return f'guide "{TITLES[page]}": {_place(f"{page}.md")}'


def _place(name: str) -> str:
    """The path of a guide, in the checkout of penstock or in an installation; if it is nowhere, in
    the repository."""
    package = Path(__file__).resolve().parent
    folders = (
        package.parents[1] / FOLDER,
        Path(sys.prefix, INSTALLED_FOLDER),
        Path(getuserbase(), INSTALLED_FOLDER),  # pip install --user
        package.parent / INSTALLED_FOLDER,  # pip install --target
    )
    paths = (folder / name for folder in folders)
    found = next(filter(Path.is_file, paths), None)
    return f"{FOLDER}/{name} in the repository of penstock" if found is None else str(found)
