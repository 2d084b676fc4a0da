"""A listener that passes on what it hears, and that a bug in a listener can't get past: the program goes on."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from amplint.verify.bench.instrument import Listener


def is_traced() -> bool:
    """Whether operations are only written down, for a compiler, an exporter or a transform: there are no numbers."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or (torch._C._len_torch_dispatch_stack() > 0 and any(map(torch._C._get_dispatch_mode, _TRACERS)))
    )


_TRACERS = tuple(vars(torch._C._TorchDispatchModeKey)[name] for name in ("FAKE", "PROXY", "FUNCTIONAL"))


@contextmanager
def unheard() -> Iterator[None]:
    """Modes and subclasses of the program's don't hear of operations in the block."""
    with torch._C.DisableTorchFunction():
        if torch._C._len_torch_dispatch_stack():
            with _disable_current_modes():
                yield
        else:
            yield


_quiet, _modes = torch._C.DisableTorchFunction, torch._C._len_torch_dispatch_stack


class Guard(Listener):
    """Tells several listeners what it hears in the thread that it was made in.

    Args:
        listeners: Who is told, in this order.
        is_quiet: Whether what happens now is the doctor's own.
        failed: Called with the first exception of a listener; after that nobody is told anything.
        afterwards: What listeners put here is called after the event, outside of the block that keeps it from modes.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        is_quiet: Callable[[], bool],
        failed: Callable[[Exception], None],
        afterwards: list[Callable[[], object]],
    ) -> None:
        self._is_quiet = is_quiet
        self._failed = failed
        self._thread = threading.get_ident()
        self._is_off = False
        self._afterwards = afterwards
        self._is_telling = False
        _guards.add(self)
        for name in _EVENTS:
            heard = [
                getattr(each, name) for each in listeners if getattr(type(each), name) is not getattr(Listener, name)
            ]
            setattr(self, name, self._passing(heard))

    def _passing(self, told: Sequence[Callable[..., None]]) -> Callable[..., None]:
        if len(told) == 1:
            return self.guarded(told[0])

        def tell(*args: Any, **kwargs: Any) -> None:
            for each in told:
                each(*args, **kwargs)

        return self.guarded(tell)

    def guarded(self, function: Callable[..., None]) -> Callable[..., None]:
        """A function that does what another does, unless the doctor is off, and whose exceptions end nothing."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> None:
            if self._is_off or self._is_quiet() or threading.get_ident() != self._thread or is_traced():
                return
            was_telling, self._is_telling = self._is_telling, True
            try:
                with _quiet() if not _modes() else unheard():  # each event comes here: as short as it can be
                    function(*args, **kwargs)
                while self._afterwards and not was_telling:
                    self._afterwards.pop(0)()
            except Exception as error:  # a bug of the doctor's; `Stopped` is not an Exception
                self.fail(error)
            finally:
                self._is_telling = was_telling

        return call

    def fail(self, error: Exception) -> None:
        """Switch the doctor off."""
        if not self._is_off:
            self._is_off = True
            self._failed(error)

    @property
    def is_off(self) -> bool:
        """Whether nobody is told anything any more."""
        return self._is_off

    def close(self) -> None:
        """Tell nobody anything any more."""
        self._is_off = True


_EVENTS = [name for name, value in vars(Listener).items() if callable(value) and not name.startswith("_")]

_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _close_all() -> None:
    for guard in list(_guards):
        guard.close()


if hasattr(os, "register_at_fork"):  # what is forked off is no part of the run
    os.register_at_fork(after_in_child=_close_all)
