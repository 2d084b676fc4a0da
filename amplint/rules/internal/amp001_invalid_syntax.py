"""The file can't be read as Python.

## What it does
Reports a file that mentions AMP and can't be parsed, because of:

- a syntax error;
- bytes that are not in the encoding that the file declares (UTF-8 if the file declares none), or NUL bytes;
- nesting that is too deep for amplint.

amplint doesn't parse files that don't mention AMP. In such a file it reports wrong bytes, but no syntax errors.

## Why is this bad?
amplint checked nothing else in the file. If Python can't parse the file either, an import of the file raises
`SyntaxError`.

Python may accept a file that amplint doesn't:

- amplint parses with the Python that runs it. Syntax that is newer than that Python is reported, and the message names
  the Python version. (amplint reads f-strings such as `f'{x['a']}'`, which need Python 3.12, under every Python.)
- A notebook saved as a program may have lines that only a notebook accepts (`%matplotlib inline`, `!pip install
  torch`). The message says so.
- The message `amplint can't read this code yet` means: the file has expressions or `elif`s that are nested about 1,000
  deep, as in generated code, or syntax that the installed libcst doesn't know.

## Example
```text
with torch.autocast("cuda":
    loss = model(x)
```

## Use instead
```python
with torch.autocast("cuda"):
    loss = model(x)
```

For syntax that is too new, run amplint with the Python that your project uses. For another encoding, say so in the
first or second line (`# -*- coding: latin-1 -*-`). For generated files and templates, use `exclude` in the
configuration, or `# amplint: ignore-file` on a line of its own.

## Fix safety
There is no fix: amplint can't know what the line should be. Nothing else in the file is fixed. In a notebook, the other
cells are checked and fixed.

## Proof
None needed: amplint first parses with Python's own parser.

## References
- [PEP 263, defining Python source code encodings](https://peps.python.org/pep-0263/)
"""

from __future__ import annotations

from amplint.base.findings import Severity
from amplint.registry.rule import Rule

rule = Rule(__name__, __doc__, severity=Severity.ERROR, fixes=(), trial=False, not_shown="the file can't be read")
