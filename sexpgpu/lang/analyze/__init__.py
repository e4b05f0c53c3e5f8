"""Analysis: forms to the nodes of `sexpgpu.lang.ir`, names resolved and macros expanded.

Each module but `core` and `grammar` holds the special forms of one subject and registers them when imported.
"""
