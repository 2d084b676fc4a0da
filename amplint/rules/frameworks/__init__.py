"""AMP6: accelerate, Lightning and transformers."""
