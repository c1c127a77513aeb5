"""Requantisation cheaper than the reference's, and proved equal to it (docs/requantisation.md)."""
