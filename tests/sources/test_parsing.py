from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from amplint.sources.parsing import LENGTH, Refusal, refusal, with_room
from amplint.sources.source import Source
from tests import ROOT
from tests.conftest import LEGACY, processor_time

CHAIN = 3000


def refused(text: str) -> Refusal | None:
    return with_room(lambda: refusal(Source("file.py", text)))


def place(text: str) -> tuple[int, int]:
    found = refused(text)
    assert found is not None
    return Source("file.py", text).location(found.start)


DEEP = {
    "sum": "x = " + " + ".join(["a"] * CHAIN),
    "long sum": "x = " + " + ".join(["a"] * 10_000),
    "power": "x = " + "**".join(["a"] * CHAIN),
    "attributes": "x = a" + ".b" * CHAIN,
    "calls": "x = a" + ".b()" * CHAIN,
    "subscripts": "x = a" + "[0]" * CHAIN,
    "not": "x = " + "not " * 2000 + "a",
    "minus": "x = " + "-" * 2000 + "a",
    "and": "x = " + " and ".join(["a"] * CHAIN),
    "conditional": "x = " + "a if b else " * 1500 + "a",
    "strings": "x = (" + "\n".join(["'a'"] * CHAIN) + ")",
    "bytes": "x = (" + "\n".join(['b"a"'] * CHAIN) + ")",
    "f-strings": "x = (" + "\n".join(["f'{a}'"] * CHAIN) + ")",
    "sum in an f-string": "x = f'{" + "+".join(["a"] * CHAIN) + "}'",
    "elif": "if a:\n    pass\n" + "elif b:\n    pass\n" * 2000,
    "elif in a function": "def f():\n    if a:\n        pass\n" + "    elif b:\n        pass\n" * 2000,
    "decorator": "@" + ".".join(["a"] * CHAIN) + "\ndef f(): pass",
    "default": "def f(x=" + ".".join(["a"] * CHAIN) + "): pass",
    "class argument": "class A(x=" + ".".join(["a"] * CHAIN) + "): pass",
    "comprehension": "[x for x in y if " + ".".join(["a"] * CHAIN) + "]",
    "with": "with " + ".".join(["a"] * CHAIN) + ": pass",
    "match": "match x:\n    case 1 if " + ".".join(["a"] * CHAIN) + ":\n        pass",
    "import": "import a" + ".a" * CHAIN,
    "from import": "from a" + ".a" * CHAIN + " import b",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_libcst_dies_of_is_refused_before_it_sees_it(name: str) -> None:
    with processor_time(at_most=30):
        found = refused("import torch\n" + DEEP[name] + "\n")
    assert found is not None
    assert "nested more than 1000 levels deep" in found.message or "can't read it" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "x = " + " + ".join(["a"] * 500),
        "x = a" + ".b()" * 400,
        "if a:\n    pass\n" + "elif b:\n    pass\n" * 400,
        "x = [" + "1234, " * 20_000 + "]",
        "x = '''" + 'don\'t "quote" me\n' * 2000 + "'''",
        "x = (  # " + "don't " * 2000 + "\n    'a'\n    'b'\n)",
        "x = (" + "\n".join(["'a'"] * 500) + ")",
        "x = a < " + " < ".join(["b"] * 3000),
        "@a\n" * 2000 + "def f(): pass",
        "from a import (" + ", ".join(f"b{i}" for i in range(2000)) + ")",
        "".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(2000)),
    ],
)
def test_what_is_long_but_not_deep_is_not_refused(text: str) -> None:
    assert refused(text + "\n") is None


def test_the_place_of_something_deep_is_its_line() -> None:
    row, _ = place("a = 1\nb = 2\nx = " + " + ".join(["a"] * 1100) + "\n")
    assert row == 3


def test_a_place_counts_characters_where_ast_counts_bytes() -> None:
    assert place("é = 'ééé'; x = a" + ".b" * 1100 + "\n") == (1, 16)


def test_a_text_that_libcst_needs_minutes_for_is_refused_at_once() -> None:
    found = refused("x = 1\n" * (LENGTH // 6 + 1))
    assert found is not None
    assert found.message == "not linted: too large, 2,000,004 characters of code; the limit is 2,000,000"


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("x = (\n", (1, 5), "was never closed"),
        ("x = 1\ny = 2 +\n", (2, 8), "invalid syntax"),
        ("s = 'ééé'; é é\n", (1, 14), "invalid syntax"),
        ("if x:\ny = 1\n", (2, 1), "expected an indented block"),
        ("if x:\n        y\n    z\n", (3, 6), "unindent"),
        ("x = 1\r\ny = $\r\n", (2, 5), "invalid syntax"),
        ("x = 1\ry = $\r", (2, 5), "invalid syntax"),
        ("x = 1\n\x0cy = $\n", (2, 6), "invalid syntax"),
        ("x = '\0'\n", (1, 6), "null bytes"),
        ("x = '\ud800'\n", (1, 6), "surrogates"),
        ("x = " + "(" * 3000 + ")" * 3000, (1, 205), "too many nested parentheses"),
        ("def f(", (1, 6), "was never closed"),
        ("try:\n    pass\n", (2, 9), "expected 'except'"),
    ],
)
def test_a_syntax_error_is_said_with_its_place(text: str, where: tuple[int, int], message: str) -> None:
    found = refused(text)
    assert found is not None
    assert message in found.message
    assert Source("file.py", text).location(found.start) == where
    assert found.start <= found.end <= len(text)


def test_a_syntax_error_names_the_python_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Python can tell that syntax is newer than itself, so the version is in every message."""
    found = refused("newer import torch\n")
    assert found is not None
    assert (
        f"(as Python {sys.version_info[0]}.{sys.version_info[1]} reads it; for code of a newer Python" in found.message
    )


def test_python_s_warnings_about_the_text_are_not_shown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refused("x = '\\d'\nassert (x, 'y')\nx is 1\n") is None


def test_a_function_with_room_may_recurse_deeply() -> None:
    def depth(n: int) -> int:
        return 0 if n == 0 else depth(n - 1) + 1

    assert with_room(lambda: depth(20_000)) == 20_000
    with pytest.raises(RecursionError):
        depth(20_000)


def test_the_process_s_settings_are_as_before() -> None:
    before = sys.getrecursionlimit(), threading.stack_size(), gc.isenabled()
    with_room(lambda: None)
    with pytest.raises(ZeroDivisionError):
        with_room(lambda: 1 // 0)
    assert (sys.getrecursionlimit(), threading.stack_size(), gc.isenabled()) == before
    gc.disable()
    try:
        with_room(lambda: None)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_exceptions_come_through(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(error):
        with_room(fail)


def test_less_stack_is_taken_where_there_is_no_room_for_much(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    sizes: list[int] = []

    def limited(self: threading.Thread) -> None:
        size = threading.stack_size()
        sizes.append(size)
        if size > 100 << 20:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    assert with_room(lambda: 1) == 1
    assert sizes == [512 << 20, 64 << 20]


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
def test_calls_take_no_memory_from_the_system_wherever_the_stack_ends() -> None:
    resource = pytest.importorskip("resource")

    def leaf() -> None: ...

    def pages(depth: int) -> int:
        if depth:
            return pages(depth - 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(2_000):
            leaf()
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

    assert with_room(lambda: max(map(pages, range(200)))) < 1_000


def test_threads_wait_for_each_other() -> None:
    limits: list[int] = []
    before = sys.getrecursionlimit()
    threads = [
        threading.Thread(target=with_room, args=(lambda: limits.append(sys.getrecursionlimit()),)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(limits)) == 1
    assert sys.getrecursionlimit() == before


# Ctrl-C comes while libcst's native code makes the tree. It calls Python, where the thread notices the process's end.
IN_NATIVE_CODE = """\
import signal, sys, threading, time
import libcst
from amplint.cli import main

def interrupted(self):
    time.sleep(0.1)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    while True:
        time.sleep(0.001)

libcst.Name.__post_init__ = interrupted
sys.argv[1:] = ["--no-cache", "--jobs", "1", "a.py"]
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_an_interrupt_in_native_code_does_not_abort_the_process(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(LEGACY)
    command, env = [sys.executable, "-c", IN_NATIVE_CODE], {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "amplint: error: interrupted: 1 of 1 files were not linted\n"
