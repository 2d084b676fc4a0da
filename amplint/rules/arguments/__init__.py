"""AMP201 to AMP215: arguments of autocast and GradScaler."""
