"""Operators, one file each; `registry` discovers them."""
