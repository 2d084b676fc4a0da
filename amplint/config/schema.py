"""The JSON Schema of a configuration file, for editors: `amplint/config/schema.json`, and `amplint config --schema`."""

from __future__ import annotations

import json
from typing import Any

from amplint.config.keys import KEYS
from amplint.registry import all_rules, names
from amplint.registry.rule import OURS

_DIALECT = "http://json-schema.org/draft-07/schema#"  # what editors know


def schema() -> dict[str, Any]:
    """The schema of an amplint.toml, and of `[tool.amplint]`."""
    properties = {}
    for key in KEYS.values():
        default = {} if key.default is None else {"default": key.default}
        properties[key.name] = {"description": key.doc, **key.kind.schema, **default}
    return {
        "$schema": _DIALECT,
        "$id": "https://github.com/amplint/amplint/raw/main/amplint/config/schema.json",
        "title": "amplint",
        "description": "The configuration of amplint, a linter of PyTorch AMP.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "definitions": {
            "rules": {
                "description": "A code, a prefix of codes, the name of a rule or of a family, or ALL.",
                "type": "string",
                # Rules of one's own have three letters of their own.
                "anyOf": [{"enum": _selectors()}, {"pattern": f"^(?!{OURS})[A-Z]{{3}}[0-9]{{0,3}}$"}],
            }
        },
    }


def _selectors() -> list[str]:
    codes = [code for code in all_rules() if code.startswith(OURS)]
    prefixes = {code[:end] for code in codes for end in range(len(OURS), len(code))}
    named = [name for name, code in names().items() if code.startswith(OURS)]
    return ["ALL", *sorted({*prefixes, *codes}), *sorted(named)]


def text() -> str:
    """The schema as a file."""
    return json.dumps(schema(), indent=2) + "\n"
