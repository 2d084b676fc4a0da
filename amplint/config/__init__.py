"""The settings of a file, and the releases that its project declares."""
