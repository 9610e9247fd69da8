"""The way in for output folders: nothing is loaded before its files have been checked."""
