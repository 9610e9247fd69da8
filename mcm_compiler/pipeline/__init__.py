"""The pass manager: order, facts that passes derive and keep, and stock passes."""
