"""What kind of value each call gives: of torch's functions, methods of tensors, layers, functions of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import local_class, local_function, method
from amplint.model.half.autocast_context import Autocast, is_listed
from amplint.model.half.eval_values import OUTPUTS, Values
from amplint.model.half.layers import classes_of, gives_float32, is_model, makes_layer, plain_weights
from amplint.model.half.observations import OUT_OF_SIGHT, Env, Given, Met, Observations
from amplint.model.half.op_results import result_of
from amplint.model.inference.constructions import constructions
from amplint.model.inference.numbers import is_said_to_be_number, number, parameter
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
    TUPLE,
    UNKNOWN,
    UNKNOWN_KIND,
    WHOLE,
    Kind,
    dictionary,
    held_in,
    join,
    likely_half,
    of_dtype,
    promoted,
)
from amplint.model.inference.values import values_of
from amplint.model.objects.autocast_objects import is_partial
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import given_to
from amplint.model.torch_facts.modules import RETURNS_ITSELF
from amplint.model.torch_facts.op_spellings import (
    CASTS,
    CLASSES,
    PADDING,
    PRODUCT_METHODS,
    SPELLINGS,
    UPSAMPLING,
    WITH_DIMENSION,
    Gives,
    spelled,
)

if TYPE_CHECKING:
    from amplint.model import Module

# Methods that give a tensor's numbers away, and such that leave it as it is.
_LEAVES = ("numpy", "tolist", "cpu", "size", "stride")
_STAYS = ("cuda", "xpu", "contiguous", "requires_grad_")
_CHANGES_LIST = ("append", "extend", "insert", "clear")
_CHECKPOINT = {"torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"}
_TENSORS = ("torch.tensor", "torch.arange", "torch.full", "torch.as_tensor", "torch.from_numpy")
# The keywords that give another operand.
_OPERANDS = ("other", "target", "min", "max", "value", "mat2", "weight")
# Methods of models that give what their layers do.
_MAKES_FEATURES = re.compile(r"(forward|encode|extract|embed|project|get)_(\w+_)?\w*|forward$|encode$")
_RECURRENT = ("LSTM", "GRU", "RNN")


class Calls:
    """Evaluates calls; `follow` says what a function of this file returns for arguments by name."""

    def __init__(
        self,
        module: Module,
        met: Observations,
        values: Values,
        follow: Callable[[ir.Function, Mapping[str, Kind], Env], Kind],
    ) -> None:
        self._module = module
        self._met = met
        self._values = values
        self._run = follow
        self._sequences: list[int] = []  # those that are being run

    def call(self, call: ir.Call, env: Env) -> Kind:
        """What a call gives; its arguments are evaluated first."""
        func = call.func
        name = self._module.names.only(func) or ""
        positional = [(each, self._values.kind(each, env)) for each in call.positional]
        keywords = {name: (value, self._values.kind(value, env)) for name, value in call.keywords.items()}
        met = Met(call, positional, keywords, env)
        known = number(self._module, call)
        if known is not None:
            return known
        if name in _CHECKPOINT and positional:
            return self._called(positional[0][0], met._replace(given=positional[1:], keywords={}))
        if name.startswith("torch."):
            return self._function(call, name, met)
        if name.startswith("builtins."):
            return self._builtin(name, met)
        unpacked = call.unpacks()
        if isinstance(func, ir.Attribute) and not self._is_method_of_self(func):
            found = self._of_object(func, met, unpacked=unpacked)
            if found is not None:
                return found
        if not unpacked:
            return self._called(func, met)
        if local_function(self._module, func) is not None:
            return UNKNOWN_KIND
        self._note_out_of_sight(met)
        return self._called(func, met._replace(given=[], keywords={}))

    def _of_object(self, func: ir.Attribute, met: Met, *, unpacked: bool) -> Kind | None:
        """What a method of a tensor or model gives; None for one of anything else."""
        base = self._without_wrappers(func.base, self._values.kind(func.base, met.env))
        if base.what == DICT:
            return self._of_dictionary(func, base, met)
        if base.what in (TUPLE, LIST):
            if func.attr in _CHANGES_LIST:
                self._values.bind(func.base, _longer(base, func.attr, met), met.env)
            return UNKNOWN_KIND
        if base.what == MODULE:
            return self._layer(base, met) if func.attr == "forward" else self._of_module(func.attr, base, met)
        if base.what in (DTYPE, NUMBER) or (unpacked and not base.is_tensor):
            return None
        found = self._method(func, base, met)
        return self._of_model(func, met) if found == UNKNOWN_KIND and base.what == UNKNOWN else found

    def _of_dictionary(self, func: ir.Attribute, base: Kind, met: Met) -> Kind:
        """What a method of a dictionary gives; what changes it leaves what it then holds."""
        held, name = held_in(base), func.attr
        if name in ("get", "pop") and met.given:
            key, otherwise = met.given[0][0], met.given[1:]
            found = held.get(key.value) if isinstance(key, ir.Constant) and isinstance(key.value, str) else None
            return reduce(join, [kind for _, kind in otherwise], found) if found is not None else UNKNOWN_KIND
        if name in ("values", "items"):
            each = reduce(join, held.values()) if held else UNKNOWN_KIND
            return Kind(LIST, items=(each if name == "values" else Kind(TUPLE, items=(UNKNOWN_KIND, each)),))
        if name in ("copy", "keys"):
            return base if name == "copy" else UNKNOWN_KIND
        merged = _merged(met._replace(given=[(func.base, base), *met.given])) if name == "update" else None
        self._values.bind(func.base, merged if merged is not None else UNKNOWN_KIND, met.env)
        return UNKNOWN_KIND

    def _of_model(self, func: ir.Value, met: Met) -> Kind:
        """What a call of something that may be a model, or of its method that makes features, gives."""
        features = isinstance(func, ir.Attribute) and bool(_MAKES_FEATURES.match(func.attr))
        model = func.base if isinstance(func, ir.Attribute) and features else func
        likely = self._likely_half(met)
        return likely if likely.likely_half and is_model(self._module, model) else UNKNOWN_KIND

    def _likely_half(self, met: Met) -> Kind:
        """What a model gives that is not in sight, or not understood: in a region likely half, as layers give it."""
        place = self._met.autocast(met.env)
        return likely_half(place.likely_low, place.region) if place.state == Autocast.ON else UNKNOWN_KIND

    def _where_not_known(self, found: Kind, met: Met) -> Kind:
        """What a model in sight gives; what of it isn't understood is likely half."""
        if found.what in (TUPLE, DICT):
            return found._replace(items=tuple(self._where_not_known(each, met) for each in found.items))
        return self._likely_half(met) if found == UNKNOWN_KIND else found

    def _is_an_op(self, kind: Kind) -> bool:
        """Whether layers are ops of torch's each: what they give of something unknown isn't known."""
        names = [name for made in kind.made for name in classes_of(self._module, made) or [""]]
        return all(name.startswith("torch.") and name.rpartition(".")[2] in CLASSES for name in names)

    def _is_method_of_self(self, func: ir.Attribute) -> bool:
        return local_function(self._module, func) is not None or bool(list(self._module.names.stored(func)))

    def _called(self, func: ir.Value, met: Met) -> Kind:
        """A call of a function of this file, or of a layer."""
        function = local_function(self._module, func)
        if function is not None:
            is_bound = isinstance(func, ir.Attribute) and function.cls is not None and not _is_static(function)
            return self._follow(function, 1 if is_bound else 0, met)
        known = isinstance(func, (ir.Name, ir.Attribute, ir.Subscript, ir.Call))
        kind = self._without_wrappers(func, self._values.kind(func, met.env) if known else UNKNOWN_KIND)
        if kind.what == MODULE:
            found = self._layer(kind, met)
            understood = gives_float32(self._module, func) or self._is_an_op(kind)
            return found if understood else self._where_not_known(found, met)
        if isinstance(met.node, ir.Call) and met.node.func is func and makes_layer(self._module, met.node):
            return Kind(MODULE, made=(met.node,))
        gets_half = any(given.names for _, given in met.given)
        of_functions = self._of_functions(func, met) if gets_half else None
        if of_functions is not None:
            return of_functions
        self._note_out_of_sight(met)
        return self._of_model(func, met)

    def _note_out_of_sight(self, met: Met) -> None:
        """Remember a call that can't be followed, where it gets half tensors while autocast is disabled."""
        if any(given.names for _, given in met.given) and self._met.autocast(met.env).state == Autocast.DISABLED:
            self._met.note(met, OUT_OF_SIGHT, UNKNOWN_KIND)

    def _without_wrappers(self, value: ir.Value, kind: Kind) -> Kind:
        """What a variable or attribute is, as the one model that it is, wrapped or not, where that is in sight."""
        is_told = kind != UNKNOWN_KIND and (kind.what != MODULE or len(kind.made) == 1)
        if is_told or not isinstance(value, (ir.Name, ir.Attribute)):
            return kind
        model = self._values.model(value)
        return model if model != UNKNOWN_KIND else kind

    def _of_functions(self, func: ir.Value, met: Met) -> Kind | None:
        """What a call of a variable or attribute gives whose values are all functions in sight, or torch's own."""
        leaves = values_of(self._module, func).leaves if isinstance(func, (ir.Name, ir.Attribute)) else ()
        functions = [leaf.value for leaf in leaves]
        if not functions or not all(each is not func and self._is_function(each) for each in functions):
            return None
        return reduce(join, [self._of_function(each, met) for each in functions])

    def _is_function(self, value: ir.Value) -> bool:
        """Whether a value stands for a function itself: `my_loss`, a lambda, `F.cross_entropy`, a `partial` of one."""
        if isinstance(value, ir.Call) and is_partial(self._module, value):
            return not value.unpacks() and self._is_function(value.positional[0])
        known = isinstance(value, ir.Lambda) or local_function(self._module, value) is not None
        return known or spelled(self._module.names.only(value) or "") is not None

    def _of_function(self, function: ir.Value, met: Met) -> Kind:
        """What a function gives that stands for itself."""
        if isinstance(function, ir.Lambda):
            return self._follow(function.function, 0, met)
        if isinstance(function, ir.Call):  # a partial
            before = [(each, self._values.kind(each, met.env)) for each in function.positional[1:]]
            more = {name: (each, self._values.kind(each, met.env)) for name, each in function.keywords.items()}
            partly = met._replace(given=[*before, *met.given], keywords={**more, **met.keywords})
            return self._of_function(function.positional[0], partly)
        if local_function(self._module, function) is not None:
            return self._called(function, met)
        assert isinstance(met.node, ir.Call)
        return self._function(met.node, self._module.names.only(function) or "", met)

    def _follow(self, function: ir.Function, skip: int, met: Met) -> Kind:
        """A call of a function of this file; `skip`: whether its first parameter is the object."""
        params = function.params[skip:]
        arguments = {
            param.name: parameter(self._module, function, param.name) or UNKNOWN_KIND
            for param in params
            if param.default
        }
        given = given_to(params, met.given, met.keywords)
        for name, (value, kind) in given.items():
            is_setting = isinstance(value, ir.Attribute) and kind == UNKNOWN_KIND
            arguments[name] = A_NUMBER if is_setting and is_said_to_be_number(self._module, function, name) else kind
        before, self._met.sites = self._met.sites, (*self._met.sites, met.node.id)
        found = self._run(function, arguments, met.env)
        self._met.sites = before
        for name, (value, kind) in given.items():
            if kind.what == DICT and value is not None and _changes(function, name):
                self._values.bind(value, UNKNOWN_KIND, met.env)
        if function.cls is not None:
            met.env.forget_attributes()
        return found

    # --- torch's functions ------------------------------------------------------------------------------------------

    def _function(self, call: ir.Call, name: str, met: Met) -> Kind:
        spelling = spelled(name)
        if spelling is None:
            if makes_layer(self._module, call):
                return Kind(MODULE, made=(call,))
            return A_TENSOR if name in _TENSORS else UNKNOWN_KIND
        if "out" in met.keywords or call.unpacks():
            return A_TENSOR
        operands = _flat(met.given)
        if not operands and "input" in met.keywords:
            operands = [met.keywords["input"]]
        return self._spelled(spelling, met._replace(given=operands))

    def _spelled(self, spelling: str, met: Met) -> Kind:
        """A function or method of torch's, with its tensors first."""
        given, keywords = met.given, met.keywords
        if spelling in WITH_DIMENSION:
            first = given[0][1] if given else UNKNOWN_KIND
            dimension = "dim" in keywords or (len(given) > 1 and given[1][1].what == NUMBER)
            result = Kind(TUPLE, items=(first, WHOLE)) if dimension else promoted([kind for _, kind in given])
            return self._met.note(met, spelling, result)
        dtype = keywords.get("dtype")
        wanted = [kind for _, kind in (*given, *keywords.values()) if kind.what == DTYPE]
        if wanted:
            result = wanted[0].items[0]
        elif not _is_none(dtype) or self._is_of_another_list(spelling, met):
            result = A_TENSOR
        else:
            extra = [each for key, each in keywords.items() if key in _OPERANDS]
            result = result_of(self._module, spelling, [*given, *extra], self._met.autocast(met.env))
        return self._met.note(met, spelling, result)

    def _is_of_another_list(self, spelling: str, met: Met) -> bool:
        """Whether the mode of an interpolation or a padding is one that autocast has another list for."""
        mode = met.keywords.get("mode")
        if spelling == "interpolate":
            return not _upsamples(mode)
        if spelling != "pad" or (mode is None and len(met.given) < 3) or _is_literal(mode, "constant"):
            return False
        return is_listed(PADDING, *self._met.autocast(met.env).devices)

    def _builtin(self, name: str, met: Met) -> Kind:
        last, given = name.rpartition(".")[2], met.given
        if last == "dict":
            return _merged(met) or UNKNOWN_KIND
        if last == "abs" and given:
            return given[0][1]
        if last == "getattr" and len(given) == 3:  # `getattr(out, "logits", out)`
            base, attr = given[0][1], given[1][0]
            named = isinstance(attr, ir.Constant) and attr.value in OUTPUTS
            return base if named and base.names and given[2][1] == base else UNKNOWN_KIND
        if last == "enumerate" and given:
            return Kind(LIST, items=(Kind(TUPLE, items=(A_NUMBER, self._values.item(given[0][1]))),))
        if last == "zip" and given:
            return Kind(LIST, items=(Kind(TUPLE, items=tuple(self._values.item(kind) for _, kind in given)),))
        if last == "range":
            return Kind(LIST, items=(A_NUMBER,))
        if last in ("list", "tuple", "reversed", "sorted") and len(given) == 1:
            return Kind(LIST, items=(self._values.item(given[0][1]),))
        return UNKNOWN_KIND

    # --- methods of tensors -----------------------------------------------------------------------------------------

    def _method(self, func: ir.Attribute, base: Kind, met: Met) -> Kind:
        name, first = func.attr, (func.base, base)
        if name in CASTS and not met.given:
            return self._cast(name, first, met)
        if name in ("to", "type", "type_as"):
            return self._converted(first, met)
        if name == "get" and base.likely_half:
            return self._values.item_of(base, met.given[0][0]) if _asks_without_default(met) else UNKNOWN_KIND
        if name in _LEAVES:
            return Kind(LIST, items=(A_NUMBER,)) if name == "size" else UNKNOWN_KIND
        if name in _STAYS:
            return base
        operands = met._replace(given=_with_object(name, first, met.given))
        if _is_in_place(name):
            return self._met.note(operands, name, base)
        is_op = name in SPELLINGS or name in WITH_DIMENSION
        if not is_op or not (base.is_tensor or base.likely_half or name in PRODUCT_METHODS):
            return UNKNOWN_KIND
        found = self._spelled(name, operands)
        return found if _gives_view(name) else found._replace(cast=0)

    def _cast(self, name: str, first: Given, met: Met) -> Kind:
        """`x.half()`, `x.float()`."""
        result, base = of_dtype([CASTS[name]]), first[1]
        if name == "float":
            result = IN_FLOAT32._replace(cast=met.node.id if _is_floating(base) else base.cast)
        return self._met.note(met._replace(given=[first]), name, result)

    def _converted(self, first: Given, met: Met) -> Kind:
        """`x.to(...)`, `x.type(...)`, `x.type_as(y)`: to a dtype, a device, or as another tensor is."""
        base = first[1]
        result: Kind | None = None
        given = (*met.given, *met.keywords.values())
        for value, kind in given:
            if kind.what == DTYPE:
                result = kind.items[0]
            elif kind.is_tensor:
                result = kind._replace(region=0, cast=0)
            elif value is not None and result is None and not self._names_no_dtype(value, kind):
                result = A_TENSOR
        if result is None:
            result = base if given else UNKNOWN_KIND
        elif result.what == FLOAT32 and _is_floating(base):
            result = IN_FLOAT32._replace(cast=met.node.id)
        return self._met.note(met._replace(given=[first]), "to", result)

    def _names_no_dtype(self, value: ir.Value, kind: Kind) -> bool:
        """Whether an argument of `.to` is a device or a flag."""
        if kind.what == NUMBER or isinstance(value, ir.Constant):
            return True
        if isinstance(value, ir.Call) and "torch.device" in self._module.names.of(value.func):
            return True
        return "device" in ir.last_name(value).lower()

    # --- layers -----------------------------------------------------------------------------------------------------

    def _of_module(self, name: str, base: Kind, met: Met) -> Kind:
        """A method of a model: one of the file's classes', or one that gives the model itself."""
        if name in RETURNS_ITSELF:
            return base
        cls = local_class(self._module, base.made[0].func) if len(base.made) == 1 else None
        function = method(self._module, cls, name) if cls is not None else None
        return self._follow(function, 1, met) if function is not None else UNKNOWN_KIND

    def _layer(self, kind: Kind, met: Met) -> Kind:
        """What a call of a layer gives, whichever of its constructions made it."""
        found: Kind | None = None
        for made in kind.made:
            for name in classes_of(self._module, made) or [""]:
                each = self._of_layer(made, name, met)
                found = each if found is None else join(found, each)
        return found or UNKNOWN_KIND

    def _of_layer(self, made: ir.Call, name: str, met: Met) -> Kind:
        if not name.startswith("torch."):
            return self._of_own_layer(made, met)
        last = name.rpartition(".")[2]
        if last == "Sequential":
            return self._in_sequence(made, met)
        if last == "Embedding":
            return IN_FLOAT32 if plain_weights(self._module) else A_TENSOR
        place = self._met.autocast(met.env)
        if last in (*_RECURRENT, "MultiheadAttention") and place.state == Autocast.ON and place.low:
            if last == "MultiheadAttention" or place.devices == ("cuda",):  # cuDNN's: on the others it depends
                return Kind(TUPLE, items=(Kind(HALF, place.low, place.region), UNKNOWN_KIND))
        spelling = CLASSES.get(last)
        if spelling is None or not met.given:
            return UNKNOWN_KIND
        result = result_of(self._module, spelling, met.given, place)
        return self._met.note(met, spelling, result, made)

    def _of_own_layer(self, made: ir.Call, met: Met) -> Kind:
        """A layer of a class of this file."""
        cls = local_class(self._module, made.func)
        if cls is None:
            return UNKNOWN_KIND
        function = method(self._module, cls, "__call__") or method(self._module, cls, "forward")
        return self._follow(function, 1, met) if function is not None else UNKNOWN_KIND

    def _in_sequence(self, made: ir.Call, met: Met) -> Kind:
        """A Sequential: each layer gets what the one before it gave."""
        if made.unpacks() or not made.args or not met.given or made.id in self._sequences:
            return UNKNOWN_KIND
        self._sequences.append(made.id)  # one that seems to hold itself isn't understood
        kind = met.given[0][1]
        for each in made.positional:
            layers = constructions(self._module, each)
            if not layers or not all(makes_layer(self._module, each) for each in layers):
                kind = UNKNOWN_KIND
                break
            kind = self._layer(Kind(MODULE, made=layers), met._replace(given=[(None, kind)], keywords={}))
        self._sequences.pop()
        return kind


def _is_floating(kind: Kind) -> bool:
    """Whether something is a floating tensor that a cast to float32 leaves alone or makes wider, or likely one."""
    return bool(kind.names) or kind.what in (FLOAT32, FLOATING)


def _longer(base: Kind, method: str, met: Met) -> Kind:
    """What a list holds after a method has changed it."""
    given = [kind for _, kind in met.given]
    if method == "append" and len(given) == 1:
        return Kind(LIST, items=(reduce(join, (*base.items, *given)),))
    if method == "extend" and len(given) == 1 and given[0].what in (TUPLE, LIST) and given[0].items:
        return Kind(LIST, items=(reduce(join, (*base.items, *given[0].items)),))
    return UNKNOWN_KIND


def _changes(function: ir.Function, name: str) -> bool:
    """Whether a function stores something in a dictionary that it is given."""
    return any(ir.is_variable(base, name) for each in ir.walk_statements(function.body) for base in _stored_in(each))


def _stored_in(statement: ir.Statement) -> list[ir.Value | None]:
    """What a statement stores something in."""
    targets = statement.targets if isinstance(statement, ir.Assign) else ()
    if isinstance(statement, ir.AugAssign):
        targets = (statement.target,)
    called = ir.called_on(statement.value, "update", "setdefault") if isinstance(statement, ir.Expr) else None
    return [called, *(each.base for each in targets if isinstance(each, ir.Subscript))]


def _merged(met: Met) -> Kind | None:
    """The dictionary that `dict(...)` or `.update(...)` makes of others and of keywords; None where one isn't known."""
    if any(kind.what != DICT for _, kind in met.given) or (isinstance(met.node, ir.Call) and met.node.unpacks()):
        return None
    held = {key: kind for _, each in met.given for key, kind in held_in(each).items()}
    return dictionary({**held, **{key: kind for key, (_, kind) in met.keywords.items()}})


def _is_static(function: ir.Function) -> bool:
    return any(ir.last_name(each) == "staticmethod" for each in function.decorators)


def _with_object(name: str, first: Given, given: Sequence[Given]) -> list[Given]:
    """The operands of a method, its object among them, in the order of the function that it stands for."""
    if name == "where" and len(given) == 2:  # the condition comes first
        return [given[0], first, given[1]]
    return [first, *_flat(given)]


def _is_in_place(name: str) -> bool:
    """Whether a method is an op that writes to its tensor."""
    return name.endswith("_") and not name.endswith("__") and name[:-1] in SPELLINGS


def _gives_view(name: str) -> bool:
    """Whether a method gives its tensor in another shape, and no list of autocast's names it."""
    how = SPELLINGS.get(name)
    return how is not None and how.gives is Gives.FIRST and not is_listed(how.ops)


def _flat(given: Sequence[Given]) -> list[Given]:
    """Arguments with the items of displays in their place: `torch.cat([a, b])`."""
    found: list[Given] = []
    for value, kind in given:
        if isinstance(value, ir.Sequence) and kind.what == TUPLE:
            found += zip(value.items, kind.items, strict=True)
        elif kind.what == LIST:
            found.append((value, kind.items[0]))
        else:
            found.append((value, kind))
    return found


def _upsamples(mode: Given | None) -> bool:
    return mode is None or (isinstance(mode[0], ir.Constant) and mode[0].value in UPSAMPLING)


def _asks_without_default(met: Met) -> bool:
    """Whether a `get` gives what there is, or None."""
    return len(met.given) == 1 or (len(met.given) == 2 and ir.is_none(met.given[1][0]))


def _is_literal(given: Given | None, value: str) -> bool:
    return given is not None and isinstance(given[0], ir.Constant) and given[0].value == value


def _is_none(given: Given | None) -> bool:
    return given is None or (isinstance(given[0], ir.Constant) and given[0].value is None)
