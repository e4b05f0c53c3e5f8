"""The dialect `sx`: a table of operations with their meaning in NumPy, derivatives and MLIR form."""

if __name__ != "sexpgpu.dialects":
    # The folder lies at the top of the tree; imported from there, every record would exist twice.
    raise ImportError("import this package as sexpgpu.dialects")
