"""The page of an output folder, served to a browser of this machine, which sees new compiles."""
