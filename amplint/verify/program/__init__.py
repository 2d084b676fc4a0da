"""Which program is verified: its files, its functions, its callers."""
