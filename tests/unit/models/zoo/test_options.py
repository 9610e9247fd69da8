"""Options out of range are refused, with their numbers."""

from __future__ import annotations

import pytest

from mcm_models.zoo.bert import Bert
from mcm_models.zoo.cnn_families import EnsembleCnn, PlainCnn, ResidualCnn
from mcm_models.zoo.gpt2 import Gpt2
from mcm_models.zoo.image_networks import InceptionV3, ResNet50
from mcm_models.zoo.llama import Llama
from mcm_models.zoo.lstm_language_models import LstmLm
from mcm_models.zoo.nmt import Nmt
from mcm_models.zoo.rnn_families import ConvRnn, StackedRnn
from mcm_models.zoo.t5 import T5
from mcm_models.zoo.unet_cnn import UnetCnn


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
        (Gpt2, {"past": 1}, "past is 1, and cache is false"),
        (Gpt2, {"cache": True, "past": 900}, "past and seq are 1028 together, positions is 1024"),
        (Gpt2, {"hidden": 10, "heads": 4}, "hidden=10 is not a multiple of heads=4"),
        (Llama, {"past": 2048}, r"at most 2048 \(positions\): past_and_seq=2049"),
        (Llama, {"heads": 24}, "hidden=2048 is not an even multiple of heads=24"),
        (Llama, {"heads": 256, "style": "genai"}, "=256 is 8, which is not a multiple of 16"),
        (Llama, {"kv_heads": 5}, "heads=32 is not a multiple of kv_heads=5"),
        (Llama, {"experts": 2, "active": 3}, r"at most 2 \(experts\): active=3"),
        (Llama, {"weights": "qdq", "intermediate": 100}, "a width of 100 is not a multiple"),
        (T5, {"decoder_layers": 0}, "at least 1: decoder_layers=0"),
        (T5, {"buckets": 5}, "buckets=5 is odd"),
        (PlainCnn, {"kernel": 4}, "odd: kernel=4"),
        (PlainCnn, {"image_size": 15, "stages": 5}, "at least 16: image_size=15"),
        (ResidualCnn, {"width": 6, "groups": 4}, "a width of 6 is not a multiple of groups=4"),
        (ResidualCnn, {"width": 8, "groups": 4}, "groups=4 needs block=bottleneck"),
        (ResidualCnn, {"width": 48, "groups": 48, "widen": 1.5, "block": "bottleneck"}, "of 72 is"),
        (PlainCnn, {"widen": 0.5}, "between 1 and 16: widen=0.5"),
        (PlainCnn, {"widen": float("nan")}, "between 1 and 16: widen=nan"),
        (EnsembleCnn, {"members": 1}, "at least 2: members=1"),
        (UnetCnn, {"stages": 1}, "at least 2: stages=1"),
        (UnetCnn, {"stages": 4, "image_size": 20}, "image_size=20 is not a multiple of 8"),
        (StackedRnn, {"steps": 0, "hidden": 0}, "at least 1: steps=0, hidden=0"),
        (ConvRnn, {"stages": 4, "height": 15}, "at least 16: height=15"),
        (T5, {"max_distance": 31}, "at least 32: max_distance=31"),
    ],
)
def test_refuses_numbers_out_of_range(builder, options, message):
    with pytest.raises(ValueError, match=message):
        builder(**options)
