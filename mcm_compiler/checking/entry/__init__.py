"""Opening output folders: files are checked before anything in them is loaded."""
