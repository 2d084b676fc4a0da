"""The documentation as a site: `python -m mkdocs build --strict` builds it of docs/ and of what is made here."""
