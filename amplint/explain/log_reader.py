"""A log as lines without what printed them, and the places of programs that are named in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from amplint.explain.patterns import squeeze

# Bytes that are read: a log of a day's training has less.
LARGEST = 64 << 20

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
# What loggers, launchers and frames put before a line: several may stand one behind the other.
_PREFIX = re.compile(
    rf"""\s*(?:
      \[\d+,\d+\]<\w+>:                                            # mpirun
    | \[(?:rank|default|worker|node)[\w-]*\d\]:?                   # torchrun
    | \d{{1,4}}:[ ](?=\S|[ ]+File)                                 # srun --label
    | \([^()]*\bpid=\d+[^()]*\)                                    # ray
    | [\w.-]+[-_]\d+[ ]*\|[ ]                                      # docker compose
    | \[?\d{{4}}[-/]\d\d[-/]\d\d[T ]{_CLOCK}(?:Z|[ ]?[-+]\d\d:?\d\d)?\]?(?:[ ]?[:|-](?=[ ]))?
    | \[?{_CLOCK}\]?(?=\s)
    | (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ]+\d+[ ]{_CLOCK}(?:[ ][\w.-]+[ ][\w./-]+(?:\[\d+\])?:)?
    | [EWIF]\d{{4}}[ ]{_CLOCK}[ ]+\d+[ ]\S+:\d+\]                  # glog
    | \[?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\]?(?:[ ]?[:|-])?(?=\s)
    | \[[\w./-]+\.py:\d+:\w+\]                                     # DeepSpeed: who logs it
    | [│┃║]                                                        # rich
    | (?:E|>)[ ]{{3}}                                              # pytest
    | >[ ]                                                         # a quotation
    )""",
    re.VERBOSE,
)
_BORDER = " \t│┃║"

_FRAMES = (
    re.compile(r'File "(?P<path>[^"\n]+)", line (?P<row>\d+)'),
    # IPython, pytest and rich; a warning names its place in the same way.
    re.compile(r"^(?:File )?(?P<path>(?:[A-Za-z]:)?[^\s:*?\"<>|][^:*?\"<>|\n]*\.pyw?):(?P<row>\d+)(?=[:, ]|$)"),
)
_WARNING = re.compile(r"^[^\n]*\.pyw?:\d+: \w*Warning\b")
# The places that may be in one line with a message.
_PLACE = re.compile(r'File "[^"\n]+", line \d+(?:, in [\w.<>]+)?|(?:^|(?<=\s))[^\s:]+\.pyw?:\d+:?(?=\s|$)')
_SUMMARY = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Failure)\b\s*(?::|$)|Traceback \(most recent)"
)
_QUOTED_SOURCE = re.compile(r"^(?:raise\b|warnings\.warn\(|assert\b|\w+ = \(?f?['\"])")
# Lines between two frames, or between the last one and the message.
_NEAR = 12
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\][Ll]ib[/\\]python\d|[/\\]Lib[/\\]\w+\.py$|^<")
_TORCH = re.compile(
    r"[/\\]torch[/\\](?:amp|autograd|cuda|cpu|nn|optim|utils|fx|jit|distributed|_\w+|\w+\.py$)(?:[/\\.]|$)"
)


class Frame(NamedTuple):
    """A place in a program that a log names on its line `at` (from 0); `source` is the code shown there."""

    path: str
    row: int
    at: int
    source: str

    @property
    def is_theirs(self) -> bool:
        """Whether it is in a library, torch included."""
        return bool(_LIBRARY.search(self.path)) or self.is_torch

    @property
    def is_torch(self) -> bool:
        """Whether it is in torch."""
        return bool(_TORCH.search(self.path))


class Log:
    """A text, its lines as a program wrote them, and all of them squeezed into one."""

    def __init__(self, text: str) -> None:
        self.lines = [_bare(line) for line in _unescaped(_ESCAPES.sub("", text)).splitlines()]
        self._starts: list[int] = []
        squeezed: list[str] = []
        length = 0
        for line in self.lines:
            self._starts.append(length)
            squeezed.append(squeeze(line))
            length += len(squeezed[-1])
        self.squeezed = "".join(squeezed)
        self.frames = [frame for at in range(len(self.lines)) if (frame := self._frame(at))]

    def line_of(self, place: int) -> int:
        """The line (from 0) of a character of the squeezed text."""
        return bisect_right(self._starts, place) - 1

    def is_source(self, at: int) -> bool:
        """Whether a line is the code that raises a message, as a traceback shows it, and not the message."""
        return bool(_QUOTED_SOURCE.match(self.lines[at]))

    def stack(self, at: int) -> list[Frame]:
        """The frames that lead to a message on line `at`, the innermost first."""
        found: list[Frame] = []
        last = at
        index = bisect_right(self.frames, at, key=lambda each: each.at) - 1
        # A warning names its place where it begins, of which a narrow window makes a line of its own.
        if index >= 0 and at - self.frames[index].at <= 1 and _WARNING.match(self.lines[self.frames[index].at]):
            return [self.frames[index]]
        while index >= 0:
            frame = self.frames[index]
            between = self.lines[frame.at + 1 : last]
            if last - frame.at > _NEAR or any(map(_SUMMARY.match, between)) or _WARNING.match(self.lines[frame.at]):
                break
            found.append(frame)
            last = frame.at
            index -= 1
        return found

    def _frame(self, at: int) -> Frame | None:
        line = self.lines[at]
        if ".py" not in line and "File " not in line:
            return None
        for expression in _FRAMES:
            if found := expression.search(line):
                source = self.lines[at + 1] if at + 1 < len(self.lines) else ""
                return Frame(found["path"], min(int(found["row"][:9]), 10**9), at, source)
        return None


def decode(data: bytes) -> str:
    """The text of a log in whatever encoding a shell has written it (PowerShell's `>` writes UTF-16)."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def without_places(text: str) -> str:
    """A text without the files and lines that it names."""
    return _PLACE.sub(" ", text).strip()


def place_of(stack: list[Frame]) -> Frame | None:
    """The innermost frame that is the user's own; else one of a library, but not torch."""
    return next((each for each in stack if not each.is_theirs), None) or next(
        (each for each in stack if not each.is_torch), None
    )


def _unescaped(text: str) -> str:
    """A text in which tracebacks that a JSON log holds as one string have lines of their own."""
    if "(most recent call last):\\n" not in text:
        return text
    lines = (
        line.replace("\\\\", "\0").replace("\\n", "\n").replace('\\"', '"').replace("\0", "\\")
        if "(most recent call last):\\n" in line
        else line
        for line in text.splitlines()
    )
    return "\n".join(lines)


def _bare(line: str) -> str:
    """A line without time stamp, level, rank and border."""
    start = 0
    while found := _PREFIX.match(line, start):
        start = found.end()
    return line[start:].strip(_BORDER)
