"""The patterns of the pass `raise`, one file a family, over the light view of a function in `matching`."""
