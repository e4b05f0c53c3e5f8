"""The parts of the pass `recompute`: what a graph saves, what of it is dropped first, how operations are cloned."""
