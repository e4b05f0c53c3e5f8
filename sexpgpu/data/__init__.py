"""Data: what a loader's fields read, what is known of it without reading, and in which order it is read."""
