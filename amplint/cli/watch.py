"""Linting again what changes, until Ctrl-C: files, what they import, and their settings.

The disk is asked, and not the system told to call: that works on all systems, in containers and over networks, and its
pauses keep it cheap. A change is looked at when it has settled: editors empty, write, remove and rename.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from amplint.base.paths import absolute, contents, look_again, parents, shown, version, visible
from amplint.config.requirements import reading
from amplint.config.selection import SettingsError
from amplint.config.settings import Resolver
from amplint.engine.prefilter import opens, seen
from amplint.engine.result import Linted, Outcome
from amplint.files.discovery import Found, discover
from amplint.model.project.dependencies import Dependencies
from amplint.model.project.python_files import taken
from amplint.model.project.resolve_import import look_in

# What decides beside the programs, in any folder above them.
_SETTINGS = ("amplint.toml", "pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", ".gitignore")
# Seconds between two looks at the files, and of rest for each second of the processor that a look, or a walk, takes.
_PAUSE, _REST = 0.3, 50
# Seconds after which a change has settled if there was no other, and how often that is waited for.
_SETTLED, _OFTEN = 0.1, 20
_FEW = 3  # changes that a line names

Versions = dict[str, "tuple[int, int, int] | None"]


class Hands(NamedTuple):
    """What the command does for its watch."""

    resolver: Callable[[], Resolver]
    lint: Callable[[Sequence[str], Collection[str], Resolver], list[Outcome]]
    tell: Callable[[Linted, bool], object]  # what was found, with the summary of a run or without
    count: Callable[[Linted], int]  # the findings that are told


class Change(NamedTuple):
    """What is other than before: paths of files with other contents (absolute), files that are gone, and new ones."""

    changed: set[str]
    gone: list[str]
    new: list[str]

    def __str__(self) -> str:
        """A line that names some of them."""
        names = [*sorted(map(shown, self.changed)), *(f"{each} (new)" for each in self.new)]
        names += [f"{each} (gone)" for each in self.gone]
        more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
        return f"{', '.join(names[:_FEW])}{more}"


class Watch:
    """The files of a run, what was found in them, and all that this depends on."""

    def __init__(self, paths: Sequence[str], hands: Hands) -> None:
        self._paths = paths
        self._hands = hands
        self._dependencies = Dependencies()
        self._outcomes: dict[str, Outcome] = {}
        self._reached: dict[str, set[str]] = {}  # a file with AMP -> itself and all that it imports
        self._taken: dict[str, set[tuple[str, str]]] = {}  # what a file imports of names that fixes rename
        self._files: Versions = {}
        self._folders: Versions = {}
        self._resolver = hands.resolver()
        self._found, self._walk_at = self._walk()

    def run(self) -> None:
        """Lint, and wait for a change, in turns."""
        self._learn(self._found.files)
        outcomes = self._lint(self._found.files)
        self._hands.tell(Linted(self._found.files, outcomes, self._found.errors), True)
        self._say(f"watching {_files(self._found.files)}; Ctrl-C ends it")
        while True:
            change = self._next()
            self._say(str(change))
            look_again()
            self._again(change)

    def _again(self, change: Change) -> None:
        """Lint what a change may matter to; tell of what has changed, and of files in which something else is found."""
        files = self._concerned(change)
        before = {name: _essence(self._outcomes[name]) for name in files if name in self._outcomes}
        self._learn(files)
        self._lint(files)
        news = [
            name
            for name in files
            if absolute(name) in change.changed or before.get(name, (None,)) != _essence(self._outcomes[name])
        ]
        news = [name for name in news if os.path.exists(name)]  # else the next look finds it gone
        self._hands.tell(self._linted(news), False)
        self._say(self._summary(news, sum(self._outcomes[name].fixed for name in files)))

    def _concerned(self, change: Change) -> list[str]:
        """The files that a change may matter to: all of them where it is one of settings."""
        if not any(_decides(path) or path in self._resolver.named for path in change.changed):
            return self._touched(change.changed, {*map(absolute, (*change.gone, *change.new))})
        try:
            self._resolver = self._hands.resolver()
        except SettingsError as error:  # of the file that is named; else it is that of some files
            print(f"amplint: error: {visible(str(error))}", file=sys.stderr)
        self._found, self._walk_at = self._walk()
        return self._found.files

    def _summary(self, news: list[str], fixed: int) -> str:
        """How many findings there are in files of which something is told, and in all."""
        here, total = (self._hands.count(self._linted(files)) for files in (news, self._found.files))
        said = f"{f'{fixed} fixed, ' if fixed else ''}{here or 'no'} finding{'' if here == 1 else 's'}"
        return f"{said} ({total} in all {_files(self._found.files)})" if total != here else said

    def _linted(self, names: Sequence[str]) -> Linted:
        return Linted(list(names), [self._outcomes[name] for name in names], [])

    def _lint(self, files: Sequence[str]) -> list[Outcome]:
        outcomes = self._hands.lint(files, self._found.outside, self._resolver)
        for name, outcome in zip(files, outcomes, strict=True):
            self._outcomes[name] = outcome
            if outcome.fixed:  # which is our own change
                self._files[absolute(name)] = _version(absolute(name))
        return outcomes

    def _walk(self) -> tuple[Found, float]:
        """The files to lint, and when to look for others again."""
        began = time.process_time()
        found = discover(self._paths, self._resolver)
        return found, time.monotonic() + max(1.0, (time.process_time() - began) * _REST)

    def _learn(self, files: Iterable[str]) -> None:
        """Find out what the findings of `files` depend on, to look at that from now on."""
        for name in files:
            path = absolute(name)
            self._reached.pop(name, None)
            with suppress(OSError, SettingsError):
                self._taken[path] = taken(path)
                settings = self._resolver.for_file(name)
                if opens(seen(contents(path), name, settings.codes), settings.codes):
                    look_in(settings.src, settings.start)
                    self._reached[name] = self._dependencies.of(path)
        paths = set(map(absolute, self._found.files)).union(*self._reached.values())
        folders = {os.path.dirname(path) for path in paths} | {os.path.dirname(absolute(path)) for path in self._paths}
        above = folders.union(*map(parents, folders))
        deciding = {os.path.join(folder, name) for folder in above for name in _SETTINGS}
        deciding |= self._resolver.named
        lists = {path for folder in above for path in reading(Path(folder))}
        # What is known of a file was seen before it was linted: what changes meanwhile is a change.
        self._files = {**_versions(paths | deciding | lists), **_only(self._files, paths | deciding | lists)}
        self._folders = {**_versions(folders), **_only(self._folders, folders)}

    def _touched(self, changed: set[str], moved: set[str]) -> list[str]:
        """The files in which something else may be found when some have changed, and some came or went."""
        renamed = set()
        for path in changed | moved:
            now = taken(path)
            renamed |= {module for module, _ in now ^ self._taken.get(path, set())}
            self._taken[path] = now
        modules = set(map(_module, moved))
        return [
            name
            for name in self._found.files
            if absolute(name) in changed | moved
            or _module(name) in renamed
            or not self._reached.get(name, set()).isdisjoint(changed | moved)
            or (modules and any(self._dependencies.named(each) & modules for each in self._reached.get(name, ())))
        ]

    def _next(self) -> Change:
        """Wait for a change."""
        pause = _PAUSE
        while True:
            time.sleep(pause)
            began = time.process_time()
            files, folders = _versions(self._files), _versions(self._folders)
            if (files, folders) != (self._files, self._folders):
                files, folders = self._settled(files, folders)
            changed = {path for path in files if files[path] != self._files[path]}
            gone: list[str] = []
            new: list[str] = []
            if changed or folders != self._folders or time.monotonic() >= self._walk_at:
                before = set(self._found.files)
                self._found, self._walk_at = self._walk()
                gone, new = sorted(before.difference(self._found.files)), sorted({*self._found.files} - before)
            self._files, self._folders = files, folders
            changed -= {absolute(name) for name in gone}
            if changed or gone or new:
                return Change(changed, gone, new)
            pause = max(_PAUSE, (time.process_time() - began) * _REST)

    def _settled(self, files: Versions, folders: Versions) -> tuple[Versions, Versions]:
        for _ in range(_OFTEN):
            before = files, folders
            time.sleep(_SETTLED)
            files, folders = _versions(self._files), _versions(self._folders)
            if (files, folders) == before:
                break
        return files, folders

    def _say(self, text: str) -> None:
        print(f"[{time.strftime('%H:%M:%S')}] {visible(text)}")
        sys.stdout.flush()


def _versions(paths: Iterable[str]) -> Versions:
    return {path: _version(path) for path in paths}


def _only(versions: Versions, paths: Collection[str]) -> Versions:
    return {path: each for path, each in versions.items() if path in paths}


def _version(path: str) -> tuple[int, int, int] | None:
    try:
        return version(path)
    except OSError:
        return None


def _module(path: str) -> str:
    """The last name of the module that a file is."""
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    return os.path.basename(folder) if stem == "__init__" else stem


def _decides(path: str) -> bool:
    name = os.path.basename(path)
    return name in _SETTINGS or name.endswith((".txt", ".yml", ".yaml"))


def _essence(outcome: Outcome) -> tuple[object, ...]:
    """What is told of a file."""
    found = outcome.result
    if found is None or found.source is None:
        return (outcome.error,)
    return (outcome.error, *((found.source.location(each.start), each.code, each.message) for each in found.findings))


def _files(names: Collection[str]) -> str:
    return f"{len(names)} file{'' if len(names) == 1 else 's'}"
