"""Where an operation is called: the user's lines, the module, and what the user calls the operation."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

from amplint.doctor.findings import Place, span_of
from amplint.doctor.places import is_users

MOST_LINES = 8

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CALL = nn.Module._call_impl.__code__
_BACKWARD = torch.autograd.function.BackwardCFunction.apply.__code__
_ENGINE = frozenset(
    {(torch.autograd.graph.__file__, "_engine_run_backward")}
    | {(torch.autograd.__file__, name) for name in ("backward", "grad")}
)
# Python code of torch between an operation and the mode that sees it.
_BETWEEN = re.compile(r"[\\/]torch[\\/](_ops|_compile|_dynamo[\\/]\w+|utils[\\/](_python_dispatch|_contextlib))\.py$")

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.MatMult: "matmul",
    ast.Pow: "pow",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
}
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linalg_matmul", "addr", "ger")
_ATEN = {
    **dict.fromkeys(_PRODUCTS, "matmul"),
    "to_copy": "to",
    "copy": "to",
    "convolution": "conv",
    "convolution_overrideable": "conv",
    "linalg_vector_norm": "norm",
    "nll_loss_forward": "nll_loss",
    "nll_loss2d_forward": "nll_loss",
    "var_mean": "var",
    "batch_norm_with_update": "batch_norm",
    "batch_norm_no_update": "batch_norm",
    "lift_fresh": "tensor",
}
_SPACES = (torch, nn.functional, torch.Tensor, torch.linalg, torch.special, torch.fft)


class Running(Enum):
    """What of the program is running an operation."""

    FORWARD = "forward"  # a forward pass, or a checkpoint's second one
    NODE = "node"  # a node of the autograd graph
    FUNCTION = "function"  # the backward of a custom Function
    HOOK = "hook"  # a hook on a tensor or node


class Line(NamedTuple):
    """A frame of Python as it stood: what `place` and the name of the operation are made from, if someone asks."""

    code: CodeType
    line: int
    instruction: int
    names: Mapping[str, Any]  # its global variables

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.code.co_filename, self.line, self.code.co_name, self.code, self.instruction)


class Call(NamedTuple):
    """How an operation was called.

    Attributes:
        running: By what.
        lines: The user's frames, the innermost first. In a backward pass only those within it.
        function: How many of them are within the forward of a custom Function, None where there is no such Function.
        module: The name of the innermost module.
        innermost: The innermost frame, of a library or the user.
        is_direct: Whether the innermost user's frame calls the operation itself, not through a module.
    """

    running: Running
    lines: tuple[Line, ...]
    function: int | None
    module: str
    innermost: Line | None
    is_direct: bool

    @property
    def outside(self) -> tuple[Line, ...]:
        """The user's frames without those within a custom Function."""
        return self.lines[self.function or 0 :]


def look(frame: FrameType | None, last: FrameType | None, modules: Mapping[int, str], is_backward: bool) -> Call:
    """Say how an operation was called.

    Args:
        frame: The innermost frame.
        last: The outermost frame that counts.
        modules: The names of modules by their ids.
        is_backward: Whether a node of the autograd graph is running.

    Returns:
        The call.
    """
    walk = _Walk(modules, is_backward)
    while frame is not None and walk.goes_on_after(frame) and frame is not last:
        frame = frame.f_back
    return walk.call()


class _Walk:
    """A walk over frames, the innermost first, and what was seen on it."""

    def __init__(self, modules: Mapping[int, str], is_backward: bool) -> None:
        self._modules = modules
        self._is_backward = is_backward
        self._is_again = is_backward and torch.is_grad_enabled()  # a checkpoint runs its forward pass a second time
        self._lines: list[Line] = []
        self._innermost: Line | None = None
        self._module: str | None = None
        self._method: str | None = None  # of a module that is not called, only a method of it is
        self._function: int | None = None
        self._is_function = False  # within the backward of a custom Function
        self._is_direct = True

    def goes_on_after(self, frame: FrameType) -> bool:
        """Look at a frame; returns whether those outside of it matter."""
        code = frame.f_code
        if self._innermost is None and not _is_between(code.co_filename):
            self._innermost = _line(frame)
        if code is _CALL:
            self._is_direct = self._is_direct and bool(self._lines)
            if self._module is None:
                self._module = self._modules.get(id(frame.f_locals.get("self")))
        elif is_users(code.co_filename):
            if len(self._lines) < MOST_LINES:
                self._lines.append(_line(frame))
            if self._module is None and self._method is None and code.co_varnames[:1] == ("self",):
                self._method = self._modules.get(id(frame.f_locals.get("self")))
        elif self._is_backward and not self._goes_on_in_backward(code):
            return False
        if code.co_name == "forward" and _is_of_function(code):
            self._function = len(self._lines)
        return True

    def _goes_on_in_backward(self, code: CodeType) -> bool:
        if code is _BACKWARD:
            self._is_function = not self._is_again
        elif code.co_filename.endswith("checkpoint.py"):
            self._is_again = True
        return code.co_name not in _ENGINE_NAMES or (code.co_filename, code.co_name) not in _ENGINE

    def call(self) -> Call:
        """What was seen."""
        running = Running.FORWARD
        if self._is_backward and not self._lines:
            running = Running.NODE
        elif self._is_backward and not self._is_again:
            running = Running.FUNCTION if self._is_function else Running.HOOK
        module = self._method or self._module or ""
        return Call(running, tuple(self._lines), self._function, module, self._innermost, self._is_direct)


_ENGINE_NAMES = frozenset(name for _, name in _ENGINE)


def _line(frame: FrameType) -> Line:
    return Line(frame.f_code, frame.f_lineno, frame.f_lasti, frame.f_globals)


def _is_of_function(code: CodeType) -> bool:
    """Whether code is the forward of a custom Function.

    What calls it doesn't say so: from torch 2.14 on `Function.apply` has no frame.
    """
    known = _forwards.get(id(code))
    if known is None:
        if len(_forwards) >= _MOST_FORWARDS:
            _forwards.clear()
        known = _forwards[id(code)] = code, any(_code_of(each) is code for each in _functions(torch.autograd.Function))
    return known[1]


_MOST_FORWARDS = 1024
_forwards: dict[int, tuple[CodeType, bool]] = {}  # by the ids of code, which lives as long as it is here


def _functions(base: type) -> Iterator[type]:
    """The classes that are derived from another."""
    each: type
    for each in base.__subclasses__():
        yield each
        yield from _functions(each)


def _code_of(function: type) -> CodeType | None:
    """The code of a custom Function's forward, without what decorates it."""
    forward = inspect.unwrap(function.forward)  # type: ignore[attr-defined]
    return getattr(forward, "__code__", None)


@functools.cache
def _is_between(filename: str) -> bool:
    return filename.startswith(_OWN) or _BETWEEN.search(filename) is not None


def spoken(call: Call, operation: str) -> str:
    """What a user calls an operation: as the user's line calls it, or as torch's Python does, or by its own name.

    Args:
        call: How it was called.
        operation: The name within `aten`, such as "_softmax".

    Returns:
        The name, such as "softmax".
    """
    name = None
    if call.lines and call.is_direct:
        name = _written(call.lines[0])
    if name is None and call.innermost is not None and call.innermost not in call.lines:
        name = _written(call.innermost)
    return name or plain(operation)


def plain(operation: str) -> str:
    """The name of an operation of `aten` without what only says how it is done."""
    name = operation.strip("_").removeprefix("native_").removeprefix("cudnn_").removeprefix("miopen_")
    name = re.sub(r"_backward(_\w+)?$|_legit\w*$|_functional$", "", name).removeprefix("safe_")
    if "scaled_dot_product" in name or name.endswith("_attention_forward"):
        return "scaled_dot_product_attention"
    return _ATEN.get(name, name)


def node_name(node: str) -> str:
    """What a user calls the operation of a node such as "MulBackward0"."""
    name = re.sub(r"Backward\w*$", "", node.rpartition("::")[2])
    return plain(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


@functools.lru_cache(maxsize=1024)
def _expression(code: CodeType, instruction: int) -> ast.AST | None:
    """The expression or statement that an instruction of some code is of, None where Python doesn't say."""
    span = span_of(code, instruction)
    if span is None:
        return None
    first, start, last, end = span
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if len(lines) != last - first + 1:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    text = b"".join(lines).decode(errors="replace")
    for way in (f"({text})", text):
        try:
            (statement,) = ast.parse(way).body
        except (SyntaxError, ValueError):
            continue
        return statement.value if isinstance(statement, ast.Expr) else statement
    return None


def _written(line: Line) -> str | None:
    """The function of torch that a line calls, or the one of its operator."""
    node = _expression(line.code, line.instruction)
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return _OPERATORS.get(type(node.op))
    if not isinstance(node, ast.Call):
        return None
    name = ""
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
    elif isinstance(node.func, ast.Name):
        known = line.names.get(node.func.id)
        is_torch = str(getattr(known, "__module__", None) or "").startswith("torch") or hasattr(torch, node.func.id)
        name = str(getattr(known, "__name__", node.func.id)) if is_torch else node.func.id
    is_public = name and not name.startswith("_")
    return name.rstrip("_") if is_public and any(hasattr(space, name) for space in _SPACES) else None


def number_written(frame: FrameType | None) -> float | None:
    """The number that the line of a frame assigns to a part of a tensor, or makes a tensor of; None if there is none.

    torch makes a tensor of the number before anything sees it: of `scores[mask] = -1e9` in half only -inf is left.
    """
    if frame is None:
        return None
    try:
        (statement,) = ast.parse(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()).body
    except (SyntaxError, ValueError):
        return None
    numbers = numbers_made(statement, frame)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        numbers += _numbers([statement.value], frame)
    return numbers[0] if numbers else None


def numbers_made(statement: ast.AST, frame: FrameType) -> list[float]:
    """The numbers that a statement makes tensors of."""
    given: list[ast.expr] = []
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        if (at := _MAKERS.get(_called(call))) is not None:
            given += [each.value for each in call.keywords if each.arg in ("data", "fill_value")]
            given += call.args[at : at + 1]
    return _numbers(given, frame)


# Functions that make a tensor of a number, and which argument that is.
_MAKERS = {
    "tensor": 0, "new_tensor": 0, "as_tensor": 0, "scalar_tensor": 0, "full": 1, "new_full": 1, "full_like": 1,
}  # fmt: skip


def _numbers(nodes: Iterable[ast.expr], frame: FrameType) -> list[float]:
    values = (_value(node, frame) for node in nodes)
    return [float(value) for value in values if isinstance(value, (int, float))]


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What a name, an attribute or a number stands for in a frame, None for all else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand, frame)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, frame), node.attr, None)
    return None


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
