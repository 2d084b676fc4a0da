"""The half-precision reader's expressions: what kind of value each is. Read through `half.half`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.external_calls import local_class
from amplint.model.flow.state import Opened, State
from amplint.model.half.autocast_context import AutocastContext, autocast_context
from amplint.model.inference.constructions import constructions
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.numbers import computed, literal, negated, number, parameter
from amplint.model.inference.tensor_types import (
    A_NUMBER,
    A_TENSOR,
    DTYPE,
    FLOAT32,
    IN_FLOAT32,
    LIST,
    MODULE,
    NUMBER,
    TUPLE,
    UNKNOWN,
    UNKNOWN_KIND,
    WHOLE,
    Kind,
    join,
    of_dtype,
)
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Other
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.op_spellings import OPERATORS

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.flow.open_regions import Regions
    from amplint.model.flow.path_conditions import Conditions

Given = tuple["ir.Value | None", Kind]
# Attributes of a tensor that are tensors of its dtype, or numbers.
_SAME = ("T", "mT", "H", "mH", "data")
_NUMBERS = ("ndim", "itemsize", "nbytes")
_DEFAULTS = ("set_default_dtype", "set_default_tensor_type")
_CASTS = ("half", "bfloat16", "to", "type")
_LAYER = re.compile(r"torch\.nn\.(modules\.\w+\.)?[A-Z]\w*")


class Seen(NamedTuple):
    """An operation: its spelling, its operands as written (None: not written) and what they are, and where it runs."""

    node: ir.Value
    spelling: str
    operands: tuple[Given, ...]
    keywords: Mapping[str, Given]
    result: Kind
    where: AutocastContext
    sites: tuple[int, ...]  # the calls that led here from the function that opens the region
    layer: ir.Call | None = None  # the construction of the torch.nn layer that is called

    def tensors(self) -> list[tuple[ir.Value, Kind]]:
        """The operands that are written and are no numbers, keywords' too."""
        given = (*self.operands, *self.keywords.values())
        return [
            (value, kind)
            for value, kind in given
            if value is not None and kind.what != NUMBER and not isinstance(value, ir.Constant)
        ]


@dataclass
class Env:
    """What is known on a path: variables by their keys, and the open regions."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    state: State = field(default_factory=State)

    def copy(self) -> Env:
        """Another path from here."""
        return Env(dict(self.kinds), self.state)

    def within(self, opened: Sequence[Opened]) -> Env:
        """A path that starts here in more regions."""
        return Env(dict(self.kinds), self.state.but(regions=(*self.state.regions, *opened)))

    def join(self, other: Env) -> None:
        """Keep what holds on this path and on another."""
        self.kinds = {key: join(kind, other.kinds[key]) for key, kind in self.kinds.items() if key in other.kinds}
        if self.state.regions != other.state.regions:
            self.state = self.state.but(regions=(Opened(0, None),))

    def forget_tensors(self) -> None:
        """Know nothing more of dtypes: what follows is for some of them only."""
        self.kinds = {
            key: UNKNOWN_KIND if kind.is_tensor or kind.what in (TUPLE, LIST, DTYPE) else kind
            for key, kind in self.kinds.items()
        }

    def forget_attributes(self) -> None:
        """Know nothing more of `self.name`: another method may set it."""
        self.kinds = {key: kind for key, kind in self.kinds.items() if not key.startswith("self")}


@dataclass
class Frame:
    """A function that is being run: what it returns, and the paths that leave its innermost loop."""

    returned: list[Kind] = field(default_factory=list)
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class Met(NamedTuple):
    """An operation that is being evaluated: the node, its operands, and the path."""

    node: ir.Value
    given: Sequence[Given]
    keywords: Mapping[str, Given]
    env: Env


class Values:
    """Evaluates expressions; calls are `half_calls.Calls`."""

    def __init__(self, module: Module, regions: Regions, conditions: Conditions) -> None:
        self._module, self._regions, self._conditions = module, regions, conditions
        self._objects = objects(module)
        self._frame = Frame()
        self._sites: tuple[int, ...] = ()
        self._work = 0
        self._sequences: list[int] = []  # those that are being run
        self._where: dict[tuple[Opened, ...], AutocastContext] = {}
        self._static: dict[int, Kind] = {}
        self.seen: dict[tuple[tuple[int, ...], int, str], Seen] = {}

    def where(self, env: Env) -> AutocastContext:
        """The autocast context of a path."""
        opened = env.state.regions
        if opened not in self._where:
            self._where[opened] = autocast_context(self._module, opened)
        return self._where[opened]

    def note(self, met: Met, spelling: str, result: Kind, layer: ir.Call | None = None) -> Kind:
        """Remember an operation; what a later round of a loop knows replaces what an earlier one did."""
        self.seen[self._sites, met.node.id, spelling] = Seen(
            met.node, spelling, tuple(met.given), dict(met.keywords), result, self.where(met.env), self._sites, layer
        )
        return result

    def key(self, value: ir.Value) -> str | None:
        """The key of a variable, or of `self.name`."""
        if isinstance(value, ir.Name):
            return self._objects.raw_variable(value.scope, value.name)
        if isinstance(value, ir.Attribute):
            cls = owner_class(value)
            return f"self{cls.id}.{value.attr}" if cls is not None else None
        return None

    # --- expressions ------------------------------------------------------------------------------------------------

    def kind(self, value: ir.Value, env: Env) -> Kind:
        """What a value is; what it is made of is evaluated, and so met, in order."""
        self._work += 1
        if isinstance(value, ir.Constant):
            return literal(value) or UNKNOWN_KIND
        if isinstance(value, (ir.Name, ir.Attribute)):
            return self._named(value, env)
        if isinstance(value, ir.Call):
            return self.call(value, env)
        if isinstance(value, ir.Binary):
            left, right = self.kind(value.left, env), self.kind(value.right, env)
            return self.arithmetic(value, value.op, (value.left, left), (value.right, right), env)
        if isinstance(value, ir.Unary):
            operand = self.kind(value.operand, env)
            if operand.what == NUMBER:
                return negated(operand, value.op) or A_NUMBER
            return operand if operand.is_tensor and value.op != "Not" else UNKNOWN_KIND
        return self._structure(value, env)

    def _structure(self, value: ir.Value, env: Env) -> Kind:
        if isinstance(value, ir.Subscript):
            return self._subscript(value, env)
        if isinstance(value, ir.Compare):
            kinds = [self.kind(each, env) for each in value.children()]
            return WHOLE if any(each.is_tensor for each in kinds) else UNKNOWN_KIND
        if isinstance(value, (ir.Conditional, ir.Bool)):
            kinds = [self.kind(each, env) for each in value.children()]
            known = kinds[-2:]
            return join(*known) if isinstance(value, ir.Conditional) or known[0] == known[1] else UNKNOWN_KIND
        if isinstance(value, ir.Sequence):
            kinds = [self.kind(each, env) for each in value.items]
            if any(isinstance(each, ir.Starred) for each in value.items):
                return UNKNOWN_KIND
            return Kind(TUPLE, items=tuple(kinds))
        if isinstance(value, ir.Comprehension):
            for clause in value.clauses:
                self.bind(clause.target, self.item(self.kind(clause.iter, env)), env)
            kinds = [self.kind(each, env) for each in value.elements]
            return Kind(LIST, items=(kinds[0],)) if value.kind != "dict" and len(kinds) == 1 else UNKNOWN_KIND
        if isinstance(value, ir.Walrus):
            kind = self.kind(value.value, env)
            self.bind(value.target, kind, env)
            return kind
        if not isinstance(value, ir.Lambda):
            for each in value.children():
                self.kind(each, env)
        return UNKNOWN_KIND

    def _subscript(self, value: ir.Subscript, env: Env) -> Kind:
        base = self.kind(value.base, env)
        self.kind(value.index, env)
        if base.what == TUPLE:
            at = value.index.value if isinstance(value.index, ir.Constant) else None
            if isinstance(at, int) and -len(base.items) <= at < len(base.items):
                return base.items[at]
            return UNKNOWN_KIND
        return self.item(base, index=True)

    def item(self, kind: Kind, *, index: bool = False) -> Kind:
        """What a list, tensor or list of layers holds; `index`: where a part of it may be taken."""
        if kind.what == LIST:
            return kind.items[0]
        if kind.what == TUPLE and kind.items:
            found = kind.items[0]
            for each in kind.items[1:]:
                found = join(found, each)
            return found
        if kind.what == MODULE:
            return self.layers(kind)
        return kind if kind.is_tensor else UNKNOWN_KIND

    def layers(self, kind: Kind) -> Kind:
        """What the lists of layers hold that a value can be."""
        raise NotImplementedError

    def makes_layer(self, call: ir.Call) -> bool:
        """Whether a call constructs a layer of torch.nn's, or an object of a class of this file."""
        return _makes_layer(self._module, call)

    def bind(self, target: ir.Value, kind: Kind, env: Env) -> None:
        """Let a target hold a value."""
        raise NotImplementedError

    def call(self, call: ir.Call, env: Env) -> Kind:
        """What a call gives."""
        raise NotImplementedError

    def op(self, spelling: str, operands: Sequence[Given], env: Env) -> Kind:
        """What a spelling gives for its operands."""
        raise NotImplementedError

    def arithmetic(self, node: ir.Value, op: str, left: Given, right: Given, env: Env) -> Kind:
        """An operator: on numbers, or the op that it is on tensors."""
        kinds = left[1], right[1]
        if kinds[0].what == NUMBER and kinds[1].what == NUMBER:
            return computed(op, *kinds)
        spelling = OPERATORS.get(op)
        if spelling is None:
            return WHOLE if any(each.what == "int" for each in kinds) else UNKNOWN_KIND
        if spelling == "matmul" and not any(each.is_tensor for each in kinds) and not self._is_in_a_module(node):
            return UNKNOWN_KIND
        if spelling == "div" and kinds[0].what == NUMBER:
            spelling = "reciprocal"  # that is how torch divides a number by a tensor
        operands = [left, right] if spelling != "reciprocal" else [right]
        result = self.op(spelling, operands, env)
        return self.note(Met(node, [left, right], {}, env), spelling, result)

    def _is_in_a_module(self, node: ir.Value) -> bool:
        """Whether code stands in a method of a class that inherits from a module of torch's."""
        function = ir.function_of(node)
        while function is not None and function.cls is None:
            function = function.outer
        return (
            function is not None
            and function.cls is not None
            and any(
                name in ("torch.nn.Module", "torch.nn.modules.module.Module")
                for base in function.cls.bases
                for name in self._module.names.of(base.value)
            )
        )

    # --- names ------------------------------------------------------------------------------------------------------

    def _named(self, value: ir.Name | ir.Attribute, env: Env) -> Kind:
        key = self.key(value)
        if key is not None and key in env.kinds:
            return env.kinds[key]
        if isinstance(value, ir.Attribute) and owner_class(value) is None:
            base = self._of_tensor(value, self.kind(value.base, env))
            if base is not None:
                return base
        if value.id not in self._static:
            self._static[value.id] = self._bound(value)
        return self._static[value.id]

    def _of_tensor(self, value: ir.Attribute, base: Kind) -> Kind | None:
        attr = value.attr
        if attr == "shape":
            return Kind(LIST, items=(A_NUMBER,))
        if attr in _NUMBERS:
            return A_NUMBER
        if attr == "dtype" and base.what != UNKNOWN:
            return Kind(DTYPE, items=(base._replace(region=0, cast=0) if base.is_tensor else A_TENSOR,))
        if base.what == TUPLE and attr in ("values", "indices") and len(base.items) == 2:
            return base.items[attr == "indices"]
        if base.is_tensor:
            return base if attr in _SAME else UNKNOWN_KIND
        if base.what == MODULE and attr in ("weight", "bias") and self._has_plain_weights:
            return IN_FLOAT32
        return None

    @property
    def _has_plain_weights(self) -> bool:
        return plain_weights(self._module)

    def _bound(self, value: ir.Name | ir.Attribute) -> Kind:
        """What a name is wherever it is read, going by what binds it."""
        found = number(self._module, value)
        if found is not None:
            return found
        named = dtypes(self._module, value)
        if all(each.kind == "dtype" for each in named):
            return Kind(DTYPE, items=(of_dtype(each.name for each in named),))
        if isinstance(value, ir.Attribute):
            stored = list(self._module.names.stored(value))
            if stored and all(each is not None and self._is_parameter(each) for each in stored):
                return IN_FLOAT32 if self._has_plain_weights else A_TENSOR
        made = constructions(self._module, value)
        if made and all(self.makes_layer(each) for each in made):
            return Kind(MODULE, made=made)
        if isinstance(value, ir.Name):
            return self._annotated(value)
        return UNKNOWN_KIND

    def _is_parameter(self, value: ir.Value) -> bool:
        return isinstance(value, ir.Call) and self._module.names.of(value.func) == {"torch.nn.Parameter"}

    def _annotated(self, value: ir.Name) -> Kind:
        """A parameter that is said to be a tensor, or a number."""
        bindings = self._module.names.bindings(value)
        if len(bindings) != 1 or not isinstance(bindings[0], Other) or not isinstance(bindings[0].node, ir.Function):
            return UNKNOWN_KIND
        function = bindings[0].node
        param = function.param(value.name)
        if param is not None and param.annotation is not None and param.kind in ("positional", "keyword"):
            if self._module.names.of(param.annotation) == {"torch.Tensor"}:
                return A_TENSOR
        return parameter(self._module, function, value.name) or UNKNOWN_KIND


def _makes_layer(module: Module, call: ir.Call) -> bool:
    name = module.names.only(call.func) or ""
    return bool(_LAYER.fullmatch(name)) or local_class(module, call.func) is not None


def plain_weights(module: Module) -> bool:
    """Whether nothing in the file casts models to half, or changes the default dtype."""
    return module.once(_plain_weights)


def _plain_weights(module: Module) -> bool:
    return not any(_casts_weights(module, each) for each in module.whole.called(*_DEFAULTS, *_CASTS))


def _casts_weights(module: Module, call: ir.Call) -> bool:
    func = call.func
    if ir.last_name(func) in _DEFAULTS:
        return True
    if not isinstance(func, ir.Attribute):
        return False
    if func.attr in ("to", "type") and not any(_may_be_half(module, arg) for arg in call.args):
        return False
    if isinstance(func.base, ir.Name) and func.base.name == "self":
        return True
    return any(_makes_layer(module, each) for each in constructions(module, func.base))


def _may_be_half(module: Module, arg: ir.Arg) -> bool:
    """Whether an argument of `.to` is a dtype other than float32, or one that isn't known."""
    named = arg.keyword == "dtype" or "dtype" in ir.last_name(arg.value).lower()
    return any(each.name != FLOAT32 and (named or each.kind == "dtype") for each in dtypes(module, arg.value))
