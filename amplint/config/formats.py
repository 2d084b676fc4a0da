"""The names of the output formats, and of the severities, the gravest first."""

from __future__ import annotations

# One module each, of the same name, with a function `render`.
FORMATS = ("full", "concise", "grouped", "json", "json-lines", "github", "gitlab", "junit", "pylint", "rdjson", "sarif")
FOR_PEOPLE = ("full", "concise", "grouped")
# What counts by rule can be printed as.
STATISTICS = (*FOR_PEOPLE, "json", "json-lines")
# The values of `amplint.base.findings.Severity`, which a run without findings doesn't import.
SEVERITIES = ("error", "warning", "note")
