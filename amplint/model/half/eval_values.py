"""What kind of value each expression is, and what targets are bound to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from amplint.model.half.layers import listed_layers, makes_layer, plain_weights
from amplint.model.half.observations import Env, Given, Met, Observations
from amplint.model.half.op_results import result_of
from amplint.model.inference.constructions import constructions
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.numbers import computed, literal, negated, number, parameter
from amplint.model.inference.tensor_types import (
    A_NUMBER,
    A_TENSOR,
    DICT,
    DTYPE,
    FLOAT32,
    FLOATING,
    HALF,
    IN_FLOAT32,
    LIST,
    MODULE,
    NUMBER,
    TENSOR,
    TUPLE,
    UNKNOWN,
    UNKNOWN_KIND,
    WHOLE,
    Kind,
    dictionary,
    held_in,
    join,
    of_dtype,
)
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import attribute_of, own_self
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import ifs_round
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.op_spellings import OPERATORS

if TYPE_CHECKING:
    from amplint.model import Module

# Attributes of a tensor that are tensors of its dtype, or numbers.
_SAME = ("T", "mT", "H", "mH", "data")
_NUMBERS = ("ndim", "itemsize", "nbytes")
# Types that a test may ask for, by what they are of.
_TYPES = {
    "builtins.tuple": TUPLE, "builtins.list": LIST, "builtins.dict": DICT, "collections.abc.Mapping": DICT,
    "typing.Mapping": DICT, "torch.Tensor": TENSOR, "builtins.str": "", "builtins.int": "", "builtins.float": "",
}  # fmt: skip
# What torchvision's models of segmentation give in float32: they end with an interpolation.
_UPSAMPLED = ("out", "aux")
# Attributes of what models of transformers and diffusers give.
OUTPUTS = ("logits", "last_hidden_state", "sample")
# Those of them that come from a linear layer or a convolution; the other often comes from a norm, in float32.
# transformers before 4.45 casts the logits of causal language models to float32.
_OF_HEADS = ("logits", "sample")


class Values:
    """Evaluates expressions; `call` says what a call gives."""

    def __init__(self, module: Module, met: Observations, call: Callable[[ir.Call, Env], Kind]) -> None:
        self._module = module
        self._objects = objects(module)
        self._met = met
        self._call = call
        self._static: dict[int, Kind] = {}

    def key(self, value: ir.Value) -> str | None:
        """The key of a variable, or of `self.name`."""
        if isinstance(value, ir.Name):
            return self._objects.raw_variable(value.scope, value.name)
        if isinstance(value, ir.Attribute):
            cls = owner_class(value)
            return attribute_of(own_self(cls), value.attr) if cls is not None else None
        return None

    # --- expressions ------------------------------------------------------------------------------------------------

    def kind(self, value: ir.Value, env: Env) -> Kind:
        """What a value is; what it is made of is evaluated, and so met, in order."""
        self._met.work += 1
        if isinstance(value, ir.Constant):
            return literal(value) or UNKNOWN_KIND
        if isinstance(value, (ir.Name, ir.Attribute)):
            return self._named(value, env)
        if isinstance(value, ir.Call):
            return self._call(value, env)
        if isinstance(value, ir.Binary):
            left, right = self.kind(value.left, env), self.kind(value.right, env)
            return self.arithmetic(value, value.op, (value.left, left), (value.right, right), env)
        if isinstance(value, ir.Unary):
            operand = self.kind(value.operand, env)
            if operand.what == NUMBER:
                return negated(operand, value.op) or A_NUMBER
            keeps = (operand.is_tensor or operand.likely_half) and value.op != "Not"
            return operand if keeps else UNKNOWN_KIND
        return self._structure(value, env)

    def _structure(self, value: ir.Value, env: Env) -> Kind:
        if isinstance(value, ir.Subscript):
            return self._subscript(value, env)
        if isinstance(value, ir.Compare):
            kinds = [self.kind(each, env) for each in value.children()]
            return WHOLE if any(each.is_tensor for each in kinds) else UNKNOWN_KIND
        if isinstance(value, (ir.Conditional, ir.Bool)):
            return self._choice(value, env)
        if isinstance(value, ir.Sequence):
            items = tuple(self.kind(each, env) for each in value.items)
            return Kind(TUPLE, items=items) if not value.unpacks() else UNKNOWN_KIND
        if isinstance(value, ir.Mapping):
            return self._mapping(value, env)
        if isinstance(value, ir.Comprehension):
            return self._comprehension(value, env)
        if isinstance(value, ir.Walrus):
            kind = self.kind(value.value, env)
            self.bind(value.target, kind, env)
            return kind
        if not isinstance(value, ir.Lambda):
            for each in value.children():
                self.kind(each, env)
        return UNKNOWN_KIND

    def _choice(self, value: ir.Conditional | ir.Bool, env: Env) -> Kind:
        """What is one of two values."""
        one, other = [self.kind(each, env) for each in value.children()][-2:]
        holds = self.holds(value.test, env) if isinstance(value, ir.Conditional) else None
        if holds is not None:
            return one if holds else other
        return join(one, other) if isinstance(value, ir.Conditional) or one == other else UNKNOWN_KIND

    def holds(self, test: ir.Value, env: Env) -> bool | None:
        """How a test comes out that asks of what type something is; None where that can't be told."""
        if isinstance(test, ir.Unary) and test.op == "Not":
            found = self.holds(test.operand, env)
            return not found if found is not None else None
        if isinstance(test, ir.Bool):
            decides = test.op == "or"
            both = [self.holds(each, env) for each in test.children()]
            return decides if decides in both else None if None in both else not decides
        if not isinstance(test, ir.Call) or self._module.names.of(test.func) != {"builtins.isinstance"}:
            return None
        if len(test.positional) != 2 or not isinstance(test.positional[0], (ir.Name, ir.Attribute)):
            return None
        types = test.positional[1]
        asked = types.items if isinstance(types, ir.Sequence) else (types,)
        return _is_of(self.kind(test.positional[0], env), [self._module.names.only(each) or "" for each in asked])

    def _comprehension(self, value: ir.Comprehension, env: Env) -> Kind:
        """The list that a comprehension makes; its targets are bound."""
        for clause in value.clauses:
            self.bind(clause.target, self.item(self.kind(clause.iter, env)), env)
        kinds = [self.kind(each, env) for each in value.elements]
        return Kind(LIST, items=(kinds[0],)) if value.kind != "dict" and len(kinds) == 1 else UNKNOWN_KIND

    def _mapping(self, value: ir.Mapping, env: Env) -> Kind:
        """What a dictionary holds that is written out, others that are unpacked in it included."""
        held: dict[str, Kind] = {}
        for key, each in value.items:
            kind = self.kind(each, env)
            if key is None and kind.what != DICT:
                held = dict.fromkeys(held, UNKNOWN_KIND)  # it may have the same keys
            elif key is None:
                held |= held_in(kind)
            elif isinstance(key, ir.Constant) and isinstance(key.value, str):
                held[key.value] = kind
            else:
                self.kind(key, env)
        return dictionary(held)

    def _subscript(self, value: ir.Subscript, env: Env) -> Kind:
        base = self.kind(value.base, env)
        self.kind(value.index, env)
        return self.item_of(base, value.index)

    def item_of(self, base: Kind, index: ir.Value | None) -> Kind:
        """What stands in something at an index, or under a key."""
        at = index.value if isinstance(index, ir.Constant) else None
        if base.what == DICT:
            return held_in(base).get(at, UNKNOWN_KIND) if isinstance(at, str) else UNKNOWN_KIND
        if base.what == TUPLE:
            if isinstance(at, int) and -len(base.items) <= at < len(base.items):
                return base.items[at]
            return UNKNOWN_KIND
        return self.item(base) if at not in _UPSAMPLED else UNKNOWN_KIND

    def item(self, kind: Kind) -> Kind:
        """What a list, tensor, list of layers, or a model's output out of sight holds."""
        if kind.what == LIST:
            return kind.items[0]
        if kind.what == TUPLE and kind.items:
            found = kind.items[0]
            for each in kind.items[1:]:
                found = join(found, each)
            return found
        if kind.what == MODULE:
            return listed_layers(self._module, kind)
        return kind if kind.is_tensor or kind.likely_half else UNKNOWN_KIND

    def arithmetic(self, node: ir.Value, op: str, left: Given, right: Given, env: Env) -> Kind:
        """An operator: on numbers, or the op that it is on tensors."""
        kinds = left[1], right[1]
        if kinds[0].what == NUMBER and kinds[1].what == NUMBER:
            return computed(op, *kinds)
        spelling = OPERATORS.get(op)
        if spelling is None:
            return WHOLE if any(each.what == "int" for each in kinds) else UNKNOWN_KIND
        tensors = any(kind.is_tensor or kind.likely_half for kind in kinds)
        if spelling == "matmul" and not tensors and not self._is_in_a_module(node):
            return UNKNOWN_KIND
        if spelling == "div" and kinds[0].what == NUMBER:
            spelling = "reciprocal"  # that is how torch divides a number by a tensor
        operands = [left, right] if spelling != "reciprocal" else [right]
        result = result_of(self._module, spelling, operands, self._met.autocast(env))
        return self._met.note(Met(node, [left, right], {}, env), spelling, result)

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
        if base.likely_half and (attr in _OF_HEADS or (attr in OUTPUTS and self._is_asked_for(value))):
            return base
        if base.is_tensor:
            # A tensor has no `logits`: such code is for models that give several things.
            return base if attr in _SAME or attr in OUTPUTS else UNKNOWN_KIND
        if base.what == MODULE and attr in ("weight", "bias") and plain_weights(self._module):
            return IN_FLOAT32
        return None

    def _is_asked_for(self, value: ir.Attribute) -> bool:
        """Whether an attribute is read where a test says that it is there: what else there may be is the output.

        That is `hasattr`, or a type.
        """
        calls = (each.test for each in ifs_round(value) if isinstance(each.test, ir.Call))
        asks = ({"builtins.hasattr"}, {"builtins.isinstance"})
        return any(self._module.names.of(call.func) in asks for call in calls)

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
                return IN_FLOAT32 if plain_weights(self._module) else A_TENSOR
        model = self.model(value)
        return self._annotated(value) if isinstance(value, ir.Name) and model == UNKNOWN_KIND else model

    def model(self, value: ir.Name | ir.Attribute) -> Kind:
        """The model of this file that a name surely is, wrapped or not; unknown where it is something else."""
        made = constructions(self._module, value)
        layers = bool(made) and all(makes_layer(self._module, each) for each in made)
        return Kind(MODULE, made=made) if layers else UNKNOWN_KIND

    def _is_parameter(self, value: ir.Value) -> bool:
        return isinstance(value, ir.Call) and self._module.names.of(value.func) == {"torch.nn.Parameter"}

    def _annotated(self, value: ir.Name) -> Kind:
        """A parameter that is said to be a tensor, or a number."""
        function = ir.parameter_of(self._module.names.only_binding(value))
        if function is None:
            return UNKNOWN_KIND
        param = function.param(value.name)
        if param is not None and param.annotation is not None and param.kind in ("positional", "keyword"):
            if self._module.names.of(param.annotation) == {"torch.Tensor"}:
                return A_TENSOR
        found = parameter(self._module, function, value.name)
        return found if found is not None and not self._may_be_given_tensor(value) else UNKNOWN_KIND

    def _may_be_given_tensor(self, value: ir.Name) -> bool:
        """Whether a caller gives a parameter a part of something, or what a method returns, whatever is said of it."""
        given = [leaf.value for leaf in values_of(self._module, value).leaves]
        return any(
            isinstance(each, ir.Subscript) or (isinstance(each, ir.Call) and isinstance(each.func, ir.Attribute))
            for each in given
        )

    # --- binding ----------------------------------------------------------------------------------------------------

    def bind(self, target: ir.Value, kind: Kind, env: Env) -> None:
        """Let a target hold a value."""
        if isinstance(target, (ir.Name, ir.Attribute)):
            key = self.key(target)
            if key is not None:
                env.kinds[key] = kind
        elif isinstance(target, ir.Sequence):
            self._unpack(target, kind, env)
        elif isinstance(target, ir.Starred):
            self.bind(target.value, UNKNOWN_KIND, env)
        elif isinstance(target, ir.Subscript):
            base = self.kind(target.base, env)
            if base.what == DICT:
                self.bind(target.base, _stored(base, target.index, kind), env)
                return
            self._met.note(Met(target, [(target.base, base), (None, kind)], {}, env), "setitem", base)

    def _unpack(self, target: ir.Sequence, kind: Kind, env: Env) -> None:
        if kind.what == TUPLE and len(kind.items) == len(target.items):
            items: Iterable[Kind] = kind.items
        else:
            whole = kind.what == LIST or kind.is_tensor or kind.likely_half
            items = [self.item(kind) if whole else UNKNOWN_KIND] * len(target.items)
        for each, item in zip(target.items, items, strict=True):
            self.bind(each, item, env)


def _is_of(kind: Kind, types: list[str]) -> bool | None:
    """Whether something is of one of some types; None where that can't be told."""
    what = TENSOR if kind.what in (HALF, FLOAT32, FLOATING) else kind.what
    if what not in (TENSOR, TUPLE, DICT):
        return None
    asked = [_TYPES.get(each) for each in types]
    if what in asked:
        return True
    return None if None in asked or (what == TUPLE and LIST in asked) else False


def _stored(base: Kind, index: ir.Value, kind: Kind) -> Kind:
    """A dictionary after something is stored in it: under any of its keys, where the key isn't written out."""
    held = held_in(base)
    if isinstance(index, ir.Constant) and isinstance(index.value, str):
        return dictionary({**held, index.value: kind})
    return dictionary({key: join(each, kind) for key, each in held.items()})
