"""Times of ops that were measured on devices of a box: profiles, tables, and what they cover."""
