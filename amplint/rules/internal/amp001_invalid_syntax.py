"""The file can't be read as Python.

## What it does
Reports a file that mentions AMP and can't be parsed: a syntax error, bytes that are not in the file's declared encoding
(UTF-8 if it declares none), NUL bytes, or nesting that is too deep for amplint. A file without AMP is not parsed, so
its syntax errors are not reported; bytes that are not text are.

## Why is this bad?
Nothing else in the file was checked. If Python can't parse the file either, importing it raises `SyntaxError`.

amplint parses with the Python that runs it: syntax newer than that Python is an error too, and the message names the
version. The f-strings of Python 3.12 (`f'{x['a']}'`) can be read under every Python. A notebook saved as a program may
have lines that only a notebook accepts (`%matplotlib inline`, `!pip install torch`): the message says so. `amplint
can't read it yet` means that Python may accept the file and amplint doesn't: expressions or `elif`s nested about 1,000
deep, as generated code has them, or syntax that the installed libcst doesn't know. A file that is too large (more than
two million characters of code) is an error of the run, not this finding.

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
There is no fix: amplint can't know what the line should be. No other fix is made in the file; in a notebook, the other
cells are linted and fixed.

## Proof
None needed: Python's own parser is asked first.

## References
- [PEP 263, defining Python source code encodings](https://peps.python.org/pep-0263/)
"""

from __future__ import annotations

from amplint.base.findings import Severity
from amplint.registry.rule import Rule

rule = Rule(__name__, __doc__, severity=Severity.ERROR, fixes=(), trial=False, not_shown="the file can't be read")
