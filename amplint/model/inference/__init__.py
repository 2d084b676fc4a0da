"""Which values an expression can have: devices, dtypes, numbers, constructions."""
