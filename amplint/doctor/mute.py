"""Silence in the thread that runs something again; other threads of the program go on to talk."""

from __future__ import annotations

import builtins
import io
import logging
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from amplint.verify.bench.patching import undisturbed, wrap


class _Stream:
    """Drops what one thread writes while it is on, and else is another stream."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._thread = threading.get_ident()
        self.is_on = True

    def _is_dropped(self) -> bool:
        return self.is_on and threading.get_ident() == self._thread

    def write(self, text: str) -> int:
        """Write a text."""
        return len(text) if self._is_dropped() else int(self._real.write(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is kept."""
        if not self._is_dropped():
            self._real.flush()

    @property
    def buffer(self) -> Any:
        """The stream of bytes."""
        return io.BytesIO() if self._is_dropped() else self._real.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def mute() -> Iterator[None]:
    """Nothing that this thread prints, logs or warns of in the block is heard."""
    thread = threading.get_ident()

    def unless_here(real: Any, *args: Any, **kwargs: Any) -> Any:
        return None if threading.get_ident() == thread else real(*args, **kwargs)

    with ExitStack() as undo:
        for name in ("stdout", "stderr"):
            stream = _Stream(getattr(sys, name))
            undo.callback(setattr, stream, "is_on", False)
            undo.callback(setattr, sys, name, getattr(sys, name))
            setattr(sys, name, stream)
        wrap(undo, builtins, "print", unless_here)
        wrap(undo, logging.Logger, "handle", unless_here)
        undo.enter_context(undisturbed())
        undo.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield
