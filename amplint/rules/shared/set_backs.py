"""Loops that set back what they train: each iteration of them is a training run of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import is_part, own_self
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.syntax.nesting import loops_round
from amplint.model.syntax.scopes import UNKNOWN
from amplint.rules.shared.scaler_usage import argument_of

if TYPE_CHECKING:
    from amplint.model import Module

_SETS_BACK = re.compile(r"(?i)load_state_dict|reset|init_weights|weights_init|reinit")
# Names of what has no weights that are trained, or is a copy of what does.
_NOT_TRAINED = re.compile(
    r"(?i)(?<!para)meter|metric|logg|progress|p?bars?$|timer|watch|loader|sampler|stopp|dataset|accura|loss(es)?$|scores?$"
    r"|stats?$|statistic|record|counter|writer|profil|sched|seed|cache|averag|tracker|monitor|patience"
    r"|(?<![a-z])(env|acc|target|teacher|ema|shadow|best|swa|eval|val|valid|validation|dev|test|frozen)(?![a-z])"
)
# What is done with a model, beside calling it.
_OF_MODELS = {"train", "parameters", "named_parameters", "forward", "zero_grad", "state_dict", "modules"}
_TAKES_OVER = re.compile(r"(?i)^_*(set|use|load|attach|replace|swap|update|register|add|append)")
_COPIES = {"copy", "deepcopy", "clone"}


class Training:
    """The code of one training step or epoch within a loop: what it reaches there, and what it trains as models.

    `nodes`: calls of functions that train, or loops. `functions`: those that such calls run, each with its call.
    """

    def __init__(
        self, module: Module, nodes: Iterable[ir.Node], functions: Iterable[tuple[ir.Function, ir.Call]] = ()
    ) -> None:
        known = objects(module)
        nodes, functions = list(nodes), list(functions)
        self.reached: set[str] = set()
        self.models: set[str] = set()
        for each in nodes:
            for value in _values(each):
                if isinstance(value, ir.Name):
                    self.reached.add(known.own_key(value))
            self.models |= _models(module, _values(each)) if not isinstance(each, ir.Call) else set()
        for function, call in functions:
            free = (each for each in ir.values_below(function.body) if isinstance(each, ir.Name))
            self.reached |= {known.own_key(each) for each in free}
            self.models |= keys_for_caller(module, function, call, _models(module, ir.values_below(function.body)))


def _values(node: ir.Node) -> Iterator[ir.Value]:
    if isinstance(node, ir.Value):
        yield from ir.walk_values(node)
    elif isinstance(node, (ir.For, ir.While)):
        yield from ir.walk_values(node.iter if isinstance(node, ir.For) else node.test)
        yield from ir.values_below(node.body)


def _models(module: Module, values: Iterable[ir.Value]) -> set[str]:
    """The keys of what is called, or used as models are."""
    known, found = objects(module), set[str | None]()
    for each in values:
        if isinstance(each, ir.Call):
            func = each.func
            found.add(known.key(func))
            if isinstance(func, ir.Attribute) and func.attr in _OF_MODELS:
                found.add(known.key(func.base))
    return {each for each in found if each is not None}


def keys_for_caller(module: Module, function: ir.Function, call: ir.Call, keys: set[str]) -> set[str]:
    """The keys for the caller of what a function knows under some keys: of its parameters, of the object it is of."""
    known, found = objects(module), set(keys)
    for param in function.params:
        value = argument_of(module, function, call, param.name)
        if value is not None and (key := known.key(value)) is not None:
            own = known.variable(function.scope, param.name)
            found |= {key + each.removeprefix(own) for each in keys if is_of(each, {own})}
    base = known.key(call.func.base) if isinstance(call.func, ir.Attribute) else None
    if base is not None and function.cls is not None:
        own = own_self(function.cls)
        found |= {base + each.removeprefix(own) for each in keys if is_of(each, {own})}
    return found


def is_of(key: str, bound: set[str]) -> bool:
    """Whether a key is one of some, or of a part of what one of them is."""
    return any(key == each or is_part(key, each) for each in bound)


def is_set_back(module: Module, loop: ir.For | ir.While, training: Training) -> bool:
    """Whether a loop sets back the model or optimizer that it trains, as far as can be told.

    A meter that is reset is neither, nor is a model that the loop makes for something else.
    """
    return any(_sets_back(module, loop, training, each) for each in ir.calls_below(loop.body))


def _sets_back(module: Module, loop: ir.For | ir.While, training: Training, call: ir.Call) -> bool:
    given = next((arg.value for arg in call.args), call) if ir.last_name(call.func) == "apply" else call
    name = ir.last_name(given.func if isinstance(given, ir.Call) else given)  # `model.apply(init_weights)`
    if not _SETS_BACK.search(name) or _NOT_TRAINED.search(name):
        return False
    names = module.names.of(call.func) - {UNKNOWN}
    if any(each.startswith("torch.") for each in names):
        return False  # `torch.cuda.reset_peak_memory_stats()`
    base = call.func.base if isinstance(call.func, ir.Attribute) and not names else None
    about = [base] if base is not None else [arg.value for arg in call.args]
    return not about or not all(_is_another(module, loop, training, each) for each in about)


def _is_another(module: Module, loop: ir.For | ir.While, training: Training, value: ir.Value) -> bool:
    """Whether a value is surely none that is trained: by its name, or because the loop makes it for another use."""
    if isinstance(value, ir.Constant) or _NOT_TRAINED.search(ir.last_name(value)):
        return True
    root = value
    while isinstance(root, (ir.Attribute, ir.Subscript)):
        root = root.base
    return isinstance(root, ir.Name) and _is_made_in(module, loop, training, root)


def _is_made_in(module: Module, loop: ir.For | ir.While, training: Training, name: ir.Name) -> bool:
    """Whether a variable holds nothing but what the loop makes anew, and its training doesn't get."""
    bound = [each for each in module.names.bindings(name) if not (isinstance(each, Other) and each.why == "del")]
    made = [each for each in bound if isinstance(each, Assigned) and loop in loops_round(each.target)]
    return (
        bool(made)
        and len(made) == len(bound)
        and all(_is_new(module, training, each.value) for each in made)
        and not _passed_on(module, loop, objects(module).own_key(name)) & training.reached
    )


def _is_new(module: Module, training: Training, value: ir.Value) -> bool:
    """Whether a value is a new object: a copy, or what a call makes that is given no model that is trained."""
    if not isinstance(value, ir.Call):
        return False
    if ir.last_name(value.func) in _COPIES:
        return True
    known = objects(module)
    given = [arg.value for arg in value.args] + ([value.func.base] if isinstance(value.func, ir.Attribute) else [])
    return not any(known.key(each) in training.models for one in given for each in ir.walk_values(one))


def _passed_on(module: Module, loop: ir.For | ir.While, key: str) -> set[str]:
    """The keys of what holds a variable's object in a loop: the variable, what is made of it, and what it is set in."""
    known, found = objects(module), {key}
    statements = list(ir.walk_statements(loop.body, into=False))
    for _ in statements:
        before = len(found)
        for each in statements:
            if isinstance(each, ir.Assign) and each.value is not None and known.names_in(each.value) & found:
                values = (value for target in each.targets for value in ir.walk_values(target))
                found |= {known.own_key(value) for value in values if isinstance(value, ir.Name)}
        for call in ir.calls_below(loop.body):
            if isinstance(call.func, ir.Attribute) and _TAKES_OVER.search(call.func.attr):
                if any(known.names_in(arg.value) & found for arg in call.args):
                    holders = ir.walk_values(call.func.base)
                    found |= {known.own_key(value) for value in holders if isinstance(value, ir.Name)}
        if len(found) == before:
            break
    return found
