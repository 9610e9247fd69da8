"""Codes MCM-U###: options and the command line."""

from __future__ import annotations

from mcm_compiler.diagnostic_catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-U001",
        "malformed text of a pipeline or a name with options",
        "Pipelines, strategies and zoo models are written as name{option=value,...}, and a\n"
        "pipeline is a comma-separated list of them. Values with commas, braces, blanks or quotes\n"
        "go in double quotes. The message gives the column where reading stopped.",
    ),
    CatalogEntry(
        "MCM-U002",
        "faulty option",
        "The thing named has no such option, got one twice, lacks a required one, or refuses the\n"
        "value. Options are the fields of its dataclass; mcmc passes, mcmc strategies and mcmc\n"
        "zoo NAME list them with their types and defaults.",
    ),
    CatalogEntry(
        "MCM-U003",
        "unknown name",
        "No component of that kind is registered under that name. The message lists the known\n"
        "names and the nearest ones. Components come from installed distributions (mcmc passes,\n"
        "mcmc targets, mcmc strategies, mcmc zoo list them) and from --plugin files.",
    ),
    CatalogEntry(
        "MCM-U004",
        "option out of range",
        "An option of the compile has a value outside of its range. The message gives the value\n"
        "and the range.",
    ),
    CatalogEntry(
        "MCM-U005",
        "unknown dimension or input",
        "--dim or --shape names a dimension or an input that the model does not have. The message\n"
        "lists those that it has.",
    ),
    CatalogEntry(
        "MCM-U006",
        "pipeline writes no output folder",
        "An output folder is asked for, but no pass of the pipeline writes the chips' models. End\n"
        "--passes with split,lower,simulate,emit,verify, or use mcmc opt to run passes without an\n"
        "output folder.",
    ),
    CatalogEntry(
        "MCM-U020",
        "input arrays cannot be read",
        "The file given to --input is missing, is no .npz archive, is damaged, or holds Python\n"
        "objects, which are never loaded because loading them runs code. Write it with\n"
        "numpy.savez(path, name=array); names are those of the model's inputs.",
    ),
    CatalogEntry(
        "MCM-U021",
        "output file exists",
        "A verb that writes a single file does not replace one that is there. Choose another\n"
        "name, or give --force. A folder is never replaced by a file.",
    ),
    CatalogEntry(
        "MCM-U022",
        "output is not an array",
        "The model has an output that is a sequence or a map. An .npz file holds arrays only; run\n"
        "without -o to see what the output is.",
    ),
    CatalogEntry(
        "MCM-U023",
        "unknown diagnostic code",
        "The catalogue has no such code. mcmc explain without a code lists all. Codes of plug-ins\n"
        "have a prefix of their own and are documented by the plug-in.",
    ),
    CatalogEntry(
        "MCM-U099",
        "internal error",
        "The compiler failed in a way that it does not foresee, which is a fault of the compiler.\n"
        "Run again with the environment variable MCMC_DEBUG=1 to see the stack trace, and report\n"
        "it together with the model or the smallest model that shows it.",
    ),
)
