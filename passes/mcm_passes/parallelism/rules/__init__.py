"""How each operator divides: templates and the table of rules."""
