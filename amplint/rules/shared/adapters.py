"""Whether adapters (peft) are trained in place of a model's own parameters (AMP208, AMP217)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers, passed_by
from amplint.model.calls.external_calls import local_class, local_function
from amplint.model.inference.formulas import Formula, both, contradict, either, negated, possible
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.nesting import exclusive
from amplint.model.syntax.text_scan import code_of
from amplint.model.torch_facts.modules import CASTS, RETURNS_ITSELF
from amplint.model.usage.mentions_of import near_kept
from amplint.model.usage.module_casts import casts
from amplint.model.usage.whole_models import whole_of
from amplint.rules.shared.default_values import holds_by_default

if TYPE_CHECKING:
    from amplint.model import Module

# Adapters are float32 whatever the model is, and it is frozen.
_ADAPTS = re.compile(r"(?i)\bpeft|lora|lokr|lycoris|adapter|kbit")
_OF_ADAPTERS = re.compile(r"(?i)peft|lora|lokr|lycoris|adapter|kbit")
# What adds adapters to a model, or gives one that has them.
_ADDS = ("get_peft_model", "add_adapter", "inject_adapter_in_model")
_LOADS = "PeftModel"
# As of peft 0.21: those of them that make adapters in the dtype of the layers, the one that makes adapters in
# float32, and the argument that turns this off.
_IN_DTYPE = ("add_adapter", "inject_adapter_in_model")
_UPCASTS = "get_peft_model"
# Methods that make layers a part of a model, in the dtype that these have (diffusers).
_SETS = ("set_attn_processor", "set_lora_layer")
_UPCAST_OPTION = "autocast_adapter_dtype"
# Layers that are quantized tell adapters nothing of a dtype.
_QUANTIZES = re.compile(r"quantization_config|load_in_[48]bit|kbit")
# What adds something to a model that it is given, by its name.
_VERBS = re.compile(r"(?i)^_?(inject|add|apply|insert|attach|modify|set_?up|install)")
_MANY = 16  # calls that lead to where adapters are added
# What is made of parts of a model, by the name of its class.
LISTS = re.compile(r"(Layers|ModuleList|ModuleDict|Sequential)$")
_DEEP = 2  # calls that lead to where adapters are added


def names_adapters(text: str) -> bool:
    """Whether a piece of code names adapters."""
    return bool(_OF_ADAPTERS.search(text))


def adapts(module: Module) -> bool:
    """Whether a file calls something that by its name adds, loads or saves adapters, or gets them, or the code that it
    takes from others speaks of them. A configuration of adapters that nothing gets adds none.
    """
    _, *others = module.texts
    if any(map(_ADAPTS.search, map(code_of, others))):
        return True
    return any(map(_handles_adapters, module.own.near(_OF_ADAPTERS).calls))


def _handles_adapters(call: ir.Call) -> bool:
    """Whether a call's name is one of adapters, or that of an argument, unless it gives none."""
    name = ir.last_name(call.func)
    if _OF_ADAPTERS.search(name):
        return not name.endswith("Config")
    given = [arg.value for arg in call.args if arg.keyword is not None and _OF_ADAPTERS.search(arg.keyword)]
    return any(not isinstance(each, ir.Constant) or bool(each.value) for each in given)


class _Addition(NamedTuple):
    """A call that adds adapters to a model kept at `key`; `at`: it, or the call that leads to it there."""

    call: ir.Call
    at: ir.Call
    key: str


def makes_them_half(module: Module, models: frozenset[str], cast: ir.Call) -> bool:
    """Whether the adapters of a model with some keys are in the dtype that a call casts it to: they are added by what
    takes the layers' dtype, or before the cast.
    """
    if any(map(_QUANTIZES.search, map(code_of, module.texts))):
        return False
    return any(each.key in models and _is_half(module, each, cast) for each in module.once(_additions))


def has_adapters(module: Module, models: frozenset[str]) -> bool:
    """Whether adapters are added in sight to a model with some keys."""
    return any(each.key in models for each in module.once(_additions))


def _additions(module: Module) -> list[_Addition]:
    """The calls that add adapters to models, or make a module of adapters, and those that lead to them."""
    found = list[_Addition]()
    for call in module.whole.near(*_IN_DTYPE, _UPCASTS, *_SETS, _OF_ADAPTERS).calls:
        found += [_Addition(call, call, key) for key in _added_to(module, call)]
    for each in found:  # grows
        parameter = objects(module).parameter_of(each.key) if len(found) < _MANY else None
        for call, given in passed_by(module, *parameter) if parameter is not None else ():
            key = objects(module).key(given) if given is not None else None
            more = _Addition(each.call, call, key) if key is not None else each
            found += [more] if more not in found else []
    return [*found, *_modules_of_adapters(module, {each.key for each in found})]


def _modules_of_adapters(module: Module, models: set[str]) -> Iterator[_Addition]:
    """The calls that make a module of adapters, by the class's name, or of parts of models that have some:
    `lora = LoRANetwork(net)`, `layers = AttnProcsLayers(net.attn_processors)`.
    """
    for statement in module.whole.near(_OF_ADAPTERS, *(models and (LISTS,))).statements:
        made = ir.before_calls(statement.value, *RETURNS_ITSELF) if isinstance(statement, ir.Assign) else None
        if not isinstance(statement, ir.Assign) or not isinstance(made, ir.Call):
            continue
        name = ir.last_name(made.func)
        is_list = LISTS.search(name) and any(whole_of(module, each) & models for each in made.positional)
        if is_list or (names_adapters(name) and not name.endswith("Config") and name != _UPCASTS):
            keys = (objects(module).key(each) for each in statement.targets)
            yield from (_Addition(made, made, key) for key in keys if key is not None)


def _added_to(module: Module, added: ir.Call) -> set[str]:
    """The keys of the model that a call adds adapters to: one of its methods, or of its parts', or what it is given."""
    name, known = ir.last_name(added.func), objects(module)
    if name == "add_adapter" or _sets_adapters(module, added):
        return whole_of(module, added.func.base) if isinstance(added.func, ir.Attribute) else set()
    if name in (*_IN_DTYPE, _UPCASTS):
        names = module.names.of(added.func)
        is_pefts = bool(names) and all(each.startswith("peft.") for each in names)
    else:
        base = added.func.base if isinstance(added.func, ir.Attribute) else None
        of_class = ir.last_name(base) if base is not None else ""
        is_named = names_adapters(name) or (of_class[:1].isupper() and names_adapters(of_class))
        is_pefts = is_named and bool(_VERBS.search(name)) and local_function(module, added.func) is None
    if not is_pefts:
        return set()
    given = {key for arg in added.args if (key := known.key(arg.value)) is not None}
    return given.union(known.assigned_to(added) if name in (*_IN_DTYPE, _UPCASTS) else ())


def _sets_adapters(module: Module, call: ir.Call) -> bool:
    """Whether a call makes layers a part of a model that are named like adapters, or filled with what is."""
    return ir.last_name(call.func) in _SETS and any(reads_adapters(module, arg.value) for arg in call.args)


def reads_adapters(module: Module, value: ir.Value) -> bool:
    """Whether adapters are in a value, or in what is stored in the variables that it reads."""
    if names_adapters(module.text(value)):
        return True
    known = objects(module)
    kept = {key for each in ir.walk_values(value) if isinstance(each, ir.Name) and (key := known.key(each)) is not None}
    stored = (each for each in near_kept(module, kept).statements if kept and isinstance(each, ir.Assign))
    return any(names_adapters(module.text(each)) for each in stored if _stores(module, each, kept))


def _stores(module: Module, assign: ir.Assign, kept: set[str]) -> bool:
    """Whether a statement sets one of some variables, also with others, or an item of it."""
    parts = [each for whole in assign.targets for each in (whole.items if isinstance(whole, ir.Sequence) else [whole])]
    bases = (each.base if isinstance(each, ir.Subscript) else each for each in parts)
    return any(objects(module).key(each) in kept for each in bases)


def _is_half(module: Module, added: _Addition, cast: ir.Call) -> bool:
    """Whether a call adds adapters to a model that are in the dtype of a cast of it."""
    if _is_other_way(module, added.at, cast):
        return False
    name, flag = ir.last_name(added.call.func), added.call.keyword(_UPCAST_OPTION)
    stays = isinstance(flag, ir.Constant) and flag.value is False
    is_loaded = ir.called_on(cast, "to", *CASTS) is None  # anew, `from_pretrained(name, torch_dtype=...)`: without them
    is_before = not is_loaded and added.at.id < cast.id and ir.function_of(added.at) is ir.function_of(cast)
    return is_before or name in _IN_DTYPE or (name == _UPCASTS and stays)


def _is_other_way(module: Module, added: ir.Call, cast: ir.Call) -> bool:
    """Whether no run both adds adapters and makes a cast: they are arms of one choice."""
    known = decided(module)
    return exclusive(added, cast) or contradict(known.inside(added), known.inside(cast))


def is_quantized(loads: ir.Call) -> bool:
    """Whether a call that loads a model may quantize it."""
    given = (arg.value for arg in loads.args if arg.keyword is not None and _QUANTIZES.search(arg.keyword))
    return any(not isinstance(each, ir.Constant) or bool(each.value) for each in given)


def by_choice(module: Module, models: frozenset[str], cast: Formula) -> bool:
    """Whether a model that is cast under a condition gets adapters only where an option asks for them, which by default
    doesn't, or has no default in sight: else its own parameters are trained.
    """
    known = decided(module)
    added = [
        each
        for each in module.whole.near(*_ADDS, *_SETS, _LOADS).calls
        if ir.last_name(each.func) in _ADDS or _loads_adapters(each) or _sets_adapters(module, each)
    ]
    if not added or not all(_is_asked_for(module, each) for each in added):
        return False
    when = either(*(known.around(each) for each in added))
    if is_vague(when) or is_vague(cast) or possible(both(cast, negated(when))) is None:
        return False
    others = near_kept(module, models).statements
    return not any(
        _OF_ADAPTERS.search(module.text(each)) and not _is_asked_for(module, each)
        for each in others
        if isinstance(each, (ir.Assign, ir.Expr, ir.Return))
        and not _sets_flag(each)
        and any(_reads(module, one, models) for one in each.values())
    )


def _sets_flag(statement: ir.Statement) -> bool:
    """Whether a statement says whether a model is trained: `net.requires_grad_(not args.use_lora)`."""
    return isinstance(statement, ir.Expr) and ir.called_on(statement.value, "requires_grad_") is not None


def _loads_adapters(call: ir.Call) -> bool:
    """Whether a call loads a model with its adapters: `PeftModel.from_pretrained(...)`."""
    base = ir.called_on(call, "from_pretrained")
    return base is not None and isinstance(base, (ir.Name, ir.Attribute)) and ir.last_name(base).startswith(_LOADS)


def _is_asked_for(module: Module, node: ir.Node, depth: int = _DEEP) -> bool:
    """Whether a node runs only under a test of an option for adapters that by default comes out otherwise, or has no
    default in sight, or in a function that is called so.
    """
    tests = [(test, holds) for test, holds in conditions_round(node) if _OF_ADAPTERS.search(module.text(test))]
    if any(_by_default(module, test) is not holds for test, holds in tests):
        return True
    calls = callers(module, ir.function_of(node)) if depth else []
    return bool(calls) and all(_is_asked_for(module, each, depth - 1) for each in calls)


def _by_default(module: Module, test: ir.Value) -> bool | None:
    """How a test comes out by default, also one that a variable keeps."""
    bound = module.names.bound_once(test) if isinstance(test, ir.Name) else None
    found = holds_by_default(module, test)
    return holds_by_default(module, bound.value) if found is None and bound is not None else found


def adapts_another(module: Module, models: frozenset[str]) -> bool:
    """Whether the adapters of a file are those of another model that it casts, and not of the one with some keys."""
    others = {each.key for each in casts(module)} - models
    return not _speaks_of_adapters(module, models) and any(
        _speaks_of_adapters(module, frozenset({each})) for each in others
    )


def _speaks_of_adapters(module: Module, models: frozenset[str]) -> bool:
    """Whether adapters are in what is done with a model, or in what makes it, or gets it, of the project's code."""
    for statement in near_kept(module, models).statements:
        written = [module.text(each) for each in statement.values() if _reads(module, each, models)]
        called = [each for root in statement.values() for each in ir.walk_values(root) if isinstance(each, ir.Call)]
        for call in called if written else ():
            inside = local_class(module, call.func) or local_function(module, call.func)
            written += [code_of(module.text(inside))] if inside is not None else []
        if any(map(_OF_ADAPTERS.search, written)):
            return True
    return False


def _reads(module: Module, value: ir.Value, keys: frozenset[str]) -> bool:
    """Whether a value reads or stores one of some objects, or is assigned to one."""
    statement, known = ir.statement_of(value), objects(module)
    values = [value, *(statement.targets if isinstance(statement, ir.Assign) else ())]
    parts = (part for each in values for part in ir.walk_values(each) if isinstance(part, (ir.Name, ir.Attribute)))
    return any(known.key(part) in keys for part in parts)
