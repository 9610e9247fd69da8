"""Plans for clusters: degrees of parallelism compared by formulas, and the addition of clusters."""
