"""Codes MCM-L###: policies, their checkpoints, and their training."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-L001",
        "a file is no policy checkpoint, or a damaged one",
        "Checkpoints are safetensors files with a card in their header, which says what policy\n"
        "they hold. They are read as data only, up to 256 MiB. The message says what is missing\n"
        "or cut off.",
        example="`--partitioner 'rl-zeroshot{policy=model.onnx}'`",
        remedy="Name a checkpoint that mcmc train wrote.",
    ),
    CatalogEntry(
        "MCM-L002",
        "a policy was trained on other features",
        "What a policy reads of a problem has a version, which rises when a column changes its\n"
        "meaning. The weights of another version would read the wrong columns. Train the policy\n"
        "again, or use the one that comes with the compiler.",
        example="a policy that an earlier release trained",
        remedy="Train it again, or use the one that comes with the compiler.",
    ),
    CatalogEntry(
        "MCM-L003",
        "the weights of a policy do not fit its card",
        "The card gives the layers, widths and knots, from which follow the names and shapes of\n"
        "all weights, in 32-bit floats. A weight is missing, unknown, of another shape or type,\n"
        "or holds numbers that are not finite.",
        example="a checkpoint whose card says 3 layers and that holds 2",
        remedy="Train the policy again; the file was changed.",
    ),
    CatalogEntry(
        "MCM-L004",
        "an evaluator gave rewards that are no numbers",
        "Rewards are finite and not negative: throughput over that of a baseline, and 0 for a\n"
        "partition that does not run. One NaN would make all weights of a policy NaN, so learning\n"
        "stops at the first. The fault lies in the evaluator or the cost model that gave it.",
        example="a simulator of a plug-in gives NaN for a partition: 1 of 32 rewards are no\n"
        "numbers from 0 up",
        remedy="Mend the simulator or cost model: the reward of what does not run is 0, any\n"
        "other is finite.",
    ),
    CatalogEntry(
        "MCM-L005",
        "a graph is too large to learn on",
        "For learning, graphs are padded to one of few sizes, and memory grows with nodes times\n"
        "chips times rollouts, so that there is a largest size. The classical strategies have\n"
        "no such limit.",
        example="`--partitioner rl` on a model of 100,000 ops",
        remedy="Search with a classical strategy, such as portfolio.",
    ),
    CatalogEntry(
        "MCM-L006",
        "a policy diverges",
        "A loss or a gradient is no longer finite, so every later weight would be NaN. The state\n"
        "of the training before stays in its folder.",
        example="a recipe with a learning rate of 1: the policy diverges after 320 samples",
        remedy="Take another --seed, or a recipe with a lower learning rate.",
    ),
    CatalogEntry(
        "MCM-L007",
        "no model of a data set fits the package",
        "Rewards relate to the partition that the greedy heuristic finds, and it finds none for\n"
        "any model of the data set: as a rule their weights need more memory than the package\n"
        "has. Single models without one are left out of a training, and listed at its end.",
        example="T5-11B in a data set for a package of 144 MiB",
        remedy="Choose a target with more memory, or smaller models.",
    ),
    CatalogEntry(
        "MCM-L008",
        "a folder belongs to another training",
        "With --resume a training goes on where it was stopped, which is only right with the\n"
        "options, models, target and versions that it began with. The message gives the first\n"
        "that differs. Only the options workers and scheduler of the trainer `policy` may change.",
        example="`mcmc train policy --resume -o trained --set samples=900` where 400 was asked\n"
        "for at first",
        remedy="Give the options that the training began with, or another folder.",
    ),
    CatalogEntry(
        "MCM-L009",
        "the state of a training is damaged",
        "The state is written at once, so that no kill leaves half of it. Something else has\n"
        "changed it, or the metrics beside it.",
        example="the metrics file was shortened by hand",
        remedy="Start the training again in another folder.",
    ),
    CatalogEntry(
        "MCM-L010",
        "workers or their scheduler are lost",
        "A job whose worker dies is started again, a few times. One that takes its worker with it\n"
        "each time is given up: as a rule memory has run out. What was done until then is on\n"
        "disk, and --resume goes on.",
        example="the system killed a worker three times for lack of memory",
        remedy="Give workers more memory or start fewer, and go on with --resume.",
    ),
    CatalogEntry(
        "MCM-L011",
        "a data set cannot be read",
        "A data set is mcm87, which is built in, or a JSON file with the two lists train and\n"
        "validation. Each entry is what mcmc compile takes: the path of an ONNX file, or zoo: and\n"
        "the name of a builder. Behind a file may stand sizes, such as a.onnx{batch=1;8,seq=64}.",
        example="`--set data_set=models.json` of a file without the list validation",
        remedy="Take 'mcm87', or a JSON file with the lists train and validation.",
    ),
    CatalogEntry(
        "MCM-L012",
        "something that learning needs is not installed",
        "What learns needs JAX, Flax and optax, which the extra `learn` installs:\n"
        'pip install "mcm-compiler[learn]". That is the strategies rl and rl-finetune, and\n'
        "`mcmc train policy`. rl-zeroshot, which draws from a trained policy, does without.\n"
        "Work on several machines goes through dask.distributed, which the extra `cluster`\n"
        'installs: pip install "mcm-compiler[cluster]". On one machine it is not needed. Curves\n'
        "for TensorBoard are written by tensorboardX, of the extra `tensorboard`.",
        example="`mcmc compile model.onnx --partitioner rl` without JAX",
        remedy='pip install "mcm-compiler[learn]", or the extra `cluster` for a scheduler,\n'
        "`tensorboard` for curves; or choose what does without.",
    ),
    CatalogEntry(
        "MCM-L013",
        "a part that learns was left out",
        "-O3 learns in addition to its exact and classical methods. Without the extra `learn`\n"
        "those run alone, and the report names the strategy as it ran: the same on every run.\n"
        " What is asked for by name is never left out: that is MCM-L012.",
        example="`mcmc compile model.onnx -O3` without JAX",
        remedy='pip install "mcm-compiler[learn]", or take the result as it is.',
    ),
)
