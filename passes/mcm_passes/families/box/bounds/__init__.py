"""What no placement of a step can be faster than, and what cannot fit."""
