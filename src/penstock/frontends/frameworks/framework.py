"""Framework: a framework that converts its own files, and the recognition of these files."""

from __future__ import annotations

import io
import zipfile
from typing import Final

from penstock.errors import ModelError
from penstock.frontends.other_formats import looks_like_onnx, other_format
from penstock.frontends.suffixes import KERAS_SUFFIX, PT2_SUFFIX
from penstock.frontends.tflite import looks_like_tflite
from penstock.frozen import frozen

ZIP_MARK: Final = b"PK\x03\x04"


@frozen
class Framework:
    """A framework whose files are converted.

    member: how the name of a file in each of its archives ends.
    child: the module that converts, in a process of its own.
    packages: what it needs, which the extra `extra` of penstock installs.
    quantises: whether its converter quantises; if not, the result is quantised as an ONNX model.
    causes: what help says of a file that cannot be loaded.
    """

    name: str
    suffix: str
    member: str
    child: str
    packages: tuple[str, ...]
    extra: str
    converter: str
    quantises: bool
    causes: str
    guide: str


KERAS: Final = Framework(
    "Keras",
    KERAS_SUFFIX,
    "config.json",
    "keras_child",
    ("tensorflow", "keras"),
    "keras",
    "TensorFlow Lite's converter",
    True,
    "classes of your own and Lambda layers are code, which the file does not contain or safe mode "
    "refuses: replace them by Keras' layers, or convert the model in the program that defines them",
    "from-keras",
)
PYTORCH: Final = Framework(
    "PyTorch",
    PT2_SUFFIX,
    "archive_format",
    "pytorch_child",
    ("torch", "onnxscript"),
    "torch",
    "torch's ONNX exporter",
    False,
    "the program must be written by torch.export.save, of a version that is not newer than the "
    "installed one",
    "from-pytorch",
)
FRAMEWORKS: Final = (KERAS, PYTORCH)


def framework_of(raw: bytes, name: str) -> Framework | None:
    """The framework that converts a file; None if the file is of another format.

    The suffix counts as well as the contents: files of other suffixes run no framework.  Raises
    ModelError for a damaged file."""
    found = next((one for one in FRAMEWORKS if name.lower().endswith(one.suffix)), None)
    if found is None or not raw:
        return None
    is_zip = raw.startswith(ZIP_MARK)
    is_other = looks_like_tflite(raw) or looks_like_onnx(raw, "") or other_format(raw, "")
    if is_other and not is_zip:
        return None
    if why := _damage(raw, found):
        raise ModelError(
            "framework-001",
            f"the file is no {found.name} archive",
            where=name,
            why=why,
            help="check that the file was copied whole",
        )
    return found


def _damage(raw: bytes, framework: Framework) -> str:
    """Why the bytes are no archive of the framework; empty if they are."""
    try:
        names = zipfile.ZipFile(io.BytesIO(raw)).namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        return f"a {framework.suffix} file is a zip archive: {error}"
    if any(name.endswith(framework.member) for name in names):
        return ""
    return f'a {framework.suffix} file contains "{framework.member}"'
