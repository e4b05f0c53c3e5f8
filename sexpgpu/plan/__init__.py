"""The plan: what a device executes, as plain data; and the arithmetic of orders and offsets behind it."""
