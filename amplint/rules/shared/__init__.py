"""Analysis that several rules share."""
