"""What a variable of an interpreted program can hold beside numbers, containers and torch's own objects,
and what is asked of it: the tensors in it, how the program writes it, where it comes from.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from amplint.model.objects.key_parts import part_of
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model.objects.event import Event
    from amplint.model.syntax.ir import Scope
    from amplint.verify.program.program import Code


COPY = " (copy)"  # ends the identity of a deep copy
MISSING = object()  # where there is no value, not even one out of sight
_LIBRARIES = sys.stdlib_module_names | {"builtins", "torch", "numpy"}  # what they define is there
# Attributes of a tensor that are none of its values, and have no gradients.
_NO_VALUES = {".shape", ".ndim", ".dtype", ".device"}


class Unknown:
    """A value out of sight: an argument, a batch, what a function of another file returns.

    `text` is how the program would write it, and what its conditions are remembered by. What is derived from it by an
    attribute or a fixed index is the same object each time. A value that the program uses as a loss has a tensor
    behind it, one used as scaler, optimizer or model an object of the bench.
    """

    __slots__ = (
        "batch",
        "called",
        "children",
        "counts",
        "fixed",
        "forward",
        "identity",
        "inputs",
        "mark",
        "named",
        "net",
        "origin",
        "role",
        "setting",
        "tensor",
        "test",
        "text",
    )

    def __init__(
        self,
        text: str,
        *,
        origin: ir.Call | None = None,
        forward: bool = False,
        net: str | None = None,
        inputs: tuple[Any, ...] = (),
        tensor: torch.Tensor | None = None,
        test: Callable[[bool], bool] | None = None,
        counts: Callable[[bool], int] | None = None,
    ) -> None:
        self.text = text
        self.setting = text  # what is the same for `cfg["amp"]`, `cfg.amp` and `cfg.get("amp")`
        self.identity = text  # tells it from others that the program writes in the same way
        self.mark = ""  # what its identity ends with, under any name
        self.origin = origin  # the unseen call that returned it
        self.forward = forward  # that call can be a model's or a criterion's
        self.net = net  # what it is a method of
        self.inputs = inputs  # what it was made of
        self.tensor = tensor
        self.test = test  # its truth, where that hangs on other values; given whether anything hangs on it
        self.counts = counts  # the same of a number
        self.role: Any = None
        self.called = False  # as a function
        self.fixed = False  # made once, by code that isn't run: no loss
        self.named = False  # after a variable
        self.batch = False  # data that the step is given, or a part of them
        self.children: dict[str, Any] = {}

    def item(self, at: int, text: str, *, batch: bool = False) -> Any:
        """What a loop gets from it at a place; `text` is the loop's variable. A batch is no model's output."""
        found = self.child(f"[{at}]")
        if isinstance(found, Unknown):
            found.text = found.setting = text
            if batch:
                found.fixed, found.tensor, found.batch = True, None, True
        return found

    def entries(self, count: int) -> list[tuple[Key, Any]]:
        """The first keys of a mapping, as a loop over it has them, and what it has by them."""
        keys = [Key(f"{self.identity}[{at}]") for at in range(count)]
        return [(each, self.child(f"[{each!r}]")) for each in keys]

    def rename(self, text: str, identity: str = "") -> None:
        """Give what a call returned a variable's name, once."""
        if self.origin is not None and not self.named:
            self.text, self.identity = text, (identity or text) + self.mark
            self.setting = text
            self.named = True

    def entry(self, key: str, text: str) -> Any:
        """What a key is of it, as the program writes it; one that is a name is that attribute, too."""
        suffix = part_of("", key)
        is_new = suffix not in self.children
        found = self.child(suffix)
        if is_new and isinstance(found, Unknown):
            found.text = text
        return found

    def child(self, suffix: str) -> Any:
        """What `.name` or `[index]` is of it."""
        found = self.children.get(suffix)
        if found is None:
            if suffix in _NO_VALUES:
                found = Unknown(self.text + suffix)
            else:
                found = Unknown(self.text + suffix, inputs=(self,), tensor=self.tensor)
            found.identity, found.setting = self.identity + suffix, self.setting + suffix
            found.batch = self.batch
            self.children[suffix] = found
        return found

    def __repr__(self) -> str:
        return f"Unknown({self.text})"


class DeviceName(str):
    """What a parameter is that all callers in sight give the name of a device: a string, and no `torch.device`."""

    __slots__ = ()


class Key(str):
    """A key of a mapping out of sight: what it says is not known."""

    __slots__ = ()


class Measured:
    """Marks a number that a tensor of the bench has given: in training it is another one."""


class _Float(Measured, float):
    """A measured number."""


class _Int(Measured, int):
    """The same of an integer."""


class Scale(Measured, float):
    """A scaler's scale, as the program reads it. The reference scales nothing, and compares what the program has."""

    compared: float = 0.0


class Guessed(list[Any]):
    """A list made of what is out of sight: how many items it has is not known."""


class Count(int):
    """A number that a variable counts, or that is computed of one; of no variable where it hangs on several counts."""

    of = ""  # the variable
    at = 0  # its value
    first = 0  # the value that it began at
    most: int | None = None  # the last one that it can have
    pace: float = 1  # what the number grows by while the variable grows by 1
    every = 0  # the number is a remainder by so many
    once = False  # the run has only one value of the variable
    onward = 1  # the variable counts up; -1: down

    def like(self, value: int, *, pace: float | None = None, every: int | None = None) -> Count:
        """A number that is computed of this one."""
        found = Count(value)
        vars(found).update(vars(self))
        found.pace = self.pace if pace is None else pace
        found.every = self.every if every is None else every
        return found


def counting(value: int, of: str, first: int, *, most: int | None = None, once: bool = False, onward: int = 1) -> Count:
    """What a variable has counted."""
    found = Count(value)
    found.of, found.at, found.first, found.most, found.once, found.onward = of, value, first, most, once, onward
    return found


def computed(value: Any, of: Iterable[Any]) -> Any:
    """A value that is computed `of` others: a number is marked, if one of these is measured.

    What comes from gradients is known to, as they themselves are.
    """
    of = [*of]
    if type(value) is float and any(isinstance(each, Count) and each.of for each in of):  # a part of all iterations
        return _Float(value)
    of = [each for each in of if is_measured(each)]
    if type(value) in (int, float) and of:
        value = _Float(value) if type(value) is float else _Int(value)
    if any(map(is_of_gradients, of)) and not any(value is each for each in of):
        return of_gradients(value)
    return value


def measured(value: int) -> int:
    """A number that is another one in training."""
    return _Int(value)


def of_gradients(value: Any) -> Any:
    """A tensor or measured number that comes from gradients, marked."""
    if is_measured(value):
        value.of_gradients = True
    return value


def is_of_gradients(value: Any) -> bool:
    """Whether a value comes from gradients: it is not finite in the runs in which they overflow."""
    return getattr(value, "of_gradients", False)


def is_measured(value: Any) -> bool:
    """Whether a value is a tensor of the bench, or a number that one has given."""
    return isinstance(value, (Measured, torch.Tensor))


def has_finite(value: Any) -> bool:
    """Whether nothing in a tensor or number is infinite or NaN."""
    if isinstance(value, torch.Tensor):
        return bool(torch.isfinite(value).all())
    return not isinstance(value, float) or math.isfinite(value)


def key_of(value: Any) -> Hashable:
    """What a mapping of the program has an item under; None where that can't be a key."""
    if isinstance(value, Unknown):
        return Key(value.identity)
    return value if isinstance(value, (str, int, float, torch.nn.Parameter)) else None


def value_of(value: Any) -> Any:
    """A value, the tensor behind it where it has one."""
    return value.tensor if isinstance(value, Unknown) and value.tensor is not None else value


@dataclass(eq=False, slots=True)
class Frame:
    """The variables of one scope. A lazy frame's code isn't run: a variable is evaluated when it is asked for.

    `site`: the call that runs the function; `item`: which item of a comprehension is made, from 0. `until`: the call at
    which the program is in a lazy frame: what is bound by its result, or after it, isn't bound yet.
    """

    code: Code
    scope: Scope
    parent: Frame | None
    lazy: bool = False
    function: ir.Function | None = None
    given: dict[str, Any] = field(default_factory=dict)  # a lazy frame's arguments
    variables: dict[str, Any] = field(default_factory=dict)
    once: dict[int, Any] = field(default_factory=dict)  # what `def` and `class` evaluate: defaults, class attributes
    site: Site | None = None
    item: int = 0
    until: ir.Call | None = None

    def find(self, scope: Scope) -> Frame | None:
        """The frame of `scope` among this one and those around it."""
        frame: Frame | None = self
        while frame is not None and frame.scope is not scope:
            frame = frame.parent
        return frame


@dataclass(eq=False, slots=True)
class Closure:
    """A function of the program, with the frame that it was defined in, and `self` where it is bound.

    `bare`: as its decorators are given it.
    """

    function: ir.Function
    frame: Frame
    own: Any = None
    bound: bool = False
    bare: bool = False


@dataclass(eq=False, slots=True)
class ClassValue:
    """A class of the program."""

    cls: ir.Class
    frame: Frame


@dataclass(eq=False, slots=True)
class Instance:
    """An instance of a class of the program. What its methods store is read from the text until one was run.

    `text` is how the program writes it; `identity` tells it from others that are written in the same way.
    """

    cls: ClassValue
    text: str
    identity: str
    given: dict[str, Any] | None = None  # the constructor's arguments, by parameter
    attributes: dict[str, Any] = field(default_factory=dict)


def defined(what: ir.Function | ir.Class, frame: Frame) -> Closure | ClassValue:
    """What `def` or `class` binds."""
    return Closure(what, frame) if isinstance(what, ir.Function) else ClassValue(what, frame)


@dataclass(eq=False, slots=True, frozen=True)
class Dotted:
    """An object of a library, by its qualified name."""

    name: str


def as_setting(value: Any) -> Any:
    """A value that is asked for its truth: what is imported from a module out of sight is a setting, and no object."""
    if not isinstance(value, Dotted) or "." not in value.name:
        return value
    first, *_, last = value.name.split(".")
    is_class = last[:1].isupper() and not last.isupper()
    return value if is_class or first in _LIBRARIES else Unknown(value.name)


@dataclass(eq=False, slots=True)
class ModuleValue:
    """A module of the same program, by the frame of its variables."""

    frame: Frame


@dataclass(eq=False, slots=True)
class Partial:
    """`functools.partial(func, ...)`."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(eq=False, slots=True, frozen=True)
class Method:
    """A method of one of torch's objects, of a container, or of what stands for a model."""

    owner: Any
    name: str


@dataclass(eq=False, slots=True)
class Counted:
    """What a loop goes through: its items, and whether a loop goes through all of them."""

    items: list[Any]
    whole: bool = False


@dataclass(eq=False, slots=True)
class Manager:
    """What a function of the program that is a `@contextmanager` returned: it is run by `with`."""

    closure: Closure
    args: list[Any]
    kwargs: dict[str, Any]


class Site(NamedTuple):
    """A call, and the frame in which it is evaluated."""

    call: ir.Call
    frame: Frame

    @property
    def code(self) -> Code:
        """The file."""
        return self.frame.code

    @property
    def text(self) -> str:
        """The call as it is written."""
        return self.code.text(self.call)

    @property
    def row(self) -> int:
        """Its line."""
        return self.code.row(self.call)

    @property
    def where(self) -> str:
        """The same, as it is said."""
        return self.code.where(self.call)

    @property
    def event(self) -> Event | None:
        """The AMP event that it is, as the text says."""
        return self.code.event(self.call)


class Raised(Exception):
    """The program raises, or one of torch's own objects does: then `error` is what it raised.

    `of_amp`: a region or a scaler did when it was made or entered, which happens with AMP switched off as well. `kinds`
    are the names of the class of what the program raises itself, and of those that it inherits.
    """

    def __init__(
        self,
        text: str,
        where: str,
        error: Exception | None = None,
        *,
        of_amp: bool = False,
        kinds: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(text)
        self.kinds = kinds
        self.where = where
        self.error = error
        self.of_amp = of_amp


class Path(NamedTuple):
    """The one path of a run through the statements of a frame.

    `value`: what `return` gives, or a `match` asks about; `raised`: the exception on its way.
    """

    frame: Frame
    value: Any = None
    raised: Raised | None = None


class NoneUsedError(Exception):
    """None is called, or a method of it, or a scaler's variable has no value: the program raises so with AMP and
    without, if it ever gets there.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind  # the exception that Python raises


def none_used(site: Site, why: str, kind: str = "AttributeError") -> Raised:
    """What the program raises where it uses None as an object."""
    error = NoneUsedError(f"'NoneType' object {why}", kind)
    return Raised(str(error), site.where, error)


class CannotFollow(Exception):
    """What comes can't be interpreted; the message says why, with the line."""


class Impossible(CannotFollow):
    """A method of what was taken for None is called, which the program won't do: the next run knows better."""


def origins(value: Any, depth: int = 5) -> Iterator[ir.Call]:
    """The unseen calls that a value comes from."""
    if isinstance(value, Unknown) and depth:
        if value.origin is not None:
            yield value.origin
        for each in value.inputs:
            yield from origins(each, depth - 1)


def lasting(value: Unknown | Instance) -> Any:
    """What is the same for as long as an object lives: itself where the run has made it, else how it is written."""
    root: Any = value
    while isinstance(root, Unknown) and root.origin is None and root.inputs:
        root = root.inputs[0]
    by_call = isinstance(root, Unknown) and root.origin is not None and not root.fixed
    is_made = by_call or (isinstance(root, Instance) and root.given is not None)
    return root if is_made else text_of(value)


def text_of(value: Any) -> str | None:
    """How the program writes a value that is out of sight, so that it is told from others."""
    return value.identity if isinstance(value, (Unknown, Instance)) else None


def made_in(frame: Frame) -> str:
    """What tells an object that is made in a frame from those that other calls of the same function make.

    Empty where the function is called once; in a comprehension also which item it is.
    """
    found: list[str] = []
    now: Frame | None = frame
    while now is not None:
        if now.item:
            found.append(f"item {now.item + 1}")
        if now.site is not None and now.site.code.is_called_again(now.site.call):
            found.append(f"line {now.site.row}")
        now = now.site.frame if now.site is not None else now.parent if now.function is None else None
    return f" ({', '.join(found)})" if found else ""


def is_in_lazy(frame: Frame) -> bool:
    """Whether a function runs because code that isn't run has called it: a constructor, which no iteration has."""
    now: Frame | None = frame
    while now is not None and not now.lazy:
        now = now.site.frame if now.site is not None else now.parent if now.function is None else None
    return now is not None


def made_of(value: Unknown | Instance, depth: int = 5) -> Iterator[str]:
    """The identities of what an object was made of: what its constructor or an unseen call was given, and so on."""
    given = value.inputs if isinstance(value, Unknown) else tuple((value.given or {}).values())
    for each in given if depth else ():
        if isinstance(each, (Unknown, Instance)) and each is not value:
            yield each.identity
            yield from made_of(each, depth - 1)


def tensors_in(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    """The tensors among values, in containers too."""
    for each in values:
        found = value_of(each)
        if isinstance(found, torch.Tensor) and not isinstance(found, torch.nn.Parameter):
            yield found
        elif isinstance(found, (list, tuple)):
            yield from tensors_in(found)
        elif isinstance(found, dict):
            yield from tensors_in(found.values())


def parameters_in(values: Iterable[Any]) -> list[torch.nn.Parameter]:
    """The parameters that an unseen call was given, on their own or in containers."""
    found: list[torch.nn.Parameter] = []
    for each in values:
        if isinstance(each, torch.nn.Parameter):
            found.append(each)
        elif isinstance(each, (list, tuple, dict)):
            found += parameters_in(each.values() if isinstance(each, dict) else each)
    return found


def is_output(value: Any) -> bool:
    """Whether a value is a tensor that a model of the bench has computed: its sizes are none of the program's."""
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


def is_simple(value: Any) -> bool:
    """Whether torch can be given a value as it is."""
    return value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.Tensor, torch.device))
