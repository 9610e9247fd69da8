"""Small configurations of every zoo model."""

from __future__ import annotations

from typing import Any

from mcm_models.zoo.bert import Bert
from mcm_models.zoo.cnn_families import (
    BranchedCnn,
    DenseCnn,
    EnsembleCnn,
    PlainCnn,
    ResidualCnn,
    SeparableCnn,
)
from mcm_models.zoo.gpt2 import Gpt2
from mcm_models.zoo.image_networks import InceptionV3, MobileNetV2, ResNet50, Vgg19
from mcm_models.zoo.llama import Llama
from mcm_models.zoo.lstm_language_models import LstmLm
from mcm_models.zoo.nmt import Nmt
from mcm_models.zoo.rnn_families import BidirectionalRnn, ConvRnn, EncoderDecoderRnn, StackedRnn
from mcm_models.zoo.t5 import T5
from mcm_models.zoo.unet_cnn import UnetCnn

_BERT = {"layers": 2, "hidden": 32, "heads": 2, "intermediate": 64, "vocab": 50, "seq": 12}
_CNN = {"image_size": 16, "stages": 2, "blocks": 2, "width": 8, "batch": 2}
_IMAGES = _CNN | {"classes": 10}
_DENSE = {"image_size": 16, "stages": 2, "blocks": 2, "growth": 8, "classes": 10}
_RNN = {"layers": 2, "steps": 3, "hidden": 24, "batch": 2}
_WORDS = _RNN | {"vocab": 50}
_LLAMA = {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "intermediate": 96}
_T5 = {"hidden": 32, "heads": 2, "head_width": 24, "intermediate": 64, "vocab": 50}

SMALL: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "resnet50": (ResNet50, {"image_size": 64, "classes": 10, "batch": 2}),
    "vgg19": (Vgg19, {"image_size": 32, "classes": 10}),
    "inception-v3": (InceptionV3, {"image_size": 75, "classes": 10}),
    "mobilenet-v2": (MobileNetV2, {"image_size": 64, "classes": 10}),
    "lstm-lm": (LstmLm, {"hidden": 24, "vocab": 50, "seq": 7, "batch": 2}),
    "nmt": (Nmt, {"layers": 3, "steps": 4, "hidden": 24, "vocab": 50, "batch": 2}),
    "plain-cnn": (PlainCnn, _IMAGES),
    "residual-cnn": (ResidualCnn, _IMAGES),
    "residual-cnn-grouped": (
        ResidualCnn,
        _IMAGES | {"block": "bottleneck", "groups": 4, "gated": True},
    ),
    "dense-cnn": (DenseCnn, _DENSE),
    "branched-cnn": (BranchedCnn, _IMAGES | {"kernel": 5}),
    "separable-cnn": (SeparableCnn, _IMAGES | {"kernel": 5}),
    "separable-cnn-inverted": (SeparableCnn, _IMAGES | {"expansion": 3, "gated": True}),
    "unet-cnn": (UnetCnn, _CNN | {"classes": 3}),
    "ensemble-cnn": (EnsembleCnn, _IMAGES),
    "stacked-rnn": (StackedRnn, _RNN | {"features": 12}),
    "stacked-rnn-gru": (StackedRnn, _RNN | {"cell": "gru", "residual": True}),
    "bidirectional-rnn": (BidirectionalRnn, _WORDS),
    "bidirectional-rnn-gru": (BidirectionalRnn, _WORDS | {"cell": "gru"}),
    "encoder-decoder-rnn": (EncoderDecoderRnn, _WORDS),
    "encoder-decoder-rnn-gru": (EncoderDecoderRnn, _WORDS | {"cell": "gru"}),
    "conv-rnn": (ConvRnn, _RNN | {"width": 8, "blocks": 1, "height": 16, "cell": "gru"}),
    "bert": (Bert, _BERT | {"batch": 2}),
    "bert-computed": (Bert, _BERT | {"computed_shapes": True}),
    "t5": (T5, _T5 | {"layers": 2, "decoder_layers": 3, "seq": 40, "decoder_seq": 36}),
    "gpt2": (Gpt2, {"layers": 2, "hidden": 32, "heads": 2, "intermediate": 64, "seq": 36}),
    "llama": (Llama, _LLAMA | {"vocab": 50, "past": 5, "seq": 36, "experts": 3}),
}
