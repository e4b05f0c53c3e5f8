"""`python -m sexpgpu`."""

from sexpgpu.cli import main

main()
