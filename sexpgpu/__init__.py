"""sexpgpu: one Common Lisp file is one machine-learning experiment; this package compiles and trains it."""

__version__ = "0.1.0"
