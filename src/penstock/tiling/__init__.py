"""Tiling of layers for local memories: tile shapes, loop order and the resulting transfers.

Layer         an operator as a tiler sees it: a loop nest over axes, and the tensors they index
Scratchpads   the local memories, and the cost of copies
Tiler         a strategy: axes to tile, candidate shapes, tile boundaries, loop order (public)
Tiling        the result: tile boundaries, order, transfers and their regions
"""
