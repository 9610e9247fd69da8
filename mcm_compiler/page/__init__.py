"""The page: what a compile or a placement found out, as one HTML file to look at."""
