"""Scalers, optimizers and autocast objects, and the access paths by which code reaches them."""
