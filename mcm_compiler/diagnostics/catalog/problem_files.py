"""Codes MCM-F###: problem files, assignments, pins and forbidden chips."""

from __future__ import annotations

from mcm_compiler.diagnostics.catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-F001",
        "a file is no placement problem",
        "mcmc partition reads JSON in the form of the inputs of Tarnawski et al. 2020; the\n"
        "message gives the first field that is missing or of the wrong kind.\n"
        "docs/how-to/partitioning-problems.md describes the form.",
        example="`mcmc partition model.json` of a file without the key nodes",
        remedy="Write the file in the form of docs/how-to/partitioning-problems.md.",
    ),
    CatalogEntry(
        "MCM-F002",
        "a number that no cost can be",
        "Times, sizes and transfer costs are finite and not negative. NaN and infinity are not\n"
        "JSON at all; a negative time would let a placement cost less the more it does.",
        example='"fpgaLatency": -3.5 in a placement problem',
        remedy="Give finite numbers that are not negative.",
    ),
    CatalogEntry(
        "MCM-F003",
        "a placement problem contradicts itself",
        "Two nodes share an id, an edge leads to or from a node that is not there, or two edges\n"
        "give the output of one node different transfer times.",
        example="two nodes have the id 17",
        remedy="Give every node an id of its own, and every edge two nodes that exist.",
    ),
    CatalogEntry(
        "MCM-F004",
        "a placement problem has a cycle",
        "Operators wait for what they read, so a graph with a cycle never starts. The message\n"
        "gives the nodes along one.",
        example="edges 3 to 5 and 5 to 3: the graph has a cycle of 2 nodes",
        remedy="Remove or reverse one of the edges along the cycle.",
    ),
    CatalogEntry(
        "MCM-F005",
        "rule, cost or strategy do not fit the problem",
        "On a ring there are no CPUs, and no backward pass, whose data would flow against it.\n"
        "The cost `ring` needs a ring, and partition strategies know accelerators only.",
        example="`--cost ring --rule none`: the cost 'ring' needs a ring, and the rule is none",
        remedy="Give --rule relay or strict with --cost ring, or --rule none for CPUs and\n"
        "training.",
    ),
    CatalogEntry(
        "MCM-F006",
        "no device, or more devices than can be used, or no device that is large enough",
        "There has to be a device, and no more than there are nodes, when the number is asked\n"
        "for. Nodes that stay together, by their color or because they lie on a cycle between\n"
        "colors, have to fit one accelerator, and all nodes the accelerators together, unless\n"
        "there are CPUs, which have no limit. This is a proof that there is no placement.",
        example="`--max-accelerators 40` for 30 nodes: 40 devices are asked for, and the\n"
        "problem has 30 nodes",
        remedy="Ask for at most one device per node, for larger devices, or allow CPUs with\n"
        "--max-cpus 1.",
    ),
    CatalogEntry(
        "MCM-F007",
        "no valid placement was found",
        "The search found no placement that keeps the memory of the accelerators and the rule.\n"
        "Where the message counts order ideals, all were looked at: there is none of the kind\n"
        "that is searched. Where it speaks of samples, there may be one.",
        example="memory is so tight that no placement was found within 100,000 samples",
        remedy="Allow more samples or another --rule, or give the devices more memory.",
    ),
    CatalogEntry(
        "MCM-F010",
        "an assignment cannot be read",
        "An assignment is a CSV file with the columns name,chip, or a JSON file with chips by\n"
        "name. Chips are whole numbers from 0 on, and no name stands twice.",
        example="a CSV file without the header name,chip",
        remedy="Write the columns name,chip, with whole numbers from 0 on and each name once.",
    ),
    CatalogEntry(
        "MCM-F011",
        "a pin or an assignment names nothing",
        "No op and no fusion group of the simplified model has that name, or matches that\n"
        "pattern. The hint gives the nearest names. In patterns * stands for any characters and\n"
        "? for one. Constants and what is folded into them have no place, so they have no chip.",
        example="`--pin 'conv9=0'` of a model whose convolutions are conv1 to conv8",
        remedy="Take a name from the hint; `mcmc opt MODEL --passes simplify` prints all.",
    ),
    CatalogEntry(
        "MCM-F012",
        "placement constraints contradict each other",
        "Two pins, or two rows of an assignment, want one op, or ops that stay together in one\n"
        "kernel, on two chips; or a pinned op depends on one that is pinned to a higher chip,\n"
        "and data flows to higher chips only; or the pins leave a chip below a used one empty.",
        example="`--pin 'a=2' --pin 'b=1'` where b reads what a makes: data flows to higher\n"
        "chips only",
        remedy="Take back one of the two constraints that the message names.",
    ),
    CatalogEntry(
        "MCM-F013",
        "an assignment leaves ops without a chip",
        "An assignment replaces the search, so it has to give a chip to every op, be it by a\n"
        "pattern. To fix some ops and have the rest searched, use --pin.",
        example="a CSV file with rows for the encoder alone",
        remedy="Add a last row `*,CHIP` for all that is left, or use --pin and leave the rest\n"
        "to the search.",
    ),
    CatalogEntry(
        "MCM-F014",
        "an assignment breaks a rule",
        "The assignment is complete but no valid partition: data would flow against the ring, a\n"
        "chip below a used one is empty, a long dependency has another way beside it (under\n"
        "`strict` routing), a chip's memory does not suffice, or a pin is not kept. The hint\n"
        "gives the nearest valid assignment that was found, and --repair-assignment takes it.",
        example="the assignment puts a reader on chip 1 and what it reads on chip 2",
        remedy="Take the nearest valid assignment of the hint, with --repair-assignment.",
    ),
    CatalogEntry(
        "MCM-F015",
        "an assignment was repaired",
        "The assignment breaks a rule, and --repair-assignment replaced it by the nearest valid\n"
        "one that was found. --assignment-out writes that one.",
        example="an assignment that broke a rule, given with --repair-assignment",
        remedy="Nothing has to be done; --assignment-out writes what was taken.",
    ),
    CatalogEntry(
        "MCM-F016",
        "rows of an assignment are for ops that are no more",
        "A note: the model as given has these ops, but they were folded into constants, merged\n"
        "with equal ones or split, so that their rows mean nothing.",
        example="the assignment has a row for a Transpose of a weight, which was folded",
        remedy="Nothing has to be done; remove the rows to be rid of the note.",
    ),
    CatalogEntry(
        "MCM-F020",
        "a chip cannot be forbidden",
        "--forbid-chip names a place in the package where there is no chip, or all of them, or a\n"
        "chip that the description overrides already, or the target knows no smaller package.",
        example="`--forbid-chip 40` for a package of 36 chips",
        remedy="Name places that the package has; chips that are overridden are switched off\n"
        "in the description.",
    ),
    CatalogEntry(
        "MCM-F021",
        "a request that latency has no answer for",
        "The latency of one sample is about accelerators at a host and about inference: rules of\n"
        "the ring, strategies that search for short periods, and backward passes have none.",
        example="`--objective latency --rule relay`",
        remedy="Leave the option out, or give --objective period.",
    ),
    CatalogEntry(
        "MCM-F022",
        "objective and cost do not fit each other",
        "Each cost is one of the period or one of the latency. Without --cost the objective's own\n"
        "is taken.",
        example="`--objective latency --cost ring`: the cost 'ring' is one of the period",
        remedy="Give the objective that the message names, or no --cost.",
    ),
)
