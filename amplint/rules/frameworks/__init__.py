"""AMP601 to AMP603: accelerate, Lightning and transformers."""
