"""The Lisp that experiment files are written in: reader, compiler to Python code, and its library.

Nothing is imported here, so that a module that needs only the data classes pays only for those.
"""
