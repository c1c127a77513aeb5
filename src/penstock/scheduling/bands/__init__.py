"""Bands of columns: cascades that recompute the columns which neighbouring bands share."""
