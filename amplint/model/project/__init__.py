"""The other files of a project: imports, the module index, linking."""
