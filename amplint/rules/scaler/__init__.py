"""AMP401 to AMP424: the protocol of GradScaler."""
