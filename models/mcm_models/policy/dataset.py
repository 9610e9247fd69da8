"""The models that the policy is pre-trained on, and which of them it may learn from.

Xie et al. 2022 (MCM), section 5.1, train on 66 graphs, choose among checkpoints by 5, and report
16: convolutional and recurrent networks of tens to hundreds of nodes, none with attention. Theirs
are not public; these are ours, with the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

NUM_VALIDATION = 5
"""Models that choose among checkpoints (MCM, section 5.1)."""

NUM_TEST = 16
"""Models that only reports look at (MCM, section 5.1)."""

# Image sizes, channels and batches spread the work over many ops: on mcm36 the heaviest unit of
# all but three models takes less than a twelfth of the work. The weights of six models fill 30 to
# 52 % of the package's memory; in three recurrent ones those of a layer fill more than half a chip,
# so that its steps, which share them, cannot go just anywhere.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "plain-cnn": (
        "stages=3,blocks=4,width=128,image_size=32",
        "stages=4,blocks=12,width=32,widen=2.5,kernel=3,image_size=96",
        "stages=3,blocks=16,width=48,kernel=5,batch=2",
        "stages=5,blocks=8,width=48,kernel=3,image_size=128",
        "stages=2,blocks=24,width=768,kernel=3,image_size=16",
        "stages=3,blocks=20,width=96,widen=1.5,kernel=3,batch=4,image_size=32",
        "stages=4,blocks=16,width=40,kernel=7,image_size=48",
    ),
    "residual-cnn": (
        "blocks=6,width=64,widen=2.5",
        "blocks=8,width=48,kernel=3,image_size=96",
        "stages=3,blocks=4,width=64,kernel=5,image_size=48",
        "stages=3,blocks=12,width=80,batch=4,image_size=32",
        "blocks=3,width=64,block=bottleneck",
        "blocks=6,width=32,block=bottleneck,image_size=96",
        "blocks=5,width=128,block=bottleneck,groups=32,kernel=3,batch=2",
        "blocks=4,width=96,gated=true",
        "stages=3,blocks=5,width=64,block=bottleneck,gated=true,batch=2",
        "stages=2,blocks=14,width=640,image_size=16",
        "stages=1,blocks=28,width=1024,image_size=16",
    ),
    "dense-cnn": (
        "stages=3,blocks=8,growth=64",
        "stages=3,blocks=12,growth=32,batch=4",
        "stages=4,blocks=6,growth=48,image_size=64",
        "stages=2,blocks=16,growth=64,kernel=5",
        "stages=4,blocks=10,growth=24,image_size=64,batch=2",
        "stages=2,blocks=6,growth=704,image_size=16",
        "stages=3,blocks=10,growth=48,kernel=7",
    ),
    "branched-cnn": (
        "stages=3,blocks=2,branches=3,width=128",
        "stages=3,blocks=2,branches=5,width=48",
        "stages=2,blocks=5,branches=4,width=64,batch=4",
        "stages=4,blocks=3,branches=2,width=96,image_size=64",
        "stages=3,blocks=2,branches=4,width=64,kernel=5,batch=2",
        "stages=3,blocks=3,branches=4,width=32,image_size=64",
        "stages=2,blocks=4,branches=3,width=832,image_size=16",
        "stages=2,blocks=2,branches=6,width=48,batch=8",
    ),
    "separable-cnn": (
        "stages=4,blocks=8,width=64",
        "stages=3,blocks=9,width=64,widen=4,kernel=5,batch=2",
        "stages=5,blocks=10,width=48,image_size=128",
        "stages=3,blocks=7,width=32,widen=3,expansion=6",
        "stages=3,blocks=8,width=40,widen=3,expansion=4,kernel=5",
        "stages=3,blocks=8,width=64,expansion=3,batch=4,image_size=32",
        "stages=3,blocks=6,width=48,widen=4,expansion=3,gated=true",
        "stages=3,blocks=6,width=64,gated=true,batch=2",
        "stages=3,blocks=6,width=32,widen=3,expansion=4,kernel=7,gated=true",
    ),
    "unet-cnn": (
        "stages=3,blocks=4,width=64,image_size=48",
        "stages=5,blocks=4,width=32,image_size=128",
        "stages=4,blocks=6,width=48,batch=2",
        "stages=3,blocks=8,width=64,kernel=5",
        "stages=5,blocks=6,width=64,image_size=64",
        "stages=6,blocks=4,width=24,image_size=128,kernel=5",
        "stages=3,blocks=8,width=416,image_size=16",
    ),
    "ensemble-cnn": (
        "members=4,stages=3,blocks=4,width=64",
        "members=6,stages=3,blocks=3,width=48,batch=4",
        "members=3,stages=4,blocks=8,width=32,image_size=64",
        "members=8,stages=2,blocks=4,width=96",
        "members=5,stages=3,blocks=6,width=64,kernel=5",
        "members=4,stages=2,blocks=6,width=576,image_size=16",
    ),
    "stacked-rnn": (
        "layers=2,steps=6,hidden=512,batch=128",
        "layers=3,steps=5,hidden=512,batch=16",
        "layers=4,steps=4,hidden=1024,batch=4",
        "layers=6,steps=3,hidden=640,residual=true,batch=8",
        "layers=2,steps=14,hidden=384,batch=32",
        "layers=4,steps=5,hidden=256,batch=64,residual=true",
        "cell=gru,layers=2,steps=7,hidden=512,batch=8",
        "cell=gru,layers=3,steps=5,hidden=768",
        "cell=gru,layers=5,steps=3,hidden=1024,residual=true,batch=16",
        "cell=gru,layers=4,steps=4,hidden=320,batch=64",
        "cell=gru,layers=3,steps=8,hidden=2048,batch=4",
    ),
    "bidirectional-rnn": (
        "layers=1,steps=8,hidden=512,batch=64",
        "layers=2,steps=5,hidden=512,batch=16",
        "layers=2,steps=4,hidden=1024,batch=32",
        "layers=3,steps=3,hidden=384,batch=64",
        "cell=gru,layers=1,steps=9,hidden=640,batch=4",
        "cell=gru,layers=2,steps=4,hidden=448,batch=32",
        "cell=gru,layers=2,steps=5,hidden=1536,batch=8",
        "cell=gru,layers=3,steps=3,hidden=256,batch=64",
    ),
    "encoder-decoder-rnn": (
        "layers=2,steps=5,hidden=512,vocab=2000,batch=16",
        "layers=1,steps=8,hidden=768,batch=8,vocab=4000",
        "layers=3,steps=3,hidden=512,batch=64,vocab=1000",
        "layers=4,steps=3,hidden=1536,batch=4,vocab=4000",
        "cell=gru,layers=2,steps=4,hidden=512,batch=16,vocab=2000",
        "cell=gru,layers=1,steps=7,hidden=640,vocab=8000,batch=4",
        "cell=gru,layers=3,steps=3,hidden=768,batch=32,vocab=2000",
    ),
    "conv-rnn": (
        "layers=1,steps=6,hidden=320,stages=3,blocks=4,width=64,batch=4",
        "layers=1,steps=8,hidden=512,stages=3,blocks=6,width=64,batch=2",
        "layers=2,steps=4,hidden=384,stages=2,blocks=8,width=64,batch=4",
        "cell=gru,layers=1,steps=6,hidden=768,stages=3,blocks=5,width=48,kernel=5",
        "cell=gru,layers=2,steps=3,hidden=512,stages=3,blocks=6,width=64",
        "cell=gru,layers=1,steps=8,hidden=640,stages=3,blocks=3,width=64,batch=2",
    ),
}


def _specs(family: str) -> tuple[str, ...]:
    return tuple(f"{family}{{{options},shape_only=true}}" for options in _OPTIONS[family])


MODELS: tuple[str, ...] = tuple(spec for family in _OPTIONS for spec in _specs(family))
"""Text of each model for the zoo, such as `plain-cnn{blocks=4,shape_only=true}`: 87, as in MCM,
section 5.1. Weights have shapes but no values: partitioning asks for no more."""


@dataclass(frozen=True)
class DatasetSplit:
    """A division of `MODELS`; each part is in their order.

    Attributes:
        train: 66 models to learn from.
        validation: 5 models that choose among checkpoints.
        test: 16 models for reports, used for nothing else.
    """

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


def split(seed: int = 0) -> DatasetSplit:
    """Divides `MODELS` into 66, 5 and 16 (MCM, section 5.1), with every family in proportion.

    The paper draws at random; here each family has its share of the 16 and of the 5 by largest
    remainders, and only which of its models go where is drawn. So every family is in `test`, and
    the five largest in `validation`, whatever the seed.

    Args:
        seed: same seed, same split.
    """
    rng = np.random.default_rng(seed)
    sizes = [len(options) for options in _OPTIONS.values()]
    for_test = _seats(sizes, NUM_TEST)
    for_validation = _seats(sizes, NUM_VALIDATION)
    test: list[str] = []
    validation: list[str] = []
    for family, tests, validations in zip(_OPTIONS, for_test, for_validation, strict=True):
        specs = _specs(family)
        drawn = [specs[i] for i in rng.permutation(len(specs))]
        test += drawn[:tests]
        validation += drawn[tests : tests + validations]
    return DatasetSplit(
        train=tuple(spec for spec in MODELS if spec not in {*test, *validation}),
        validation=tuple(spec for spec in MODELS if spec in validation),
        test=tuple(spec for spec in MODELS if spec in test),
    )


def _seats(sizes: Sequence[int], seats: int) -> list[int]:
    """Divides `seats` in proportion to `sizes` by largest remainders; ties go to the first."""
    total = sum(sizes)
    given = [size * seats // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda i: -(sizes[i] * seats % total))
    for i in by_remainder[: seats - sum(given)]:
        given[i] += 1
    return given
