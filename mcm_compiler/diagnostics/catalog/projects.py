"""Codes MCM-B###: project files, and builds of them."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-B001",
        "unreadable project file",
        "The project file does not exist, cannot be read, is too large, or is not TOML. The place\n"
        "has the line. docs/reference/project-file.md has every key.",
        example="`mcmc build` in a folder without mcmc.toml",
        remedy="Name a project file, or correct the line.",
    ),
    CatalogEntry(
        "MCM-B002",
        "unknown key in the project file",
        "A table of the project file has a key that it cannot have. Nothing is built, because a\n"
        "threshold that is misspelt would never be missed.",
        example="max_regresion = \"3%\" in mcmc.toml: did you mean 'max_regression'?",
        remedy="Correct the key, or remove it.",
    ),
    CatalogEntry(
        "MCM-B003",
        "key missing in the project file",
        "A project needs models, a model needs files, a profile needs a name, and an expected\n"
        "failure needs a code and a reason.",
        example="a [[models]] table without files",
        remedy="Add the key that the hint names.",
    ),
    CatalogEntry(
        "MCM-B004",
        "value that its key cannot have",
        "A value of the project file is of another type than its key needs, or out of range. The\n"
        "hint says what it may be. Amounts are texts with their unit.",
        example='max_latency = 3: 3 is not a text such as "500 us"',
        remedy="Write the value as the hint says.",
    ),
    CatalogEntry(
        "MCM-B005",
        "given twice in the project file",
        "Two keys say the same: one stands at the top of the file and in [defaults], 'level' and\n"
        "'levels' are both given, or two profiles of a model have one name.",
        example="level = 1 and levels = [0, 2] in one table",
        remedy="Leave one of the two out, or rename one.",
    ),
    CatalogEntry(
        "MCM-B006",
        "contradictory sizes of a profile",
        "A profile gives a dimension or an input another size than its model does. Sizes that\n"
        "differ from profile to profile belong into the profiles alone. What [defaults] says is\n"
        "replaced by models and profiles, and contradicts nothing.",
        example="dims = { seq = 128 } for the model, and dims = { seq = 1 } in its profile decode",
        remedy="Give the size in the profiles alone, or once for the model.",
    ),
    CatalogEntry(
        "MCM-B007",
        "files without models",
        "A pattern of the project file matches no file, a file does not exist, or all models of a\n"
        "section are excluded. Paths are relative to the folder of the project file. Names that\n"
        "begin with a dot and output folders of the compiler are passed over.",
        example='files = "modles/**/*.onnx" where the folder is called models',
        remedy="Correct the pattern, or remove the section.",
    ),
    CatalogEntry(
        "MCM-B008",
        "cells that would lie in one folder",
        "Two models of a project have one name, a model is selected by two sections, or two\n"
        "targets are called alike, so that their output would lie in one folder.",
        example='files = ["a/net.onnx", "b/net.onnx"]: both would be called net',
        remedy="Give one of them a section with a 'name', or leave it out with 'exclude'.",
    ),
    CatalogEntry(
        "MCM-B009",
        "unknown target in the project file",
        "A target that the project file names does not exist: no target is registered under the\n"
        "name, there is no such file, or an expected failure names a target that its model is not\n"
        "compiled for.",
        example="targets = [\"mcm63\"]: there is no target 'mcm63'",
        remedy="Take a name that `mcmc targets` lists, or the path of a description.",
    ),
    CatalogEntry(
        "MCM-B010",
        "missing file of the project file",
        "Sample inputs, an assignment or a plug-in that the project file names does not exist.\n"
        "Paths are relative to the folder of the project file.",
        example='inputs = "data/sample.npz", and there is no folder data',
        remedy="Correct the path, or add the file.",
    ),
    CatalogEntry(
        "MCM-B011",
        "expected failure that did not come",
        "The project file says that a model fails on a target, and it compiles. Probably somebody\n"
        "has solved the problem; without the key the model is held to from now on.",
        example="expected_failure of a model that fits since its weights are quantised",
        remedy="Remove expected_failure.",
    ),
    CatalogEntry(
        "MCM-B012",
        "other failure than expected",
        "The project file says with which code a model fails, and it fails with another one. What\n"
        "is new is told as well.",
        example="a model that was too large for the package is damaged now",
        remedy="Correct what is new, or the code in expected_failure.",
    ),
    CatalogEntry(
        "MCM-B013",
        "failed as expected",
        "A note: the model fails as the project file says, for the reason that it gives. The cell\n"
        "counts as passed.",
        example='expected_failure = { code = "MCM-P016", reason = "needs two packages" }',
        remedy="Nothing has to be done.",
    ),
    CatalogEntry(
        "MCM-B014",
        "changed entry of the cache",
        "A warning: a file in the cache of mcmc build is not the one that was put there, or the\n"
        "entry has no signature of this installation and its check does not prove it, or cannot:\n"
        "the message says why. Nothing of the entry is used, and the cell is compiled. Somebody\n"
        "wrote into the cache, its disk is damaged, or it comes from another machine.",
        example="a byte of .mcmc-cache/entries/.../chip_00.onnx was changed",
        remedy="Leave the cache to mcmc build alone; remove the folder if its disk is damaged.",
    ),
    CatalogEntry(
        "MCM-B015",
        "throughput below the threshold",
        "The throughput of a cell is less than min_throughput, or unknown because the pipeline\n"
        "does not simulate. The output folder is written all the same.",
        example="min_throughput = 1000, and the throughput is 850 inferences/s",
        remedy="Search at a higher level, change the model or the target, or the threshold.",
    ),
    CatalogEntry(
        "MCM-B016",
        "latency above the threshold",
        "The latency of a cell is more than max_latency, or unknown because the pipeline does not\n"
        "simulate. The output folder is written all the same.",
        example='max_latency = "500 us", and the latency is 620 us',
        remedy="Use fewer chips or a faster target, or change the threshold.",
    ),
    CatalogEntry(
        "MCM-B017",
        "gap above the threshold",
        "The period of a cell is further from its lower bound than max_gap allows, or the gap is\n"
        "unknown. A longer search may find a better partition.",
        example='max_gap = "10%", and the gap is 14.2 %',
        remedy="Search at a higher level, or change the threshold.",
    ),
    CatalogEntry(
        "MCM-B018",
        "no cell to build",
        "A pattern of --only matches no cell. It is held against the name of the cell as the\n"
        "summary has it, the name and the path of its model, and its target; * also matches /.",
        example="`mcmc build --only 'bert*'` where no model is called so",
        remedy="Correct the pattern; the hint has names of cells.",
    ),
    CatalogEntry(
        "MCM-B019",
        "foreign folder as cache",
        "The folder that the project file names as its cache holds something that is no cache.\n"
        "Entries of a cache are removed when it grows, so that nothing else may lie there.",
        example='cache = "models"',
        remedy="Name a new folder, or build with --no-cache.",
    ),
    CatalogEntry(
        "MCM-B020",
        "size that no model has",
        "Sizes of the defaults and of patterns are left out for models that lack their dimension,\n"
        "and all models of the build lack this one: a warning, where all cells are built.",
        example="dims = { bach = 1 }, where models have the dimension 'batch'",
        remedy="Correct the name, or leave the size out.",
    ),
    CatalogEntry(
        "MCM-B021",
        "folders of a build that overlap",
        "Two of the cache, the baseline and the folder of the output folders are one, or one is\n"
        "inside the other, so that a build would remove or replace files of the other. Or the\n"
        "output folder of a cell has the name of a file that the build writes next to it: of the\n"
        "page of another cell, or of index.html. Nothing is built. A cache or a baseline may be\n"
        "inside the folder of the output folders where its name begins with a dot.",
        example='output = "build" and cache = "build/cache"',
        remedy="Name folders that are apart, or give the model another 'name'.",
    ),
    CatalogEntry(
        "MCM-B022",
        "first figures of cells became the accepted baseline",
        "These cells had no accepted baseline, so that their throughput could not be compared:\n"
        "they are new, or the folder of the baseline is. The figures of this build are the\n"
        "baseline now, and stay it until another one is accepted. A cell that fails becomes none.",
        example="the first `mcmc build` of a project",
        remedy="Nothing, where that is expected. Keep the folder, under version control or in CI.",
    ),
    CatalogEntry(
        "MCM-B023",
        "figures of cells were accepted as the baseline",
        "`mcmc build --accept` replaced the accepted baseline of these cells: later builds are\n"
        "compared with the figures of this one. Cells whose compile or check failed keep theirs.",
        example="`mcmc build --accept`",
        remedy="Nothing: it was asked for.",
    ),
    CatalogEntry(
        "MCM-B024",
        "baseline of cells that the project does not have",
        "The accepted baseline has figures of cells that the project file does not name, such as\n"
        "those of renamed models or of other targets. They are kept, so that a cell that comes\n"
        "back is compared with them. `mcmc build --accept` of all cells removes them.",
        example="a model that was renamed",
        remedy="Run `mcmc build --accept` where that is meant.",
    ),
    CatalogEntry(
        "MCM-B025",
        "entry of a cache proven again",
        "The entry of the cache has no signature of this installation: the cache was made on\n"
        "another machine or by another user, or it was changed. Nothing in it was believed:\n"
        "the folder was checked against the model, the target and the options of the cell, which\n"
        "takes as long as `mcmc check --model`. It is signed now.",
        example="a cache of CI that was restored on another runner",
        remedy="Nothing, where the cache comes from elsewhere.",
    ),
    CatalogEntry(
        "MCM-B026",
        "no key to sign a cache with",
        "Entries of the cache are signed with a key in the user's state folder, which is made on\n"
        "first use ($XDG_STATE_HOME/mcmc/cache-key, else ~/.local/state/mcmc/cache-key). It could\n"
        "not be read or made, or it is inside the project. Without a key no entry is believed:\n"
        "each build proves entries of the cache again.",
        example="a container without a writable home folder",
        remedy="Let XDG_STATE_HOME name a folder that this user alone can write.",
    ),
)
