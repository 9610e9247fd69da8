"""A plug-in as another team would write it: pass, strategy, target, cost model, sharding rule."""
