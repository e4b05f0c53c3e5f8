"""From a file to something that runs: the stages in order, and the engine the loop is given."""
