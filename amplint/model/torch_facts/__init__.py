"""What PyTorch does, as tables. They know nothing of the program that is linted."""
