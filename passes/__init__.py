"""Passes over modules of the `sx` dialect: one file a pass, the file's name is the pass's name.

The folder stands at the top of the tree and is part of the package; importing it under its bare name would make a
second copy of every class, so that is refused.
"""

if __name__ != "sexpgpu.passes":
    raise ImportError("import sexpgpu.passes, not passes: a second copy of its classes would not match the first")
