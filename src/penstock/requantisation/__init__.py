"""Optimised requantisation, proved equal to the reference's (docs/requantisation.md)."""
