"""Tiling of layers for local memories: tile shapes, loop order and the resulting transfers.

Layer         an operator as a tiler sees it: a loop nest over axes, and the tensors they index
Scratchpads   the local memories, and the cost of copies
Tiler         the strategy: axes to tile, candidate shapes, cuts, loop order (a public protocol)
Tiling        the result: cuts, order, transfers and their regions
"""
