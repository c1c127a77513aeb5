"""Tiling: how a layer is cut for local memories, and in which order its tiles are moved.

Layer         what a tiler knows of an operator: axes, and which of them each tensor follows
Scratchpads   the local memories, and what copies cost
Tiler         who chooses: dims, candidate shapes, cuts, loop order (a public protocol)
Tiling        the choice: cuts, order, what is moved, in which regions
"""
