"""ONNX: bytes -> Graph, in steps: each module is one.

file             protobuf -> File: nodes, constants, inputs and outputs by name
rewrites         File -> File: equivalent forms become one; normalisations are folded
scales           File -> the int8 quantisation of each tensor, by name
importer         File and quantisations -> Graph, node by node, with the help of
  model_constants  constants and their quantisation
  folding          evaluation of nodes of constants
  tensors          the value that holds each tensor, and its order of axes
  presentation     nodes as operator files import them
"""
