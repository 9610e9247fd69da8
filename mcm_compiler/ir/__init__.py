"""The bridge to `onnx_ir`: importing, annotating, checking, printing and splitting models."""
