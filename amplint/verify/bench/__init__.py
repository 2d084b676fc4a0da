"""Real torch objects with instruments, and devices that are simulated."""
