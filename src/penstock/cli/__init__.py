"""The command line: words on a terminal; no decisions."""

from penstock.cli.app import main

__all__ = ["main"]
