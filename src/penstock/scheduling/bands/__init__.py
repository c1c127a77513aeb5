"""Cascades that run once for each band, an interval of columns of their output.

Columns that two neighbouring bands need are computed twice.
"""
