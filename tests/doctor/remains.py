"""What a program leaves behind: its output, how it ended, and a fingerprint of everything that its variables reach."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import io
import logging
import random
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # it sets filters of warnings, once

from amplint.doctor import observe
from amplint.doctor.findings import Report

_PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size, range, slice)
_SETTINGS = "settings of the process"


def remains(path: Path, *, is_watched: bool, **options: bool) -> tuple[dict[str, str], Report | None]:
    """Run a program in this process; what is left of it by the names of its variables, and the doctor's report."""
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(7)
    warnings.resetwarnings()
    main, kept = types.ModuleType("__main__"), []
    main.__file__ = str(path)
    before, sys.modules["__main__"], argv, sys.argv = sys.modules["__main__"], main, sys.argv, [str(path)]
    out, end, report = io.StringIO(), "", None
    try:
        with contextlib.redirect_stdout(out), _kept(kept), contextlib.ExitStack() as stack:
            seen = stack.enter_context(observe(quiet=True, **options)) if is_watched else None
            try:
                exec(compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True), main.__dict__)
            except (Exception, SystemExit) as error:
                end = f"{type(error).__name__}: {error}"
        report = seen.report if seen is not None else None
        left = {"what is printed": out.getvalue(), "how it ends": end, _SETTINGS: _settings()}
        left |= {"optimizers and scalers": fingerprint(kept)}
        left |= {
            name: fingerprint(value)
            for name, value in vars(main).items()
            if not isinstance(value, types.ModuleType) and not name.startswith("__")
        }
        return left, report
    finally:
        sys.modules["__main__"], sys.argv = before, argv
        warnings.resetwarnings()


@contextlib.contextmanager
def _kept(kept: list[Any]) -> Iterator[None]:
    """Keep the optimizers and scalers that are made, also those that live in functions."""
    real = {kind: kind.__init__ for kind in (torch.optim.Optimizer, torch.amp.GradScaler)}

    def keeping(function: Any) -> Any:
        def made(self: Any, *args: Any, **kwargs: Any) -> None:
            function(self, *args, **kwargs)
            kept.append(self)

        made.__wrapped__ = function  # type: ignore[attr-defined]
        return made

    for kind, function in real.items():
        kind.__init__ = keeping(function)  # type: ignore[misc]
    try:
        yield
    finally:
        for kind, function in real.items():
            kind.__init__ = function  # type: ignore[misc]


def _settings() -> str:
    """What the process is set to, and the state of its random numbers."""
    state = [
        fingerprint((torch.get_rng_state(), random.getstate(), np.random.get_state())),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),  # type: ignore[attr-defined]
        logging.root.manager.disable,
        [str(each) for each in warnings.filters],
        torch.is_anomaly_enabled(),
    ]
    return repr(state)


def fingerprint(value: Any) -> str:
    """A hash of a value and all that it reaches."""
    walk = _Walk()
    walk.add(value)
    return walk.hash.hexdigest()


class _Walk:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []

    def _note(self, *parts: Any) -> None:
        self.hash.update(repr(parts).encode())

    def add(self, value: Any) -> None:
        """Take in a value."""
        if isinstance(value, str) and value.startswith(tempfile.gettempdir()):
            return
        if isinstance(value, _PLAIN):
            self._note(type(value).__name__, repr(value))
            return
        if id(value) in self._seen:
            self._note("again", self._seen[id(value)])
            return
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        self._note(type(value).__qualname__)
        if isinstance(value, torch.Tensor):
            self._tensor(value)
        elif isinstance(value, torch.Generator):
            self.add(value.get_state())
        elif isinstance(value, np.random.Generator):
            self._note(value.bit_generator.state)
        elif isinstance(value, np.random.RandomState):
            self._note(repr(value.get_state()[1].tolist()))
        elif isinstance(value, random.Random):
            self._note(value.getstate())
        elif isinstance(value, np.ndarray):
            self._note(value.dtype, value.shape, value.tobytes())
        elif isinstance(value, collections.abc.Mapping):
            has_numbers = isinstance(value, collections.OrderedDict)  # handles of hooks, which torch counts on
            for key, each in value.items():
                if not (has_numbers and isinstance(key, int)):
                    self.add(key)
                self.add(each)
        elif isinstance(value, (io.StringIO, io.BytesIO)):
            self._note(value.getvalue())
        elif isinstance(value, (list, tuple, collections.deque)):
            for each in value:
                self.add(each)
        elif isinstance(value, (set, frozenset)):
            self._note(sorted(map(repr, value)))
        elif isinstance(value, types.FunctionType):
            if value.__module__ == "__main__":
                self._function(value)
        elif isinstance(value, torch.amp.GradScaler):  # it keeps what it has by the ids of optimizers
            states = vars(value).get("_per_optimizer_states", {})
            self.add({**vars(value), "_per_optimizer_states": list(states.values())})
        elif isinstance(value, types.MethodType):
            self.add(value.__self__)
        elif isinstance(value, type):
            if value.__module__ == "__main__":
                self.add({k: v for k, v in vars(value).items() if not k.startswith("__")})
        elif not isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
            self._object(value)

    def _tensor(self, value: torch.Tensor) -> None:
        self._note(value.dtype, tuple(value.shape), value.requires_grad, value.is_leaf, value.is_inference())
        if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
            return
        if not value.is_inference():
            self._note(value._version, value.is_leaf or type(value.grad_fn).__name__)
        data = value.detach()
        if value.layout is torch.strided:
            self._note(data.stride(), data.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        if value.is_leaf and value.grad is not None:
            self.add(value.grad)

    def _function(self, value: types.FunctionType) -> None:
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):
                self.add(cell.cell_contents)
        self.add(value.__defaults__)
        self.add(vars(value))

    def _object(self, value: Any) -> None:
        if isinstance(value, torch.utils.hooks.RemovableHandle):
            return
        if type(value).__module__.startswith(("threading", "_thread", "weakref", "contextvars", "torch._dynamo")):
            return
        with contextlib.suppress(Exception):
            self.add({k: v for k, v in vars(value).items() if k not in ("_profile_hook_step_name", "_weak_ref")})
