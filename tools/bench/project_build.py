"""How long `mcmc build` takes for a project of a hundred models, and again after one changed.

The models are the exports in `tests/data/exports` with symbolic sizes put back, and small models of
the zoo. `mcmc init` writes the project file, and `ADDED` is all that is added by hand. Every model
is compiled for three targets, checked, and kept in the cache; then the weights of one change, and
the project is built again. `second_share` is the share of the first build's time that the second
one takes, `unchanged_share` that of a build in which nothing changed. `failed_cells` and `cells`
say what was built, `added_lines` how many lines were added. With `--quick` it is a tenth of the
models, and shares say little, because a process takes longer to start than a cell.

`write_models` and `draft` make the project; a test builds a tenth of it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import MCMC, Child, run_child
from harness.command_line import Settings, run_script

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from reopened_exports import write_reopened

TARGETS = ("mcm4", "mcm16", "mcm36")

ADDED = ("level = 0",)
"""Lines that are added to what `mcmc init` writes: with little search most time is not search's."""

ZOO = (
    "plain-cnn{image_size=16,stages=2,blocks=2,width=16}",
    "plain-cnn{image_size=16,stages=2,blocks=3,width=16}",
    "residual-cnn{image_size=16,stages=2,blocks=2,width=16}",
    "residual-cnn{image_size=16,stages=2,blocks=3,width=8}",
    "dense-cnn{image_size=16,stages=2,blocks=2,growth=8}",
    "branched-cnn{image_size=16,stages=2,blocks=2,width=8}",
    "separable-cnn{image_size=16,stages=2,blocks=2,width=8}",
    "separable-cnn{image_size=16,stages=2,blocks=3,width=8}",
    "unet-cnn{image_size=16,stages=2,blocks=1,width=8}",
    "ensemble-cnn{image_size=16,stages=2,blocks=1,width=8}",
    "bert-tiny",
    "gpt2-tiny",
    "stacked-rnn{steps=4,layers=2,hidden=16}",
    "bidirectional-rnn{steps=4,layers=1,hidden=16}",
    "encoder-decoder-rnn{steps=4,layers=1,hidden=16}",
)
"""Small models of the zoo, which make the hundred full."""

QUICK = (
    "dynamo_external_data",
    "dynamo_mixture_opset18",
    "jax_while",
    "sklearn_columns",
    "sklearn_onehot_integers",
    "text_scan",
    "torch_gru_opset11",
    "torch_lenet_opset7",
    "xgboost_regressor",
)
"""Exports of a tenth of the project: of every kind, and none that takes long."""

MODELS = 100
CHANGED = "zoo_00"
"""Name of the model that changes."""


def measure(settings: Settings) -> list[Bar]:
    """Builds the project, changes a model, and builds again."""
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        folder = Path(name)
        names = write_models(folder / "models", quick=settings.quick)
        draft(folder)
        first = _build(folder)
        unchanged = _build(folder)
        change(folder)
        second = _build(folder)
        cells = json.loads(second.stdout)["cells"]
        anew = [cell["cell"] for cell in cells if not cell["cached"]]
        if anew != [f"{CHANGED}/{target}" for target in TARGETS]:
            raise SystemExit(f"the second build compiled {anew}")
        failed = [cell["cell"] for cell in cells if not cell["ok"]]
        return [
            median_bar("cells", [len(cells)], len(names) * len(TARGETS) - 0.5, "above"),
            median_bar("failed_cells", [len(failed)], 0.5),
            median_bar("added_lines", [len(ADDED)], 10.0),
            median_bar("first_build_s", [first.seconds], 3600.0),
            median_bar("unchanged_share", [unchanged.seconds / first.seconds], 0.05),
            # A process takes longer to start than a tenth of the cells.
            median_bar(
                "second_share", [second.seconds / first.seconds], 1.0 if settings.quick else 0.10
            ),
        ]


def write_models(models: Path, *, quick: bool) -> list[str]:
    """Writes the models of the project.

    Args:
        models: the folder, made anew.
        quick: a tenth of the models.

    Returns:
        Their names.
    """
    names = [path.stem for path in write_reopened(models, every=False)]
    if quick:
        for name in {*names} - {*QUICK}:
            for path in models.glob(f"{name}.onnx*"):
                path.unlink()
    for number, spec in enumerate(ZOO[: 1 if quick else MODELS - len(names)]):
        run_child([MCMC, "zoo", spec, "-o", models / f"zoo_{number:02}.onnx"])
    return sorted(path.stem for path in models.glob("*.onnx"))


def draft(folder: Path) -> None:
    """Lets `mcmc init` write the project file of a folder, and adds `ADDED`."""
    targets = [word for target in TARGETS for word in ("--target", target)]
    run_child([MCMC, "init", folder, *targets])
    path = folder / "mcmc.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text("".join(f"{line}\n" for line in ADDED) + text, encoding="utf-8")


def change(folder: Path) -> None:
    """Gives a model of the project other weights."""
    model = folder / "models" / f"{CHANGED}.onnx"
    spec = f"{ZOO[0].removesuffix('}')},seed=7}}"
    run_child([MCMC, "zoo", spec, "-o", model, "--force"])


def _build(folder: Path) -> Child:
    return run_child([MCMC, "build", folder / "mcmc.toml", "--format", "json"])


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
