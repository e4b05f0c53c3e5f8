"""From groups of operations to kernels: one file a family of groups, over one builder of `gpu.func`s."""
