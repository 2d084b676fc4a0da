"""The code of a notebook's cell as a program: what only IPython understands is replaced by what Python does.

A command (`!pip install x`, `obj?`, `cd data`) becomes an unknown call, one that may run code (`%lprun -f f f(x)`) with
every name in it, and so does a cell for another language, or one that is no program: whatever it does to them, nothing
is said about them any more. A command that times its line loses its own words. Replacements have the same lines, none
of them shorter, and hold MARK, which no fix may touch; so `restored` puts back what was there.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from amplint.sources.parsing import Refusal, python_tree
from amplint.sources.source import LINE_END, MARK, Source, lines_of

_SHOWN = 60  # characters of a line, in a message
# The commands that need no `%`: see `_is_automagic`.
_AUTOMAGIC = {
    "alias", "alias_magic", "autoawait", "autocall", "automagic", "autosave", "bookmark", "cat", "cd", "clear",
    "cls", "code_wrap", "colors", "conda", "config", "connect_info", "copy", "cp", "ddir", "debug", "dhist", "dirs",
    "doctest_mode", "echo", "ed", "edit", "env", "gui", "hist", "history", "killbgscripts", "ldir", "less", "lf",
    "lk", "ll", "load", "load_ext", "loadpy", "logoff", "logon", "logstart", "logstate", "logstop", "ls", "lsmagic",
    "lx", "macro", "magic", "mamba", "man", "matplotlib", "micromamba", "mkdir", "more", "mv", "notebook", "page",
    "pastebin", "pdb", "pdef", "pdoc", "pfile", "pinfo", "pinfo2", "pip", "popd", "pprint", "precision", "prun",
    "psearch", "psource", "pushd", "pwd", "pycat", "pylab", "qtconsole", "quickref", "recall", "rehashx",
    "reload_ext", "ren", "rep", "rerun", "reset", "reset_selective", "rm", "rmdir", "run", "save", "sc", "set_env",
    "store", "subshell", "sx", "system", "tb", "time", "timeit", "unalias", "unload_ext", "uv", "who", "who_ls",
    "whos", "xdel", "xmode",
}  # fmt: skip
# Cell magics whose body is Python, run in the notebook's own names.
_PYTHON_BODY = {
    "time",
    "timeit",
    "capture",
    "prun",
    "memit",
    "debug",
    "ipytest",
    "skip",
    "wandb",
    "snakeviz",
    "scalene",
}
# Those of other languages, and of other processes.
_ELSEWHERE = {
    "!", "R", "bash", "bigquery", "cmd", "css", "cython", "file", "html", "javascript", "js", "julia", "latex",
    "markdown", "perl", "pypy", "python", "python2", "python3", "ruby", "script", "sh", "sql", "svg", "sx", "system",
    "writefile",
}  # fmt: skip
_CELL_MAGIC = re.compile(r"[ \t\r\n]*%%([\w.!]+)")
# What the first lines of a pasted session start with, and what goes from each.
_PROMPTS = (
    (re.compile(r"[ \t]*>>>"), re.compile(r"^[ \t]*(?:>>>|\.\.\.)(?: |(?=[\r\n]|\Z)|(?<=>>>))")),
    (re.compile(r"In \[\d+\]: "), re.compile(r"^(?:In \[\d+\]: |[ \t]*\.{3,}: ?)")),
)
# A line of a program's that is a notebook's: `%` and `!` as they can't stand in an expression that goes on.
_IN_A_FILE = re.compile(r"[ \t]*(?:%{1,2}[A-Za-z_]|!{1,2}[\w./~{$-]|\?{1,2}[A-Za-z_])")
_UNKNOWN, _END = "_()", f"#{MARK}"
# They run other code in the notebook's names.
_STAR = "from _ import *"
_RUNS = re.compile(r"%?(run|load|pylab|edit)\b|%?store\s+-r")
# What stands behind these is a statement.
_TIMES = re.compile(
    r"%?(?:time|prun|memit|timeit)\b(?:[ \t]+-(?:[nrptsTDl][ \t]*[\w.]+|[cqo])(?=[ \t]))*[ \t]+(?=[^\s%!-])"
)
_COMMAND = re.compile(r"[%!?,;/]")
# The first word of a line and what is behind it; what assigns, calls or indexes is meant as Python.
_WORD = re.compile(r"([^\W\d]\w*)(?:[ \t]+(?![=,(\[{])|(?=[\r\n]|\Z))")
# What stands behind these may be code.
_MAY_RUN = re.compile(r"%%?[\w.]*|[,;/]|\w+")
_ASSIGNED = re.compile(r"[^\W\d][\w., \t\[\]*'\"]*=[ \t]*(?=%[^\W\d]|!)")
_HELP = re.compile(r"[^\r\n#'\"]*\?[ \t]*(?=[\r\n]|\Z)")
_REST = re.compile(r"(?:[^\r\n\\]|\\(?:\r\n|\r|\n)|\\)*")
_STRING = (
    r"""(?:\"\"\"(?:\\.|.)*?(?:\"\"\"|\Z)|'''(?:\\.|.)*?(?:'''|\Z)|"(?:\\.|[^"\\\r\n])*"?|'(?:\\.|[^'\\\r\n])*'?)"""
)
_TOKEN = re.compile(
    rf"""(?P<skip>{_STRING}|\#[^\r\n]*|\\(?:\r\n|\r|\n)|[^'"\#\\\r\n()\[\]{{}}]+)|(?P<end>\r\n|\r|\n)|(?P<open>[(\[{{])|.""",
    re.DOTALL,
)
_NO_CODE = re.compile(rf"{_STRING}|\#[^\r\n]*", re.DOTALL)
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_BINDS = re.compile(
    r"^[ \t]*(?:(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|([^\W\d]\w*(?:[ \t]*,[ \t]*[^\W\d]\w*)*)([ \t]*=(?!=)))",
    re.MULTILINE,
)
# In a command's line statements stand behind its options and behind each other; a keyword argument may count as one.
# (What binds nothing matches, too: so no name is looked at twice.)
_BINDS_IN_LINE = re.compile(r"()(?:^|(?<=[\s:;]))([^\W\d]\w*(?:[ \t]*,[ \t]*[^\W\d]\w*)*)([ \t]*=(?!=))?")


class Mask(NamedTuple):
    """`shown` stands in the program for what is `written` in the notebook."""

    shown: str
    written: str


class Code(NamedTuple):
    """A cell as a program; `refusal` says why it is none, with the place in what is written."""

    text: str
    masks: tuple[Mask, ...] = ()
    refusal: Refusal | None = None


def as_program(written: str) -> Code:
    """What a cell's code is to the analysis."""
    if MARK in written:
        at = written.index(MARK)
        return _opaque(
            written, Refusal(f"amplint can't read this code yet: the control character {MARK!a}", at, at + 1)
        )
    refusal = _refusal(written)
    if refusal is None:
        return Code(written)
    magic = _CELL_MAGIC.match(written)
    if magic and magic[1] not in _PYTHON_BODY:
        return _all(written, _UNKNOWN) if magic[1] in _ELSEWHERE else _opaque(written)
    code = _understood(written, refusal)
    plain = _plain(written) if code.refusal else written
    if plain != written and ((why := _refusal(plain)) is None or _understood(plain, why).refusal is None):
        return _all(written, f"{_STAR}; {_with_names(plain, _BINDS)}")  # its imports bind names as well
    return code


def _understood(written: str, refusal: Refusal) -> Code:
    """A cell with its commands replaced; `refusal` says why it is no program as it is."""
    for timed in (True, False):
        code = _masked(written, timed)
        found = _refusal_of(written, code) if code.masks else refusal
        if found is None:
            lines = written.lstrip().splitlines()
            alone = len(lines) - lines[0].startswith("%%") == 1
            return code if alone else code._replace(refusal=_refusal_of(written, _masked(written, timed, signed=True)))
        refusal = found
    return _opaque(written, refusal)


def is_command(line: str) -> bool:
    """Whether a line that is no Python is one that only a notebook takes: `%matplotlib inline`, `!pip`, `x?`."""
    return bool(_IN_A_FILE.match(line) or _ASSIGNED.match(line.lstrip()) or _HELP.match(line))


def refused_command(place: str, line: str) -> str:
    """The message on a line of a program that is a command of a notebook, at a place: `line 10`."""
    line = line.strip()
    shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
    return f"{place}, `{shown}`, is a command of a notebook: Python can't run it"


def _plain(written: str) -> str:
    """A cell as IPython takes it: without prompts (`>>> `, `In [1]: `) and what all of it is indented by."""
    for prompts in _PROMPTS:
        lines = written.splitlines(keepends=True)
        if any(prompts[0].match(line) for line in lines[:2]):
            return textwrap.dedent("".join(prompts[1].sub("", line) for line in lines))
    return textwrap.dedent(written)


def restored(text: str, masks: tuple[Mask, ...]) -> str | None:
    """A text with what its masks stand for, which come in their order; None where one is missing."""
    parts: list[str] = []
    done = 0
    found = places(text, masks)
    if len(found) < len(masks):
        return None
    for mask, (start, end) in zip(masks, found, strict=True):
        parts += (text[done:start], mask.written)
        done = end
    return "".join((*parts, text[done:]))


def places(text: str, masks: tuple[Mask, ...]) -> list[tuple[int, int]]:
    """Where masks start and end in a text, up to the first that is missing."""
    found: list[tuple[int, int]] = []
    end = 0
    for mask in masks:
        start = text.find(mask.shown, end)
        if start < 0:
            break
        end = start + len(mask.shown)
        found.append((start, end))
    return found


def _refusal(text: str) -> Refusal | None:
    tree = python_tree(Source("", text))
    return tree if isinstance(tree, Refusal) else None


def _refusal_of(written: str, code: Code) -> Refusal | None:
    """Why a cell with its commands replaced is no program, with the place in what is written."""
    found = _refusal(code.text)
    if found is None:
        return None
    shown, source = Source("", code.text), Source("", written)
    places = []
    for row, column in map(shown.location, (found.start, found.end)):
        places.append(source.offset(row, min(column, len(source.line(row)) + 1)))
    return Refusal(found.message, *places)


def _masked(written: str, timed: bool, *, signed: bool = False) -> Code:
    parts: list[str] = []
    masks: list[Mask] = []
    done = 0
    for start, end, shown in _commands(written, timed, signed):
        mask = Mask(_like(written[start:end], shown), written[start:end])
        masks.append(mask)
        parts += (written[done:start], mask.shown)
        done = end
    return Code("".join((*parts, written[done:])), tuple(masks))


def _like(written: str, shown: str) -> str:
    """What replaces a text: `shown` on the first line, and as many lines as that has, none of them shorter."""
    if shown.endswith(";"):  # the statement goes on
        return shown.ljust(len(written))
    first, *others = lines_of(written)
    ends = LINE_END.findall(written)
    lines = [shown.ljust(len(first) - len(_END)) + _END, *(" " * len(each) for each in others)]
    return "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True))


def _commands(text: str, timed: bool, signed: bool) -> Iterator[tuple[int, int, str]]:
    """Where IPython's commands stand, and what is to stand there; `timed`: what they time is a statement.

    With `signed` none is one without its `%`.
    """
    at = depth = 0
    starts = True
    while at < len(text):
        if starts:
            starts = False
            automagic = not signed and _is_automagic(text, at)
            while text[at : at + 1] in (" ", "\t", "\f"):
                at += 1
            if (command := _command(text, at, timed=timed, automagic=automagic)) is not None:
                yield command
                at = command[1]
                continue
        token = _TOKEN.match(text, at)
        if token is None:  # the end
            break
        if token["open"]:
            depth += 1
        elif token["end"]:
            starts = depth == 0
        elif not token["skip"]:
            depth = max(0, depth - (token[0] in ")]}"))
        at = token.end()


def _command(text: str, at: int, *, timed: bool, automagic: bool) -> tuple[int, int, str] | None:
    """The command at the start of a statement, as `_commands` has them; `automagic`: it is one without its `%`."""
    if automagic or _COMMAND.match(text, at):
        if timed and (times := _TIMES.match(text, at)):
            return at, times.end(), f"'{MARK}';"
        end = _end(text, at)
        return at, end, _STAR if _RUNS.match(text, at) else _call(text[at:end])
    if assigned := _ASSIGNED.match(text, at):
        at = assigned.end()
        end = _end(text, at)
        return at, end, _call(text[at:end])
    return (at, _end(text, at), _UNKNOWN) if _HELP.match(text, at) else None


def _is_automagic(text: str, at: int) -> bool:
    """Whether the line that starts at `at` is a command without its `%`, and no Python.

    They are the line magics and aliases that IPython starts with: `%lsmagic` in IPython 9.18 with ipykernel 7, and
    `default_aliases` in `IPython/core/alias.py` for all systems. IPython takes such a line only where it is all of a
    cell: beside others, even a comment, it is a syntax error, which is said; what is around it is linted all the same.
    """
    word = _WORD.match(text, at)
    return word is not None and word[1] in _AUTOMAGIC and _refusal(text[at : _statement_end(text, at)]) is not None


def _statement_end(text: str, at: int) -> int:
    """Where the statement ends that starts at `at`: with its line, or where its brackets are closed."""
    depth = 0
    while (token := _TOKEN.match(text, at)) is not None and not (token["end"] and depth == 0):
        if token["open"]:
            depth += 1
        elif token[0] in (")", "]", "}"):
            depth = max(0, depth - 1)
        at = token.end()
    return at


def _end(text: str, at: int) -> int:
    """Where a command's line ends, behind lines that a backslash adds."""
    found = _REST.match(text, at)
    return found.end() if found else len(text)


def _all(written: str, shown: str) -> Code:
    mask = Mask(_like(written, shown), written)
    return Code(mask.shown, (mask,))


def _opaque(written: str, refusal: Refusal | None = None) -> Code:
    """A cell of which nothing is known but its names."""
    return _all(written, _with_names(written, _BINDS))._replace(refusal=refusal)


def _call(command: str) -> str:
    """The unknown call that stands for a command."""
    words = _MAY_RUN.match(command)
    return _with_names(command[words.end() :], _BINDS_IN_LINE) if words else _UNKNOWN


def _with_names(written: str, binds: re.Pattern[str]) -> str:
    """An unknown call with the names in a text: it may do anything to what they stand for."""
    plain = _NO_CODE.sub("", written)
    found = [match[1] or match[2] for match in binds.finditer(plain) if match[1] or match[3]]
    bound = [name.strip() for names in found for name in names.split(",")]
    names = dict.fromkeys(each for each in _NAME.findall(plain) if _usable(each))
    targets = "".join(f"{name} = " for name in dict.fromkeys(bound) if _usable(name))
    return f"{targets}_({', '.join(names)})"


def _usable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__"
