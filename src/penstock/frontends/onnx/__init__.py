"""ONNX: bytes -> Graph, in steps: each module is one.

file             protobuf -> File: nodes, constants, inputs and outputs by name
rewrites         File -> File: equivalent forms become one; normalisations are folded
element_types    File -> the element type of each tensor, which decides its domain
domains          File -> the domain of each tensor: integer elements, or real numbers and how they
                 are stored
importer         File and domains -> Graph, node by node, with the help of
  model_constants  constants, each in its own domain
  folding          evaluation of nodes of constants
  chains           tables of element-wise nodes in a row
  scales           the quantisation that a QuantizeLinear or DequantizeLinear states
  tensors          the value that holds each tensor, and its order of axes
  presentation     nodes as operator files import them
"""
