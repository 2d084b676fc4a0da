"""Options of the command line that nothing in the project declares or sets: to read one raises."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from amplint.base.paths import contents
from amplint.model.project.python_files import python_files, root_of
from amplint.model.syntax import ir
from amplint.sources.source import lines_of

if TYPE_CHECKING:
    from amplint.verify.program.program import Code

_PARSER = {"argparse.ArgumentParser"}
# What may set any option: by a name that isn't written out, or from a file.
_MAY_SET = re.compile(
    r"\bsetattr\(|(?:\bvars\([^()]*\)|__dict__)\s*(?:\.(?:update|setdefault)\b|\[[^\]]*\]\s*=)|\bNamespace\("
)


def is_never_set(code: Code, value: ir.Attribute) -> bool:
    """Whether an attribute is one of what argparse gives, and no file of the project can declare or set it."""
    origins = code.callers.looked_at(code, value.base)
    if not origins or not all(_is_parsed(of, source) for of, source in origins):
        return False
    path = os.path.abspath(code.module.source.filename)
    own = {os.path.abspath(each.module.source.filename): each.module.source.text for each in code.files.codes}
    texts = {**{each: _text(each) for each in python_files(root_of(os.path.dirname(path)))}, **own}
    return not any(text is None or _may_set(text, value.attr) for text in texts.values())


def _is_parsed(code: Code, source: ir.Value) -> bool:
    """Whether a value is what a parser of argparse gives, which nothing out of sight adds options to."""
    parser = ir.called_on(source, "parse_args")
    if not isinstance(parser, ir.Name):
        return False
    made = code.callers.looked_at(code, parser)
    return (
        bool(made)
        and all(
            isinstance(each, ir.Call) and of.module.names.of(each.func) == _PARSER and each.keyword("parents") is None
            for of, each in made
        )
        and not any(
            isinstance(each, ir.Name) and each.name == parser.name
            for of in (code, *(of for of, _ in made))
            for call in of.module.calls
            for each in (arg.value for arg in call.args)
        )
    )


def _text(path: str) -> str | None:
    try:
        return contents(path).decode("utf-8", "replace")
    except OSError:
        return None


def _may_set(text: str, name: str) -> bool:
    """Whether a file may declare or set an attribute: it is written otherwise than where one is read."""
    if _MAY_SET.search(text):
        return True
    if name not in text and name.replace("_", "-") not in text:
        return False
    word = re.compile(rf"\b(?:{name}|{name.replace('_', '-')})\b")
    return any(_is_set(line, found) for line in lines_of(text) for found in word.finditer(line))


def _is_set(line: str, found: re.Match[str]) -> bool:
    before, after = line[: found.start()].rstrip(), line[found.end() :]
    if before.endswith(("'", '"', "-")):  # `"--scaler"`
        return True
    sets = re.match(r"\s*(?:=(?!=)|,[^()]*=(?!=)|:[^=]*=(?!=))", after) is not None
    if before.endswith("."):
        return sets
    return after.startswith("=") and not after.startswith("==")  # a keyword: `set_defaults(scaler=None)`
