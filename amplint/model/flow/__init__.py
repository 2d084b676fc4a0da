"""The abstract interpreter of the protocol of scalers."""
