"""Cascades that compute some columns or rows several times: in bands, and with chains.

A band is an interval of columns of a cascade's output, for which the cascade runs by itself.  A
chain is a part that stands for several and recomputes the rows of the tensors between them.
"""
