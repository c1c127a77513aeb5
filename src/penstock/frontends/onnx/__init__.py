"""ONNX: bytes -> Graph, in steps: each module is one.

file          protobuf -> File: nodes, constants, inputs and outputs by name
rewrites      File -> File: what is written in several ways is written in one; norms are folded
scales        File -> by name of a tensor, the scale and zero point under which it is int8
tensors       where a tensor of the model lies, and in which order of axes; brings it elsewhere
walk          File and scales -> Graph: each node is shown to the operator file of its name
"""
