"""A plug-in as another team would write it: pass, partition strategy, target and sharding rule."""
