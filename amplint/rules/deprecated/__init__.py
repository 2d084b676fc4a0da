"""AMP101 to AMP107: deprecated names."""
