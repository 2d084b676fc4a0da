"""Remembers what numbers were before the program cast them to half precision: constants, tables, small weights.

A step that is run again starts from what the program holds. Where that was rounded earlier, such as a table that was
cast when the program began, float32 starts from rounded numbers as well, and proves nothing.
"""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from types import FrameType
from typing import NamedTuple

import torch
from torch import Tensor

from amplint.doctor.calls import Call, Line, Running, look, numbers_made
from amplint.doctor.places import is_users, user_frame
from amplint.doctor.readings import HALF, can_wait_for, is_plain
from amplint.doctor.shadow import Operation
from amplint.doctor.slices import tree_of

_MOST_LOOKS = 512  # casts that are looked at: constants are made early
_MOST_NUMBERS = 1 << 16  # of a cast
_MOST_BYTES = 16 << 20  # that are kept


class Cast(NamedTuple):
    """A cast to half precision that has changed numbers: the operation on a copy of them, and how it was called."""

    operation: Operation
    call: Call

    def gave(self, tensor: Tensor) -> bool:
        """Whether a tensor holds what the cast gave."""
        (source,) = self.operation.args
        if source.shape != tensor.shape:
            return False
        # Not with `source.to`: that is watched, and would be taken in as a cast of the program's.
        return torch.equal(torch.ops.aten._to_copy.default(source, dtype=tensor.dtype), tensor.detach())


class Casts:
    """The casts so far that have changed numbers, by the memory that they gave."""

    def __init__(self) -> None:
        self._casts: dict[int, Cast] = {}
        self._looks = 0
        self._bytes = 0

    def made(self, source: Tensor, result: Tensor) -> None:
        """Take in a cast to half precision, which has run."""
        if self._looks >= _MOST_LOOKS or source.dtype.itemsize <= 2:
            return
        if not (can_wait_for(source) and is_plain(result) and 0 < source.numel() <= _MOST_NUMBERS):
            return
        self._looks += 1
        size = source.numel() * source.element_size()
        kept = source.detach()
        if result.requires_grad or self._bytes + size > _MOST_BYTES or torch.equal(result.to(kept.dtype), kept):
            return
        frame = sys._getframe(1)
        while frame.f_back is not None and not is_users(frame.f_code.co_filename):
            frame = frame.f_back
        self._bytes += size
        operation = Operation(torch.ops.aten._to_copy.default, (kept.clone(),), {"dtype": result.dtype})
        self._casts[_memory(result)] = Cast(operation, look(frame, None, {}, is_backward=False))

    def copied(self, tensor: Tensor, copy: Tensor) -> None:
        """A tensor was copied: the copy holds what the tensor holds."""
        if tensor.dtype in HALF and is_plain(tensor) and (cast := self._casts.get(_memory(tensor))) is not None:
            self._casts[_memory(copy)] = cast

    def of(self, tensor: Tensor) -> Cast | None:
        """The cast that has given a tensor what it holds, None where there was none, or it has changed since."""
        cast = self._casts.get(_memory(tensor)) if self._casts and tensor.dtype in HALF else None
        return cast if cast is not None and cast.gave(tensor) else None


def constant(tensor: Tensor) -> Cast | None:
    """The number that a tensor of one 0 was made of in half precision: `EPSILON = torch.tensor(1e-9, dtype=...)`.

    A variable of the user's frame that reads it, or an attribute of its `self`, holds it.
    """
    if tensor.dtype not in HALF or tensor.numel() != 1 or bool(tensor) or (frame := user_frame()) is None:
        return None
    name = _name_of(tensor, frame)
    with suppress(SyntaxError):
        for node in ast.walk(tree_of(frame.f_code.co_filename)) if name else ():
            numbers = numbers_made(node, frame) if _sets(node, name) else []
            for number in numbers:
                if number and not bool(torch.tensor(number, dtype=tensor.dtype)):
                    source = torch.full(tensor.shape, number, dtype=torch.float32)
                    operation = Operation(torch.ops.aten._to_copy.default, (source,), {"dtype": tensor.dtype})
                    line = Line(frame.f_code, getattr(node, "lineno", 0), -1, frame.f_globals)
                    return Cast(operation, Call(Running.FORWARD, (line,), None, "", None, is_direct=False))
    return None


def _name_of(tensor: Tensor, frame: FrameType) -> str:
    """The name of a variable, or of an attribute of `self`, that holds a tensor; "" for none."""
    itself = frame.f_locals.get("self")
    held = [frame.f_locals, frame.f_globals, getattr(itself, "__dict__", {}), getattr(itself, "_buffers", {})]
    return next((name for names in held for name, value in list(names.items()) if value is tensor), "")


def _sets(node: ast.AST, name: str) -> bool:
    """Whether a statement sets a variable or attribute, or a call registers a buffer of that name."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(name in (getattr(each, "id", None), getattr(each, "attr", None)) for each in targets)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register_buffer":
        return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == name
    return False


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
