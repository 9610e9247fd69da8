"""The analytic cost model of the ring."""
