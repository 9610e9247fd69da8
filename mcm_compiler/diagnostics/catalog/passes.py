"""Codes MCM-X###: passes and plug-ins."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-X001",
        "name registered twice",
        "Two distributions or files register a component of the same kind under the same name.\n"
        "Which of them would run is left to chance, so neither does. Rename one, or uninstall its\n"
        "distribution.",
        example="two plug-ins register a pass named clean",
        remedy="Rename one of them, or uninstall its distribution.",
    ),
    CatalogEntry(
        "MCM-X002",
        "pass without its facts",
        "A pass requires a fact (a fusion plan, costs, a partition) that no earlier pass of the\n"
        "pipeline provides. The whole pipeline is checked before anything runs. The hint names\n"
        "passes that provide it; mcmc passes --format json lists what each requires and provides.",
        example="`--passes partition`: pass 'partition' requires 'node_cost'",
        remedy="Put a pass of the hint before it, such as annotate_cost.",
    ),
    CatalogEntry(
        "MCM-X003",
        "component cannot be imported",
        "A component, or a collection of them, is registered, but the import of its module fails:\n"
        "its distribution is damaged, or a package that it needs is not installed. Reinstall or\n"
        "remove the distribution.",
        example="a plug-in's package needs scipy, which is not installed",
        remedy="Reinstall the distribution with what it needs, or remove it.",
    ),
    CatalogEntry(
        "MCM-X004",
        "plug-in file fails",
        "The file given to --plugin does not exist, is not Python, or raises while it is\n"
        "imported. It is run once; its decorators register its components.",
        example="`--plugin mine.py` with a syntax error",
        remedy="Correct the file; it is plain Python and has to run by itself.",
    ),
    CatalogEntry(
        "MCM-X005",
        "pass broke an invariant",
        "After every pass the compiler checks that nodes and values have unique names, that nodes\n"
        "stand in topological order, and that the pass provided what it declares. A pass that\n"
        "breaks this is named. The fault is the pass's, not the model's; mcmc opt --print-after\n"
        "shows what it did.",
        example="a pass gives two nodes the name 'a'",
        remedy="Mend the pass; mcmc opt --print-after NAME shows what it did.",
    ),
    CatalogEntry(
        "MCM-X006",
        "pass failed",
        "A pass raised an exception that is not a diagnostic. The fault is the pass's, or that of\n"
        "a target that it asked, not the model's; the place names the distribution. Run again\n"
        "with the environment variable MCMC_DEBUG=1 to see the stack trace, and report it to\n"
        "whoever provides the pass.",
        example="pass 'mine' failed: IndexError: list index out of range",
        remedy="Mend the pass; MCMC_DEBUG=1 shows the stack trace.",
    ),
    CatalogEntry(
        "MCM-X007",
        "component failed",
        "A component that is found by name, such as a strategy, a placer, a mapper, a target or a\n"
        "model of the zoo, raised an exception that is not a diagnostic, answered with something\n"
        "else than its contract says, or is not what its decorator takes: a target that is None.\n"
        "The fault is the component's, not the model's. Run again with MCMC_DEBUG=1 to see the\n"
        "stack trace, and report it to whoever provides the component, which the place names.",
        example="the function of register_target raises RuntimeError",
        remedy="Mend the component; MCMC_DEBUG=1 shows the stack trace.",
    ),
    CatalogEntry(
        "MCM-X010",
        "passes ran again",
        "A pass changed the graph, or made a fact anew from which others were derived (fuse a\n"
        "second time, for example). What was derived from it no longer held, so the passes that\n"
        "make those facts ran again, with the options that the pipeline gives them. The result is\n"
        "right; an order of passes in which nothing has to be made twice saves the time.",
        example='`--passes "fuse,annotate_cost,parallelize,drop_id,partition,..."`: fuse ran\n'
        "again after drop_id",
        remedy="Put the pass that changes the graph earlier to save the time.",
    ),
    CatalogEntry(
        "MCM-X011",
        "fact no longer holds",
        "A pass requires a fact that an earlier pass made untrue, by changing the graph or by\n"
        "making another fact anew, and no pass of the pipeline can make it again. The message\n"
        "names the pass after which it fell. A pass that changes the graph and keeps a fact true\n"
        "declares so with preserves; otherwise put a pass that provides the fact between the two.",
        example="a pass changes the graph between partition and a pass that needs the\npartition",
        remedy="Put a pass that provides the fact between the two, or declare preserves.",
    ),
    CatalogEntry(
        "MCM-X012",
        "pass of onnx_ir refuses the model",
        "A pass of onnx_ir that the pipeline names raised an error; the message holds its reason.\n"
        "CheckerPass and ShapeInferencePass do so for models that they find faulty, and the\n"
        "compiler is more patient than they are. Leave the pass out, or mend the model.",
        example="`--passes onnx_ir.CheckerPass` of a model with a faulty attribute",
        remedy="Leave the pass out, or mend what it names.",
    ),
    CatalogEntry(
        "MCM-X013",
        "passes changed what the model takes or gives",
        "The compiled folder runs as the model does, with its inputs and outputs, and is compared\n"
        "with it. A pass took an output away, or has the model take an input that it did not\n"
        "have: a training step, for example, takes the weights as inputs. Passes that make\n"
        "another model belong to mcmc opt, whose result can be compiled.",
        example="`mcmc compile --passes 'simplify,differentiate,fuse,...'`",
        remedy="Run such a pass with `mcmc opt MODEL -o CHANGED --passes ...`, and compile\n"
        "what it writes.",
    ),
)
