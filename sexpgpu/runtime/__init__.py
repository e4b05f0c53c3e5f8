"""The fixed training loop: it runs compiled graphs on data and writes what a run leaves behind."""
