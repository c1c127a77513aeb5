"""Passes: rewrites Graph -> Graph that change no output, one a file; `PASSES` is their order."""
