"""Devices that run kernels: plans of launches, bound to memory of a GPU or of the simulator and run by one code path.

`driver` is what a device is asked to do; `sim` and `cuda` do it.
"""
