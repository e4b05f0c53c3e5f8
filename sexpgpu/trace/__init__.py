"""Tracing: tensor calls of an evaluated file become `sx` operations, and its declarations become an experiment."""
