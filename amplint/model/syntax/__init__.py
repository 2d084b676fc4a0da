"""The intermediate representation and what can be asked of it. Nothing here knows of AMP."""
