"""The parts of the pass `fuse`: what is read of a graph, how groups grow in it, how they are cut into tiles."""
