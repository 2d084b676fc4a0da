"""Runs a program as Python would, and watches it from its import of torch to its end.

The program is `__main__`, has the arguments and the path that `python SCRIPT` or `python -m MODULE` would give it, and
ends as it would there: with the same exit code, and with tracebacks in which nothing of amplint stands. torch is not
imported here: what a program sets before its own import of torch has its effect.
"""

from __future__ import annotations

import atexit
import builtins
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pkgutil import get_importer
from runpy import _run_module_as_main  # type: ignore[attr-defined]  # what Python itself calls for -m
from types import CodeType, ModuleType, TracebackType
from typing import ClassVar, NamedTuple

from packaging.version import InvalidVersion, Version

from amplint.base.about import installing
from amplint.doctor.findings import Finding, Report
from amplint.doctor.options import Options, Stopped
from amplint.doctor.session import Session, stopped_by

_OLDEST = Version("2.4")
_HOW = installing("verify")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NO_TORCH = "the program never imported torch: it had nothing to watch"
_ELSEWHERE = "processes that the program starts itself are not watched: where they train, start them with torchrun"
# What multiprocessing imports when it starts a process.
_STARTERS = {f"multiprocessing.popen_{how}" for how in ("fork", "spawn_posix", "spawn_win32", "forkserver")}
# The exit code of a program that was ended after a diagnosis, and of one that an exception ended.
STOPPED, FAILED = 3, 1


class CannotWatch(RuntimeError):
    """The doctor can't watch; the message, a line, says why."""


class Program(NamedTuple):
    """What is run: a script, or with `is_module` the name of a module, and its arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False


def need_torch() -> None:
    """Raise CannotWatch where torch is missing or too old. It is not imported."""
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        raise CannotWatch(f"torch is not installed, which amplint run needs: {_HOW}")
    with suppress(importlib.metadata.PackageNotFoundError, InvalidVersion):  # built in place
        version = importlib.metadata.version("torch")
        if Version(version) < _OLDEST:
            raise CannotWatch(f"amplint run needs torch {_OLDEST} or later, this is {version}: {_HOW}")


class Voice:
    """What the doctor says, line by line on the stderr that there was at the start; a rank puts its name before.

    What was forked off is silent: it is no part of the run.
    """

    def __init__(self, prefix: str = "", *, is_quiet: bool = False) -> None:
        self._prefix = prefix
        self._stream = None if is_quiet else sys.stderr
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the process that is watched, and not a fork of it."""
        return os.getpid() == self._process

    def say(self, text: str) -> None:
        """Say some lines."""
        if self._stream is None or not self.is_here:
            return
        lines = "".join(f"{self._prefix}{line}\n" for line in text.splitlines())
        # Whoever has closed the stream, or can't show a character, is not to lose the run.
        with suppress(OSError, ValueError, AttributeError):
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            self._stream.write(lines.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()

    def tell(self, make: Callable[[], str]) -> None:
        """Say what is made now; a bug in that is said as well, and costs the user nothing else."""
        if self._stream is not None and self.is_here:
            try:
                text = make()
            except Exception as bug:
                text = f"amplint: {stopped_by(bug)}"
            self.say(text)


class Watch:
    """One use of the doctor in this process, of which there is one at a time."""

    _open: ClassVar[Watch | None] = None

    def __init__(self, options: Options, voice: Voice) -> None:
        self._voice = voice
        self._session = Session(options, voice.say)
        self._is_installed = False
        self._failed = ""
        self._finder: _Finder | None = None
        self._folder = os.getcwd()
        self._since = time.time()

    @property
    def is_open(self) -> bool:
        """Whether it is this one that watches now."""
        return Watch._open is self

    @staticmethod
    def is_repeating() -> bool:
        """Whether a part of the program runs now because the doctor repeats it."""
        return Watch._open is not None and Watch._open._session.is_repeating

    def begin(self) -> None:
        """Watch from now on, or from the import of torch on.

        Raises:
            CannotWatch: the doctor watches already.
        """
        if Watch._open is not None:
            raise CannotWatch("amplint is watching already: one `observe`, or one `amplint run`, at a time")
        Watch._open = self
        if "torch" in sys.modules:
            self._install()
        else:
            self._finder = _Finder(self._install)
            sys.meta_path.insert(0, self._finder)

    def end(self, error: BaseException | None = None) -> Report:
        """Stop watching, and return what the run came to."""
        if self.is_open:
            Watch._open = None
        if self._finder is not None:
            self._finder.remove()
        if not self._is_installed:
            return Report(notes=(_NO_TORCH, *_elsewhere()))
        try:
            report = self._session.finish(error)
        except Exception as bug:
            report = Report(notes=(stopped_by(bug),), is_off=True)
        findings = tuple(map(self._with_related, report.findings))
        notes = (self._failed, *report.notes) if self._failed else report.notes
        notes += (*(() if report.steps else _elsewhere()), *_explained(error))
        return replace(report, findings=findings, notes=notes, is_off=report.is_off or bool(self._failed))

    def _with_related(self, finding: Finding) -> Finding:
        """A finding with what the linter says of its place."""
        if finding.related is not None or finding.code is None:
            return finding
        from amplint.doctor.related import related_to  # noqa: PLC0415 - most runs need no linter

        related = related_to(finding, self._folder, self._since)
        return replace(finding, related=related, code=(related and related.code) or finding.code)

    def _install(self) -> None:
        try:
            self._is_installed = True
            self._session.install()
        except Exception as bug:  # a bug of ours must not cost the user the run
            self._failed = stopped_by(bug)
            self._voice.say(f"amplint: {self._failed}")


def _elsewhere() -> tuple[str, ...]:
    """A note where other processes may have trained."""
    return () if sys.modules.keys().isdisjoint(_STARTERS) else (_ELSEWHERE,)


def _explained(error: BaseException | None) -> tuple[str, ...]:
    """A note where `amplint explain` knows what ended the program."""
    if not isinstance(error, Exception):
        return ()
    from amplint.doctor.related import explained  # noqa: PLC0415 - most runs need nothing of it

    command = explained(error)
    return (f"what ended the program is explained by {command}",) if command else ()


class _Finder(importlib.abc.MetaPathFinder):
    """Says when torch has been imported."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._is_looking = False

    def find_spec(
        self, name: str, _path: object = None, _target: object = None, /
    ) -> importlib.machinery.ModuleSpec | None:
        """How torch is imported; of all others nothing is known."""
        if name != "torch" or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None and spec.origin is not None:
            spec.loader = _Loader(spec.loader, self._imported)
        return spec

    def remove(self) -> None:
        """Look no longer."""
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def _imported(self) -> None:
        self.remove()
        self._then()


class _Loader(importlib.abc.Loader):
    """A module's loader, with something to do when the module is there; the module knows its own loader only."""

    def __init__(self, loader: importlib.abc.Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """The new module."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then()


def run(program: Program, options: Options, voice: Voice, tell: Callable[[Report], None], hello: str = "") -> int:
    """Run a program under the doctor, `tell` what it came to, and return the program's exit code.

    `hello` is said before it starts.

    Raises:
        CannotWatch: nothing was run: there is no such script, or no torch that fits.
        KeyboardInterrupt: it ended the program, and nobody has to print it.
    """
    execute = _prepared(program)
    need_torch()
    watch = Watch(options, voice)
    watch.begin()
    voice.say(hello)
    error: BaseException | None = None
    try:
        execute()
    except BaseException as raised:
        error = raised
        _clean(error)
    code = _printed(error)

    def finish() -> None:
        if voice.is_here:
            _finish(watch, error, voice, tell)

    if any(_outlives(each) for each in threading.enumerate()):
        atexit.register(finish)  # Python waits for them first
    else:
        finish()
    if isinstance(error, KeyboardInterrupt):
        sys.excepthook = _silent  # Python ends as interrupted programs do, and prints nothing more
        raise KeyboardInterrupt
    return code


def _finish(watch: Watch, error: BaseException | None, voice: Voice, tell: Callable[[Report], None]) -> None:
    with suppress(Exception):
        sys.stdout.flush()  # what the program has said stands before what is said of it
    try:
        tell(watch.end(error))
    except KeyboardInterrupt:
        voice.say("amplint: interrupted before the report was done")
    except Exception as bug:
        voice.say(f"amplint: {stopped_by(bug)}")


def _outlives(thread: threading.Thread) -> bool:
    return thread is not threading.current_thread() and not thread.daemon


def _silent(*_: object) -> None:
    """Print nothing."""


def _prepared(program: Program) -> Callable[[], None]:
    """Make the process what Python would have made it for a program, and return what runs it."""
    name = program.name
    is_folder = not program.is_module and get_importer(name) is not None  # a zip file is one, too
    if not program.is_module and not os.path.exists(name):
        raise CannotWatch(f"{name}: No such file or directory")
    path = os.path.join(os.getcwd(), name)
    main = _new_main()
    _forget_our_path()
    if program.is_module:
        _put_first(os.getcwd())
    elif is_folder:
        sys.path.insert(0, path)
    else:
        _put_first(_folder_of(path))
    sys.argv = ["-m" if program.is_module else name, *program.arguments]
    if program.is_module or is_folder:
        return lambda: _run_module_as_main(name if program.is_module else "__main__", program.is_module)
    main.__file__ = path
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    return lambda: exec(_compiled(path), main.__dict__)


_kept: list[ModuleType] = []  # the module of the command, which has to stay while it runs


def _new_main() -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    return main


def _forget_our_path() -> None:
    """Take from the path what Python has put first on it for the sake of this command."""
    if not sys.path or not sys.argv:
        return
    spec, first = _kept[-1].__spec__, sys.path[0]
    if spec is None:  # the console script; of one on Windows the file itself is on the path
        script = os.path.realpath(sys.argv[0])
        ours = first == "" or os.path.realpath(first) in (script, os.path.dirname(script))
    else:  # `amplint.__main__` has left the current directory only where amplint itself is in it
        ours = os.path.realpath(first) == os.path.realpath(os.getcwd()) == os.path.realpath(os.path.dirname(_OWN[:-1]))
    if ours and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]


def _folder_of(script: str) -> str:
    try:
        return os.path.dirname(os.path.realpath(script, strict=True))
    except OSError:  # a pipe's link leads nowhere
        return os.path.dirname(script)


def _put_first(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def _compiled(path: str) -> CodeType:
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _printed(error: BaseException | None) -> int:
    """Print what ended the program, as Python does, and return the exit code."""
    if error is None:
        return 0
    if isinstance(error, Stopped):
        return STOPPED
    if isinstance(error, SystemExit):
        return _of_exit(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        print("sys.excepthook is missing", file=sys.stderr)
        hook = sys.__excepthook__
    try:
        hook(type(error), error, error.__traceback__)
    except SystemExit as stop:
        return _of_exit(stop)
    except BaseException as second:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, _theirs(second.__traceback__))
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)
    return FAILED


def _of_exit(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    with suppress(OSError, ValueError, AttributeError):
        print(error.code, file=sys.stderr or sys.__stderr__, flush=True)
    return FAILED


def _clean(error: BaseException) -> None:
    """Take the frames of amplint from the traceback of an exception, and of those that led to it."""
    todo, done = [error], set()
    while todo:
        each = todo.pop()
        if id(each) not in done:
            done.add(id(each))
            each.__traceback__ = _theirs(each.__traceback__)
            more = (each.__cause__, each.__context__, *getattr(each, "exceptions", ()))
            todo += [other for other in more if isinstance(other, BaseException)]


def _theirs(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of amplint."""
    frames = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_OWN):
            frames.append(traceback)
        traceback = traceback.tb_next
    after = None
    for each in reversed(frames):
        each.tb_next = after
        after = each
    return after
