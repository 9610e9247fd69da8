"""The bridge to `onnx_ir`: importing, annotating, checking, printing and splitting models."""

import logging

# onnx_ir logs what it cannot infer, stack traces included. That is diagnosed here in our own way;
# without this handler Python would print it to stderr where no application set up logging.
logging.getLogger("onnx_ir").addHandler(logging.NullHandler())
