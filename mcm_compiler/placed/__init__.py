"""Models placed in a box: the search, the folder that holds its result, its report and its check.

A placement says which device runs each op. The folder has what a user does with it. These are
models of segments, which run one after another on one device each, and settings for runtimes that
take the device of an op as a wish.

The folder has a manifest and records of its own: it holds no program and no certificate, and its
models are segments that run one after another. Reading, hashes, traces and the loop of the check
are those of compiled folders.
"""
