import numpy as np
import pytest

from mcm_compiler.page.contents import pack_floats, pack_sizes, pack_texts, pack_whole
from tests.oracles.unpacked import unpacked


def test_floats_come_back_with_seven_digits():
    values = np.array([0.0, 1 / 3, 2e-9, -7.5e8])
    packed = pack_floats(values)
    assert packed["type"] == "f4"
    assert np.allclose(unpacked(packed), values, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("values", "kind"),
    [([0, 255], "u1"), ([0, 256], "u2"), ([0, 65536], "i4"), ([-1, 3], "i4"), ([], "u1")],
)
def test_whole_numbers_take_as_few_bytes_as_they_need(values, kind):
    packed = pack_whole(values)
    assert packed["type"] == kind
    assert unpacked(packed).tolist() == values


def test_sizes_are_exact_beyond_32_bits():
    assert unpacked(pack_sizes([0, 2**40 + 1])).tolist() == [0, 2**40 + 1]


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="no 32-bit numbers"):
        pack_whole([2**31])


def test_texts_come_back_printable():
    texts = ["a/b", "line\nbreak", "\u202eevil", "\ud800 lone", "ünï", ""]
    shown = unpacked(pack_texts(texts))
    assert shown == ["a/b", "line\\nbreak", "\\u202eevil", "\\ud800 lone", "ünï", ""]
