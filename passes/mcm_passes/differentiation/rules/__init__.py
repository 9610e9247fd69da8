"""Gradient rules of ONNX's own operators, one family a file; `onnx_rules` has the table of all."""
