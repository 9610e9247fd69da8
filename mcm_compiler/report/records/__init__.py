"""The report as types: one for each object of its JSON.

`tools/render_schemas.py` writes its schema from them.
"""
