"""Parts of `tools/fuzz.py`."""
