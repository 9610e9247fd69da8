"""Options out of range are refused, with their numbers."""

from __future__ import annotations

import pytest

from mcm_models.zoo.bert import Bert
from mcm_models.zoo.gpt2 import Gpt2
from mcm_models.zoo.inception_v3 import InceptionV3
from mcm_models.zoo.lstm_lm import LstmLm
from mcm_models.zoo.nmt import Nmt
from mcm_models.zoo.resnet50 import ResNet50
from mcm_models.zoo.t5 import T5


@pytest.mark.parametrize(
    ("builder", "options", "message"),
    [
        (ResNet50, {"batch": 0, "classes": -1}, "at least 1: batch=0, classes=-1"),
        (ResNet50, {"image_size": 31}, "at least 32: image_size=31"),
        (InceptionV3, {"image_size": 74}, "at least 75: image_size=74"),
        (LstmLm, {"seq": 0}, "at least 1: seq=0"),
        (Nmt, {"layers": 1}, "at least 2: layers=1"),
        (Nmt, {"steps": 0, "vocab": -1}, "at least 1: steps=0, vocab=-1"),
        (Bert, {"seed": -1}, "at least 0: seed=-1"),
        (Bert, {"hidden": 100, "heads": 12}, "hidden=100 is not a multiple of heads=12"),
        (Bert, {"seq": 513}, r"at most 512 \(positions\): seq=513"),
        (Gpt2, {"seq": 1025}, r"at most 1024 \(positions\): seq=1025"),
        (Gpt2, {"hidden": 10, "heads": 4}, "hidden=10 is not a multiple of heads=4"),
        (T5, {"decoder_layers": 0}, "at least 1: decoder_layers=0"),
        (T5, {"buckets": 5}, "buckets=5 is odd"),
        (T5, {"max_distance": 31}, "at least 32: max_distance=31"),
    ],
)
def test_refuses_numbers_out_of_range(builder, options, message):
    with pytest.raises(ValueError, match=message):
        builder(**options)
