"""Assignments of ops to devices, the rules they obey, and the files that hold them."""
