"""Prints docstrings drawn at random, each with its signature and what it is part of, for a review
of their language.

python -m tools.docstring_sample [--count 40] [--seed 1] [FOLDER ...]
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src/penstock/scheduling", "src/penstock/backends", "accelerators")

Definition = ast.Module | ast.ClassDef | ast.FunctionDef


def main(arguments: Sequence[str]) -> int:
    """Prints the drawn docstrings."""
    parser = argparse.ArgumentParser(prog="python -m tools.docstring_sample", description=__doc__)
    parser.add_argument("folders", nargs="*", default=FOLDERS, metavar="FOLDER")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    found = [text for folder in chosen.folders for text in documented(ROOT / folder)]
    drawn = random.Random(chosen.seed).sample(found, min(chosen.count, len(found)))
    for number, text in enumerate(drawn, start=1):
        print(f"{number}. {text}\n")
    return 0


def documented(folder: Path) -> Iterator[str]:
    """Every class, function and module of a folder that has a docstring: its place, its signature
    and the docstring, below the summaries of the module and the classes around it."""
    for path in sorted(folder.rglob("*.py")):
        place, tree = path.relative_to(ROOT), ast.parse(path.read_text("utf-8"))
        for node, around in with_surroundings(tree, ()):
            if text := ast.get_docstring(node):
                where = f"{place}:{getattr(node, 'lineno', 1)}"
                yield "\n".join((where, *map(summary, around), signature_of(node), text))


def with_surroundings(
    node: Definition, around: tuple[Definition, ...]
) -> Iterator[tuple[Definition, tuple[Definition, ...]]]:
    """A definition and all inside it, each with the definitions around it, outermost first."""
    yield node, around
    for inner in node.body:
        if isinstance(inner, Definition):
            yield from with_surroundings(inner, (*around, node))


def summary(node: Definition) -> str:
    """What a definition is, and the first sentence of its docstring."""
    first = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    return f"    in {'module' if isinstance(node, ast.Module) else node.name}: {first}"


def signature_of(node: Definition) -> str:
    """The first line of a definition as Python writes it, with the fields of a class."""
    match node:
        case ast.Module():
            return "(module)"
        case ast.ClassDef():
            fields = [ast.unparse(item) for item in node.body if isinstance(item, ast.AnnAssign)]
            return "\n    ".join((f"class {node.name}:", *fields))
        case ast.FunctionDef():
            result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"def {node.name}({ast.unparse(node.args)}){result}:"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
