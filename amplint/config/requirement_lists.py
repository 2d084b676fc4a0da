"""Lists of requirements: those for pip with what they include, and environments of conda; a line of each as it is said.

Of YAML that is the one shape that an environment has: `dependencies:` at the left margin, a list, and in that `pip:`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from amplint.base.paths import LARGEST_CONFIG, contents
from amplint.base.reads import lists_in

# What conda calls torch; the others are called as pip calls them.
_OF_CONDA = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch"}
_LISTS = ("requirements", (".txt",))
_ENVIRONMENTS = tuple((name, (".yml", ".yaml")) for name in ("env", "conda", "requirements"))
# Characters of a requirement: to split a longer one may take time in the square of that.
LONGEST = 1000

_COMMENT = re.compile(r"(^|\s)#.*")
_INCLUDES = re.compile(r"(?:-r|-c|--requirement|--constraint)[\s=]*(\S.*)")
# Options, with their values, that stand before a requirement, and what comes behind one.
_SOURCES = re.compile(r"(?:(?:-f|-i|--find-links|--index-url|--extra-index-url|--trusted-host)[\s=]+\S+\s*)+")
_OPTIONS = re.compile(r"\s--?[A-Za-z].*")
_WHEEL = re.compile(r"(?:^|[/\\\s@=])([A-Za-z][\w.]*)-(\d[^-/\s]*)-[^/\s]+\.whl")
_ITEM = re.compile(r"(\s*)-\s+(.*)")
_OF_A_ROW = re.compile(r""""[^"]*"|'[^']*'|[^,\[\]\s][^,\[\]]*""")
_MATCH = re.compile(r"(?:[^\s:]+::)?([A-Za-z][\w.-]*)\s*(.*)")


class Said(NamedTuple):
    """A requirement, and the file that says it."""

    file: Path
    text: str


def lists(directory: Path) -> list[Path]:
    """The lists of requirements in a directory: pip's, the plain one first, then environments of conda."""
    names = _names(directory)
    plain = [directory / "requirements.txt"] if "requirements.txt" in names else []
    folder = directory / "requirements"
    inner = [folder / each for each in _names(folder) if each.endswith(".txt")] if "requirements" in names else []
    return [
        *plain,
        *inner,
        *(directory / each for start in (_LISTS, *_ENVIRONMENTS) for each in _called(names, *start)),
    ]


def _names(folder: Path) -> list[str]:
    try:
        return lists_in(str(folder))
    except OSError:
        return []


def _called(names: list[str], start: str, ends: tuple[str, ...]) -> list[str]:
    """The shortest name first: `environment.yml` is what holds, before `environment-cpu.yml`."""
    return sorted((each for each in names if each.startswith(start) and each.endswith(ends)), key=_by_stem)


def _by_stem(name: str) -> tuple[int, str]:
    return len(os.path.splitext(name)[0]), name


def listed(path: Path) -> Iterator[Said]:
    """The requirements in a list, and in those that it includes."""
    yield from _listed(path, set())


def _listed(path: Path, above: set[Path]) -> Iterator[Said]:
    if path in above:
        return
    above.add(path)
    text = read(path)
    if text is None:
        return
    lines = _environment(text) if path.suffix in (".yml", ".yaml") else iter(joined(text))
    for line in lines:
        if (found := _INCLUDES.fullmatch(_COMMENT.sub("", line).strip())) is not None:
            other = found[1].strip("\"' ")
            if "://" not in other:
                yield from _listed(Path(os.path.normpath(path.parent / other)), above)
        else:
            yield from (Said(path, each) for each in requirement_lines(line))


def read(path: Path) -> str | None:
    """The text of a file that says what is required; None where it can't be read."""
    try:
        return contents(str(path), LARGEST_CONFIG).decode("utf-8-sig")
    except (OSError, ValueError):  # which a path with a null in it is as well
        return None


def joined(text: str) -> list[str]:
    """The lines of a text, those that a backslash continues as one."""
    return re.sub(r"\\\r?\n", " ", text).splitlines()


def requirement_lines(text: str) -> Iterator[str]:
    """The requirements of a pip file, without its options, hashes and comments."""
    for line in joined(text):
        if len(line) < LONGEST:
            whole = _COMMENT.sub("", line).strip()
            bare = whole if _WHEEL.search(whole) else _OPTIONS.sub("", _SOURCES.sub("", whole)).strip()
            if bare and (bare is whole or not bare.startswith("-")):
                yield bare


def pinned(requirement: str) -> str:
    """A requirement; where it gives a wheel, in whose name the version stands, as a pin of that."""
    wheel = _WHEEL.search(requirement)
    return requirement if wheel is None else f"{wheel[1]}=={re.sub('(?i)%2b', '+', wheel[2])}"


def _environment(text: str) -> Iterator[str]:
    """The dependencies of an environment of conda, in pip's words."""
    inside = False
    pip: int | None = None  # how far `- pip:` is indented, whose list goes on
    for line in (_COMMENT.sub("", each).rstrip() for each in text.splitlines() if len(each) < LONGEST):
        item = _ITEM.fullmatch(line)
        if item is None:
            if line and not line[0].isspace():
                key, _, row = line.partition(":")
                inside, pip = key.strip("\"'") == "dependencies", None
                if inside:
                    yield from _row(row, of_pip=False)
            continue
        if not inside:
            continue
        depth, entry = len(item[1]), item[2].strip("\"' ")
        if pip is not None and depth > pip:
            yield entry
        elif re.match(r"pip\s*:", entry):
            pip = depth
            yield from _row(entry.partition(":")[2], of_pip=True)
        else:
            pip = None
            yield from _of_conda(entry)


def _row(text: str, *, of_pip: bool) -> Iterator[str]:
    """The requirements of a list on one line: `[python=3.8, pytorch=1.12]`."""
    text = text.strip()
    if text.startswith("["):
        for each in _OF_A_ROW.findall(text):
            entry = each.strip("\"' ")
            yield from [entry] if of_pip else _of_conda(entry)


def _of_conda(entry: str) -> Iterator[str]:
    """A dependency on a package of conda, in pip's words: one for each alternative."""
    found = _MATCH.fullmatch(entry)
    if found is None:
        return
    name, said = found[1].lower(), found[2]
    if said.startswith("["):
        inner = re.search(r"version\s*=\s*[\"']?([^\"'\]]+)", said)
        said = inner[1] if inner else ""
    called = _OF_CONDA.get(name, name)
    for alternative in said.split("|"):
        yield called + ",".join(filter(None, map(_clause, alternative.split(","))))


def _clause(clause: str) -> str:
    """A condition on a version as pip has it, without conda's build: `=1.12` is any 1.12, a bare `1.12` is that."""
    found = re.match(r"\s*([<>=!~]*)\s*([\w.*!+-]*)\s*(.*)", clause)
    if found is None or found[2] in ("", "*"):
        return ""
    sign, version, build = found.groups()
    if sign in ("", "=", "=="):
        wild = sign == "=" and not build and not version.endswith("*")
        bare = re.sub(r"(?<=\d)\*$", ".*", version)
        return f"=={bare}.*" if wild else f"=={bare}"
    return sign + version
