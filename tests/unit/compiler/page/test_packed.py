import base64
import json
import zlib

import numpy as np
import pytest

from mcm_compiler.page.packed import pack_floats, pack_texts, pack_whole


def content(packed):
    return zlib.decompress(base64.b64decode(packed["data"]))


def test_floats_come_back_with_seven_digits():
    values = np.array([0.0, 1 / 3, 2e-9, -7.5e8])
    packed = pack_floats(values)
    assert packed["type"] == "f4"
    assert np.allclose(np.frombuffer(content(packed), "<f4"), values, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("values", "kind"),
    [([0, 255], "u1"), ([0, 256], "u2"), ([0, 65536], "i4"), ([-1, 3], "i4"), ([], "u1")],
)
def test_whole_numbers_take_as_few_bytes_as_they_need(values, kind):
    packed = pack_whole(values)
    assert packed["type"] == kind
    dtype = {"u1": "u1", "u2": "<u2", "i4": "<i4"}[kind]
    assert np.frombuffer(content(packed), dtype).tolist() == values


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="no 32-bit numbers"):
        pack_whole([2**31])


def test_texts_come_back_printable():
    texts = ["a/b", "line\nbreak", "\u202eevil", "\ud800 lone", "ünï", ""]
    shown = json.loads(content(pack_texts(texts)))
    assert shown == ["a/b", "line\\nbreak", "\\u202eevil", "\\ud800 lone", "ünï", ""]
