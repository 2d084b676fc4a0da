"""The file can't be read as Python.

## What it does
Reports a file that mentions AMP and can't be parsed: a syntax error, bytes that are not in the encoding that the file
declares (UTF-8 if it declares none), NUL bytes, or a file that is too deeply nested for amplint. A file without any AMP
in it is not parsed, so its syntax errors are not reported; that its bytes are no text is.

## Why is this bad?
Nothing else in the file was checked. If Python can't parse it either, importing it raises `SyntaxError`.

amplint parses with the Python that runs it: syntax that is newer than that Python is an error here too, and the
message names the version. A notebook that was saved as a program may have lines that only a notebook takes
(`%matplotlib inline`, `!pip install torch`): the message says so. `amplint can't read it yet` means that Python may
take the file and amplint doesn't: expressions or `elif`s nested about 1,000 deep, as programs write them, or syntax
that the installed libcst doesn't know. That a file is too large (more than two million characters of code) is an
error of the run, and not this finding.

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
There is no fix: what the line was meant to be isn't known. No other fix is made in the file; in a notebook the other
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
