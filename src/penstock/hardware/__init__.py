"""Targets: chips and boards described as data, with units."""
