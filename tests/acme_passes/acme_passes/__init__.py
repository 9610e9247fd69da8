"""A plug-in as another team would write it: a pass, a partition strategy and a target."""
