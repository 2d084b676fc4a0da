"""AMP2: arguments of autocast and GradScaler."""
