"""Bytes and text: encodings, notebooks, documents, and the parsing of Python."""
