"""Text of a bundle: one line per file, with its size and the digest of its contents.

bundle
file "lenet5.c" 48213 bytes @c5029a71db5295a1
"""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.ir.text.constants import (
    ConstantReader,
    Constants,
    ConstantTable,
    data_lines,
    split_data_lines,
)
from penstock.scanner import Scanner, quoted


def print_bundle(bundle: Bundle, *, with_data: bool = False) -> str:
    """The text of a bundle; `with_data` appends the contents of the files."""
    table = ConstantTable()
    lines = [
        f"file {quoted(name)} {len(content)} bytes {table.refer(content)}\n"
        for name, content in bundle.files
    ]
    text = f"bundle\n{''.join(lines)}"
    return text + data_lines(table.found) if with_data else text


def bundle_contents(bundle: Bundle) -> dict[str, bytes]:
    """The contents of the files, by digest."""
    table = ConstantTable()
    return {table.refer(content)[1:]: content for _, content in bundle.files}


def read_bundle(text: str, contents: Constants | None = None) -> Bundle:
    """Parses the text of a bundle.  `contents`: contents by digest, for files that the text does
    not contain.

    Raises ModelError if the text is malformed or a digest is unknown."""
    body, found = split_data_lines(text)
    scanner = Scanner(body)
    constants = ConstantReader(scanner, {**(contents or {}), **found})
    scanner.skip_newlines()
    scanner.expect_word("bundle")
    scanner.end_statement()
    files: list[tuple[str, bytes]] = []
    while not scanner.at_end:
        scanner.expect_word("file")
        name = scanner.string()
        at = scanner.peek()
        size = scanner.integer()
        scanner.expect_word("bytes")
        content = constants.raw()
        if len(content) != size:
            raise scanner.error(f"the file has {len(content)} bytes, not {size}", at=at)
        scanner.end_statement()
        files.append((name, content))
    return Bundle(tuple(files))
