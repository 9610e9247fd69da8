"""JAX on one thread, before any test imports it."""

from mcm_compiler.processes.one_thread import use_one_thread

use_one_thread()
