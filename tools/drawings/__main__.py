"""Writes every drawing."""

from __future__ import annotations

from tools.drawings import DRAWINGS, FOLDER

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawing in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(drawing.svg(), "utf-8")
