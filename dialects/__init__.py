"""The dialect `sx`: one table of operations, their meaning in NumPy, their derivatives, and their MLIR
form.
"""

if __name__ != "sexpgpu.dialects":
    # The folder lies at the top of the tree; imported from there, every record would exist twice.
    raise ImportError("import this package as sexpgpu.dialects")
