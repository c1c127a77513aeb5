"""Cascades that compute some columns or rows several times: in bands or in chains.

A band is an interval of columns of a cascade's output; the cascade runs once for each band.  A
chain is a group of parts that run as a single part of a cascade, and recompute rows of the tensors
between them.
"""
