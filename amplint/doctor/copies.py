"""Weights that the program writes itself, such as averages: the line that writes them, parameter by parameter."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import NamedTuple

from torch import nn

from amplint.doctor.findings import Place
from amplint.doctor.places import is_users
from amplint.doctor.replay import is_finite
from amplint.doctor.slices import NoSlice, body_of, tree_of
from amplint.doctor.sources import names_of, written_by

_OF_MODULES = ("parameters", "named_parameters", "buffers", "named_buffers")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Held(NamedTuple):
    """A module by the name that code has for it: which code, such as a class, and the dotted name."""

    path: str
    code: ast.AST
    name: tuple[str, ...]


def line_that_averages(frames: Sequence[FrameType], model: nn.Module, stepped: set[int]) -> Place | None:
    """The only line that writes, one by one, the weights of a model or of what it is a copy of; None for none.

    Args:
        frames: The user's frames, the innermost first, whose variables are looked through.
        model: The model, whose weights are not finite.
        stepped: The ids of parameters that optimizers step, whose weights may be bad by that.
    """
    lines = set()
    for held in _holders(frames, model, stepped):
        lines |= {Place(held.path, line) for line in _writes(held.code, held.name)}
    return lines.pop() if len(lines) == 1 else None


def _holders(frames: Sequence[FrameType], model: nn.Module, stepped: set[int]) -> Iterator[_Held]:
    """The variables, and attributes of objects of the user's classes, that are bad and like a model."""
    seen = set()
    for frame in frames:
        for name, value in list(frame.f_locals.items()):
            if isinstance(value, nn.Module) and _is_like(value, model, stepped):
                yield from (_Held(frame.f_code.co_filename, code, (name,)) for code in _function_of(frame))
            for kind, attribute in _attributes(value, model, stepped):
                if (kind, attribute) not in seen:
                    seen.add((kind, attribute))
                    yield from (_Held(path, code, ("self", attribute)) for path, code in _class_of(kind))


def _attributes(value: object, model: nn.Module, stepped: set[int]) -> Iterator[tuple[type, str]]:
    modules = value._modules if isinstance(value, nn.Module) else {}
    for name, held in [*getattr(value, "__dict__", {}).items(), *modules.items()]:
        if isinstance(held, nn.Module) and _is_like(held, model, stepped):
            yield type(value), name


def _is_like(held: nn.Module, model: nn.Module, stepped: set[int]) -> bool:
    """Whether a module is a model or what it is a copy of: bad as well, and no optimizer steps it."""
    shapes = [(name, each.shape) for name, each in held.named_parameters()]
    if shapes != [(name, each.shape) for name, each in model.named_parameters()]:
        return False
    parameters = list(held.parameters())
    return not any(id(each) in stepped for each in parameters) and not is_finite([each.detach() for each in parameters])


def _class_of(kind: type) -> Iterator[tuple[str, ast.AST]]:
    """The code of a class of the user's."""
    with suppress(TypeError, OSError, SyntaxError):
        path = inspect.getsourcefile(kind)
        for node in ast.walk(tree_of(path)) if path is not None and is_users(path) else ():
            if path is not None and isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                yield path, node


def _function_of(frame: FrameType) -> Iterator[ast.AST]:
    """The code of a frame: a name has its meaning there alone."""
    with suppress(NoSlice):
        yield ast.Module(body_of(frame.f_code, frame.f_globals), [])


def _inside(code: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module without those of functions in it; all of a class."""
    for node in ast.iter_child_nodes(code):
        if isinstance(code, ast.ClassDef) or not isinstance(node, (*_Function, ast.ClassDef, ast.Lambda)):
            yield node
            yield from _inside(node)


def _writes(code: ast.AST, name: tuple[str, ...]) -> Iterator[int]:
    """The lines in loops over the parameters of what has a name, that write to the parameter."""
    for loop in _inside(code):
        if isinstance(loop, ast.For):
            variables = {variable for variable, of in _bound(loop.target, loop.iter) if of == name}
            for node in ast.walk(loop) if variables else ():
                if any(names_of(each)[:1] == (variable,) for each in written_by(node) for variable in variables):
                    yield getattr(node, "lineno", 0)


def _bound(target: ast.expr, over: ast.expr) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a loop binds to parameters: each variable, with the name of their module."""
    if not isinstance(over, ast.Call):
        return
    if isinstance(over.func, ast.Name) and over.func.id == "zip" and isinstance(target, ast.Tuple):
        for each, given in zip(target.elts, over.args, strict=False):
            yield from _bound(each, given)
    elif isinstance(over.func, ast.Attribute) and over.func.attr in _OF_MODULES:
        last = target.elts[-1] if isinstance(target, ast.Tuple) else target
        if isinstance(last, ast.Name):
            yield last.id, names_of(over.func.value)
