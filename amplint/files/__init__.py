"""The file system: which files are linted, how they are written, and the processes that share the work."""
