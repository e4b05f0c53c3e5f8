"""Graphs that libraries of NVIDIA's compute in the stead of own kernels, where they are installed and faster."""
