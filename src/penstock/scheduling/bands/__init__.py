"""Bands of columns, and chains: cascades that compute some columns or rows several times."""
