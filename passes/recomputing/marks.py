"""The attributes by which passes and reports know what is computed again."""

from __future__ import annotations

REGION = "sx.checkpoint"
"""On an operation: the number of the `(checkpoint ...)` that it is in."""
CLONE = "sx.recompute"
"""On a clone: the number of the region that it computes again; what a budget made has one behind all regions."""
BUDGET = "sx.budget"
"""On a graph: the bytes that its arena should not exceed."""
KEPT_ALL = "sx.kept_all"
"""On a graph that did: the bytes its arena had with everything kept."""
