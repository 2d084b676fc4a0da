"""Proves findings and fixes on real tensors. The only package that imports torch."""
