"""AMP4: the protocol of GradScaler."""
