"""Changes of output folders that change what they compute, with every hash made right again."""
