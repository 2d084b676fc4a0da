"""Which files of a project import which, read from their bytes; and which of them use what a file's classes keep, or
load the state of an optimizer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from amplint.base.paths import contents, question, remembered
from amplint.base.reads import is_file
from amplint.base.tree import of_project
from amplint.model.project.python_files import python_files, root_of
from amplint.model.project.resolve_import import module_file
from amplint.model.syntax.text_scan import without_sentences
from amplint.model.torch_facts.names import SCALER_METHODS

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\r\n#;]*)|import[ \t]+([^\r\n#;]+))", re.MULTILINE
)
_NAME = re.compile(r"[.\w]+")
_INIT = "__init__.py"
# Of a tree with more files not all are read; a larger file was written by no person.
_MOST_FILES, _LARGEST = 5_000, 1 << 18
_LOADS = re.compile(rb"(?i)(\w*opt(?:im\w*|s?))(?:\[[^\]\n]*\])?\s*\.\s*load_state_dict\s*\(")
# A file's program, the functions that it calls, and a function at the margin, with its indented lines.
_MAIN = re.compile(rb"(?m)^if[ \t(]+__name__[ \t]*==.*\n(?:[ \t].*\n?|[ \t]*\r?\n)*")
_IMPORTS_AMP = re.compile(
    rb"(?m)^[ \t]*from[ \t]+torch[.\w]*[ \t]+import[ \t]+(?!.*\b(\w+)[ \t]+as[ \t]+(?!\1\b))[\w, \t]+\r?$"
)
_HEADERS = re.compile(rb"^([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+(\w+)", re.MULTILINE)
_WORD, _CALLED, _ATTRIBUTE = re.compile(rb"\w+"), re.compile(rb"\b(\w+)\("), re.compile(rb"\.[ \t]*(\w+)")
_FUNCTION = rb"(?m)^(?:async[ \t]+)?def[ \t]+%s\b.*\n(?:[ \t)].*\n?|[ \t]*\r?\n)*"
_COMMENT = re.compile(rb"(?m)^[ \t]*#.*$")
# What finds the modules of a package by their files, or imports them by computed names.
_LISTS = re.compile(rb"\b(importlib|pkgutil|__import__|i?glob|listdir|scandir|iterdir)\b")
# The name is written out in some calls that import, and computed in others.
_BY_STRING = re.compile(rb"\b(?:import_module|__import__)\s*\(\s*[\"']([.\w]+)[\"']\s*[,)]")
_BY_NAME = re.compile(rb"\b(?:import_module|__import__)\s*\((?!\s*[\"'][.\w]+[\"']\s*[,)])")
_STEPS = re.compile(rb"\.\s*backward\s*\(")
_DEPTH = 6
# The call of a scaler's method, and before it the attribute that holds the scaler: `trainer.scaler` `.update(`.
_SCALER_CALL = re.compile(rb"\.\s*(%s)\s*\(" % "|".join(SCALER_METHODS).encode())
_OF_ATTRIBUTE, _LONGEST = re.compile(rb"\b(\w+)\s*\.\s*(\w+)\s*$"), 200


@remembered
def imports(path: str) -> frozenset[str]:
    """The files of the same project that a file imports."""
    return frozenset(filter(None, (module_file(path, each) for each in _modules(path))))


def reaches(path: str, wanted: Callable[[bytes], object]) -> bool:
    """Whether a file has the `wanted` bytes, or one of its project that it imports, or that those import.

    What can't be read, as it is too large, may have them.
    """
    seen = {path}
    todo = [path]
    for _ in range(_DEPTH):
        if any(data is None or wanted(data) for data in map(_data, todo)):
            return True
        todo = [each for one in todo for each in imports(one) if each not in seen]
        seen.update(todo)
    return False


@question
def in_reach(path: str, word: bytes) -> tuple[str, ...] | None:
    """The files with a word that a file, or one that imports it, imports, or those do; None: one can't be read."""
    of_project(root_of(os.path.dirname(path)))
    data = {each: _data(each) for each in _with_imports({path, *importers(path)})}
    if None in data.values():
        return None
    return tuple(sorted(each for each, text in data.items() if text is not None and word in text))


@remembered
def programs_of(path: str) -> frozenset[str]:
    """The files of the programs that a file is a part of: what imports it, however far off, and all that is imported
    there.
    """
    return frozenset(_with_imports(_importing(path)))


def _importing(path: str) -> set[str]:
    """A file, and those that import it, however far off."""
    found = {path}
    todo = [path]
    while todo:
        more = {*importers(todo.pop())} - found
        found |= more
        todo += more
    return found


def surely_lack(filename: str, words: re.Pattern[bytes], instead_of: str = "") -> bool:
    """Whether no file of the programs that a file is a part of has some words: all of them are there, and were read.

    Of a notebook it is asked of its whole project. Comments and sentences in strings don't count.

    Args:
        filename: The file.
        words: What is looked for.
        instead_of: What stands in functions of this name that call none of it doesn't count: they override a method of
            the file, or are overridden by it.
    """
    return _surely_lack(os.path.abspath(filename), words, instead_of)


def surely_unnamed(filename: str, name: str) -> bool:
    """Whether no file of the programs that a file is a part of has a name: all of them are there, and were read."""
    return surely_lack(filename, re.compile(rb"\b%s\b" % name.encode()))


@question
def _surely_lack(path: str, words: re.Pattern[bytes], instead_of: str) -> bool:
    others = _others(path)
    return others is not None and not any(
        has_words(each, words) and not (instead_of and _only_instead(each, words, instead_of))
        for each in others.values()
    )


def _others(path: str) -> dict[str, bytes] | None:
    """The other files of the programs that a file is a part of, with their texts; None if not all can be read.

    Of a notebook they are those of its whole project.
    """
    of_project(root_of(os.path.dirname(path)))
    if not is_file(path):
        return None
    files = programs_of(path) if path.endswith(".py") else python_files(root_of(os.path.dirname(path)))
    data = {each: text for each in files if each != path and (text := _data(each)) is not None}
    return data if len(data) == len({*files} - {path}) <= _MOST_FILES else None


def surely_lack_around(filename: str, words: re.Pattern[bytes]) -> bool:
    """Whether no file of the programs that a file is a part of has some words in what may run around its training step,
    or in that: all of them are there, and were read.

    Comments and sentences in strings don't count, nor does a function of what the file doesn't run in that makes a
    training step of its own.
    """
    return _surely_lack_around(os.path.abspath(filename), words)


@question
def _surely_lack_around(path: str, words: re.Pattern[bytes]) -> bool:
    others = _others(path)
    if others is None:
        return False
    callers = _importing(path)
    for other, data in others.items():
        code = _code(data) if words.search(data) else b""
        places = (found.start() for found in words.finditer(code))
        if not all(other not in callers and _STEPS.search(_function_text(code, each)) for each in places):
            return False
    return True


def _function_text(code: bytes, place: int) -> bytes:
    """The text of the innermost function around a place, empty where it is in none."""
    start = code.rfind(b"\n", 0, place) + 1
    margin = _margin(code[start : code.find(b"\n", place)])
    for header in reversed([*_HEADERS.finditer(code, 0, start)]):
        if len(header[1]) < margin:
            if header[2] == b"def":
                end = re.compile(rb"^[ \t]{0,%d}\S" % len(header[1]), re.MULTILINE).search(code, place)
                return code[header.start() : end.start() if end is not None else len(code)]
            margin = len(header[1])
    return b""


def _margin(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def surely_run_without(filename: str, text: str, words: re.Pattern[bytes]) -> bool:
    """Whether no code of the programs that a file is a part of has some words; what the file imports has to be called.

    Args:
        filename: The file.
        text: What is in it, which need not be saved yet.
        words: What is looked for. The methods of a class that is called as a scaler don't count: who calls one does.
    """
    return _surely_run_without(os.path.abspath(filename), text.encode(), words)


@question
def _surely_run_without(path: str, text: bytes, words: re.Pattern[bytes]) -> bool:
    others, starting = _others(path), _importing(path)
    if others is None:
        return False
    data = {path: text, **others}
    for each, content in data.items():
        if words.search(content):
            code, rest = _code(content), [one for other, one in data.items() if other != each]
            if any(_is_called(code, found, rest, starts=each in starting) for found in words.finditer(code)):
                return False
    return True


def _is_called(code: bytes, place: re.Match[bytes], others: list[bytes], *, starts: bool) -> bool:
    """Whether something may call the code around a place: a method always, but for those of a class for scalers.

    Args:
        code: The code of a file.
        place: The place in it.
        others: The texts of the program's other files.
        starts: The file may be a program of its own, whose functions others can call.
    """
    around = _headers_round(code, place.start())
    classes = [each.name.lower() for each in around if each.kind == b"class"]
    if classes:
        return not any(b"scal" in each for each in classes)
    if starts or not around:
        return True
    name = around[0].name
    used, own = re.compile(rb"(?<!def )(?<!\w)%s\b" % name), re.compile(rb"\bdef[ \t]+%s\b" % name)
    read = re.compile(rb"\.%s\b" % name)  # where a file has such a function of its own
    return bool(used.search(code)) or any((read if own.search(each) else used).search(each) for each in others)


class _Header(NamedTuple):
    """The first line of a function or class: how far it is indented, `def` or `class`, and the name."""

    margin: int
    kind: bytes
    name: bytes


def _headers_round(code: bytes, place: int) -> list[_Header]:
    """The headers of the classes and functions around a place, outermost first."""
    start = code.rfind(b"\n", 0, place) + 1
    margin, found = _margin(code[start:place]), list[_Header]()
    for each in _HEADERS.finditer(code, 0, start):
        found = [one for one in found if one.margin < len(each[1])]
        found.append(_Header(len(each[1]), each[2], each[3]))
    return [one for one in found if one.margin < margin]


def _code(data: bytes) -> bytes:
    """A text without its comments, its sentences, and its imports from torch."""
    return _IMPORTS_AMP.sub(b"", without_sentences(data.decode("utf-8", "replace")).encode())


def has_words(data: bytes, words: re.Pattern[bytes]) -> bool:
    """Whether a file has some words in its code, or in strings that are no sentences.

    An import from `torch.amp` doesn't count: where the name is used, the word is there once more.
    """
    return words.search(data) is not None and words.search(_code(data)) is not None


def _with_imports(files: set[str]) -> set[str]:
    """Some files, and all that they import, or that what they import does."""
    seen, todo = set(files), [*files]
    for one in todo:  # grows
        more = {*imports(one), *_by_name(one)} - seen
        seen |= more
        todo += more
    return seen


def _by_name(path: str) -> Iterator[str]:
    """What a file may import by names that are values: any file of the project, where it calls `import_module`.

    A package that lists its folder, or uses importlib, may import all its files. The names in `__all__` are those of
    submodules, too: `from .models import *` imports them.
    """
    folder, name = os.path.split(path)
    if name != _INIT and _BY_NAME.search(_data(path) or b""):
        yield from python_files(root_of(folder))
    if name == _INIT and _LISTS.search(_data(path) or b""):
        yield from (each for each in python_files(root_of(folder)) if os.path.dirname(each) == folder)


def is_imported(filename: str) -> bool:
    """Whether another file of the same project imports a file."""
    return _is_imported(os.path.abspath(filename))


@question
def _is_imported(path: str) -> bool:
    of_project(root_of(os.path.dirname(path)))
    return any(True for _ in importers(path))


def importers(path: str) -> Iterator[str]:
    """The files of the same project that import a file, by its own name or through the package that passes it on."""
    by_name = _by_imported_name(root_of(os.path.dirname(path)))
    seen = {path}
    todo = [path]
    while todo:
        wanted = todo.pop()
        folder, name = os.path.split(wanted)
        stem = os.path.basename(folder) if name == _INIT else name.removesuffix(".py")
        for other in by_name.get(stem, ()):
            if other not in seen and wanted in imports(other):
                seen.add(other)
                if os.path.basename(other) == _INIT:
                    todo.append(other)
                else:
                    yield other


@remembered
def _by_imported_name(root: str) -> dict[str, list[str]]:
    """The files of a project by the last words of the modules that they may import; none where they are too many."""
    files = python_files(root)
    found: dict[str, list[str]] = {}
    for path in files if len(files) <= _MOST_FILES else ():
        for word in {module.rpartition(".")[2] for module in _modules(path)}:
            found.setdefault(word, []).append(path)
    return found


def loader_of_optimizers(filename: str) -> str | None:
    """Another file of the programs that a file is a part of, that loads an optimizer's state, by the names in its text.

    A function that none of these files calls, or that each gives None for the optimizer, loads nothing.
    """
    return _loader_of_optimizers(os.path.abspath(filename), False)


def offered_loader_of_optimizers(filename: str) -> str | None:
    """The same, of a function that nothing calls, and that a package passes on: `from .checkpoint import load`."""
    return _loader_of_optimizers(os.path.abspath(filename), True)


@question
def _loader_of_optimizers(path: str, offered: bool) -> str | None:
    of_project(root_of(os.path.dirname(path)))
    if not is_file(path):
        return None
    starting = _importing(path)
    texts = {each: _data(each) or b"" for each in sorted(programs_of(path))}
    # What is only imported doesn't run as a program of its own.
    taken = _taken(texts.values())
    texts = {each: text if each in starting else _imported(text, taken) for each, text in texts.items()}
    for other, text in texts.items():
        for found in _LOADS.finditer(text) if other != path else ():
            if b"#" in text[text.rfind(b"\n", 0, found.start()) + 1 : found.start()]:
                continue  # it is commented out
            name, margin = _function_round(text, found)
            is_offered = offered and not margin and _passes_on(other, name)
            if is_offered or (not offered and _is_run(text, found, [*texts.values()])):
                return other
    return None


def _passes_on(path: str, name: bytes) -> bool:
    """Whether the package of a file imports a name, for who imports the package."""
    package = os.path.join(os.path.dirname(path), _INIT)
    return is_file(package) and name in _taken([_data(package) or b""])


def _taken(texts: Iterable[bytes]) -> set[bytes]:
    """The names that some files import from others, or read as an attribute."""
    found = set[bytes]()
    for text in texts:
        found.update(word for each in _IMPORT.finditer(text) for word in _WORD.findall(each[2] or b""))
        found.update(_ATTRIBUTE.findall(text))
    return found


def _imported(text: bytes, taken: set[bytes]) -> bytes:
    """What runs of a file, or can be called, where it is imported: not its program, nor a function of that alone."""
    main = _MAIN.search(text)
    if main is None:
        return text
    left = text[: main.start()] + text[main.end() :]
    for name in {*_CALLED.findall(main[0])} - taken:
        function = re.search(_FUNCTION % name, left)
        rest = left.replace(function[0], b"") if function is not None else left
        left = left if re.search(rb"\b%s\b" % name, rest) else rest
    return left


def _is_run(data: bytes, load: re.Match[bytes], texts: list[bytes]) -> bool:
    """Whether the function round a load, if there is one, is called in some file, and not with None for what is loaded.

    As a value it may be called as well, `resume=load_checkpoint`, but not by its import alone, or in a comment.
    """
    name = _function_round(data, load)[0]
    if not name or name.startswith(b"__"):
        return True
    place = _place_of(data, name, load[1])
    as_value = re.compile(rb"(?:\.|[=(,:[]\s*)%s\b(?!\s*[(,])" % name)
    call = re.compile(rb"(?<!def )\b%s\s*\(((?:[^()]|\([^()]*\))*)\)" % name)
    renamed = re.compile(rb"\b%s[ \t]+as[ \t]" % name)
    for text in texts:
        if name not in text:
            continue
        if any(renamed.search(each[0]) for each in _IMPORT.finditer(text)):
            return True
        used = _COMMENT.sub(b"", _IMPORT.sub(b"", text))
        if as_value.search(used) or any(not _gives_none(found[1], place, load[1]) for found in call.finditer(used)):
            return True
    return False


def _function_round(data: bytes, load: re.Match[bytes]) -> tuple[bytes, int]:
    """The name of the function around a load, empty where it is in none, and how far that is indented."""
    functions = [each for each in _headers_round(data, load.start()) if each.kind == b"def"]
    return (functions[-1].name, functions[-1].margin) if functions else (b"", 0)


def _place_of(data: bytes, function: bytes, parameter: bytes) -> int | None:
    """The place of a parameter among those of a function, without `self`, by the text."""
    found = re.search(rb"\bdef[ \t]+%s\s*\(([^)]*)\)" % function, data)
    params = [re.split(rb"[:=]", each)[0].strip() for each in found[1].split(b",")] if found is not None else []
    params = params[1:] if params[:1] in ([b"self"], [b"cls"]) else params
    return params.index(parameter) if parameter in params else None


def _gives_none(arguments: bytes, place: int | None, parameter: bytes) -> bool:
    """Whether the text of a call's arguments gives None for a parameter, by its name or its place."""
    given = [each.strip() for each in re.sub(rb"\([^()]*\)", b"", arguments).split(b",")]
    if any(re.fullmatch(rb"%s\s*=\s*None" % parameter, each) for each in given):
        return True
    return place is not None and place < len(given) and given[place] == b"None"


def user_of(filename: str, attribute: str, method: str, classes: frozenset[str], instead_of: str = "") -> str | None:
    """Another file of the project that calls a method of such an attribute: `trainer.scaler.update()`.

    It has to import the file, or the package that passes it on. `self.scaler.update()` counts where it names one of the
    `classes`, which it may extend; but not where a method stands `instead_of` one of a class of the file, by its name,
    and doesn't call that.
    """
    return _user_of(os.path.abspath(filename), attribute, method, classes, instead_of)


@question
def _user_of(path: str, attribute: str, method: str, classes: frozenset[str], instead_of: str) -> str | None:
    of_project(root_of(os.path.dirname(path)))
    if not is_file(path):
        return None
    users = _users(root_of(os.path.dirname(path))).get((attribute, method), {})
    for other in importers(path) if users.keys() - {path} else ():
        if other not in users:
            continue
        data = _data(other) or b""
        call = re.compile(rb"\bself\s*\.\s*%s\s*\.\s*%s\s*\(" % (attribute.encode(), method.encode()))
        extends = _names(data, classes) and not (instead_of and _only_instead(data, call, instead_of))
        if users[other] - {"self"} or extends:
            return other
    return None


def _only_instead(data: bytes, words: re.Pattern[bytes], name: str) -> bool:
    """Whether all places that have some words are in functions of one name, none of which calls one of that name."""
    places = [each.start() for each in words.finditer(data)]
    around = [_headers_round(data, each) for each in places]
    return all(each and each[-1].kind == b"def" and each[-1].name == name.encode() for each in around) and not any(
        _calls_its_own(data, each, name) for each in places
    )


def _calls_its_own(data: bytes, place: int, name: str) -> bool:
    """Whether the function around a place calls one of its own name, as of the class that it extends."""
    start = max(each.start() for each in _HEADERS.finditer(data, 0, place))
    margin = len(_HEADERS.match(data, start)[1])  # type: ignore[index]
    after = (each.start() for each in _HEADERS.finditer(data, place) if len(each[1]) <= margin)
    return re.search(rb"\.\s*%s\s*\(" % name.encode(), data[start : next(after, len(data))]) is not None


@remembered
def _users(root: str) -> dict[tuple[str, str], dict[str, set[str]]]:
    """The files of a project that call a scaler's methods of attributes: by attribute and method, and for each file
    the names of what has the attribute.
    """
    found: dict[tuple[str, str], dict[str, set[str]]] = {}
    for path in python_files(root):
        data = _data(path) or b""
        for call in _SCALER_CALL.finditer(data):
            if (owner := _OF_ATTRIBUTE.search(data, max(0, call.start() - _LONGEST), call.start())) is not None:
                key = owner[2].decode(), call[1].decode()
                found.setdefault(key, {}).setdefault(path, set()).add(owner[1].decode())
    return found


@remembered
def _modules(path: str) -> frozenset[str]:
    """The modules that a file may import, as it writes them: of `from a import b` both `a` and `a.b`."""
    data = _data(path) or b""
    found = {each.decode("utf-8", "replace") for each in _BY_STRING.findall(data)}
    for module, names, plain in _IMPORT.findall(data):
        given = [each.split()[:1] for each in (names or plain).decode("utf-8", "replace").strip("()\\ ").split(",")]
        known = [word for each in given for word in each if _NAME.fullmatch(word)]
        if module:
            base = module.decode("utf-8", "replace")
            found.add(base)
            found.update(f"{base}{'' if base.endswith('.') else '.'}{each}" for each in known)
        else:
            found.update(known)
    return frozenset(found)


def _data(path: str) -> bytes | None:
    """The bytes of a file; None where it can't be read, or is too large."""
    try:
        return contents(path, _LARGEST)
    except OSError:
        return None


def _names(text: bytes, words: frozenset[str]) -> bool:
    return any(re.search(rb"\b%s\b" % word.encode(), text) for word in words)
