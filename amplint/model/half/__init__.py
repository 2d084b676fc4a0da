"""The dataflow of half precision values."""
