"""The example notebooks run, and are committed without outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_the_page_lists_every_notebook() -> None:
    page = (FOLDER / "README.md").read_text("utf-8")
    assert len(NOTEBOOKS) == 3
    assert [path.name for path in NOTEBOOKS if f"`{path.name}`" not in page] == []


@every_notebook
def test_a_notebook_is_committed_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@every_notebook
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs without an exception in a kernel of this Python; the last ones show text,
    a report or a figure."""
    for module, extra in (("nbclient", "notebooks"), ("unicorn", "simulate")):
        pytest.importorskip(module, reason=f"the extra {extra!r} is not installed")
    from jupyter_client.kernelspec import KernelSpecManager
    from nbclient import NotebookClient
    from nbformat import read

    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), "utf-8")
    monkeypatch.setattr(KernelSpecManager, "kernel_dirs", [str(tmp_path / "kernels")])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    notebook = read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [cell["outputs"] for cell in notebook.cells if cell["cell_type"] == "code"]
    shown = {kind for each in outputs for one in each for kind in one.get("data", {})}
    assert shown >= ({"image/png"} if path.stem != "first-model" else {"text/html"})
