"""Models whose parameters are cast to half precision, and the optimizers that have them (AMP208, AMP217)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import also_as, callers, keys_passed
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_callable, local_function
from amplint.model.calls.gradients_off import never_has_gradients
from amplint.model.inference.dtypes import HALF, dtypes
from amplint.model.inference.formulas import TRUE, Formula, both, contradict
from amplint.model.inference.value_sets import decided
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.kept_arguments import kept_parameters
from amplint.model.objects.key_parts import (
    attribute_of,
    contains,
    last_name,
    overlap,
    own_self,
    owner_of,
    variable_parts,
)
from amplint.model.regions.training_regions import put_into
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import conditions_round, source_of
from amplint.model.syntax.nesting import loops_round
from amplint.model.syntax.scopes import owner_class
from amplint.model.syntax.text_scan import code_of
from amplint.model.torch_facts.modules import RETURNS_ITSELF
from amplint.model.usage.accelerators import accelerators
from amplint.model.usage.frozen_models import wholly_frozen
from amplint.model.usage.mentions_of import near_kept
from amplint.model.usage.module_casts import (
    LOADS,
    Cast,
    cast_to,
    casts,
    dtype_of,
    is_cast_there,
    returned_casts,
    what_is_cast,
)
from amplint.model.usage.part_casts import is_idle, is_out_of_sight, part_casts
from amplint.model.usage.whole_models import whole_of
from amplint.rules.shared.adapters import (
    LISTS,
    adapts,
    adapts_another,
    by_choice,
    has_adapters,
    is_quantized,
    makes_them_half,
    names_adapters,
    reads_adapters,
)
from amplint.rules.shared.enabled_flags import comes_before

if TYPE_CHECKING:
    from amplint.model import Module

# What casts parameters that it is given, by its name, and methods of a tensor that do.
_CASTS = re.compile(r"(?i)(?<!auto)(?<!broad)(?<!fore)cast|fp32|float32")
_METHODS = {"to", "type", "type_as", "float", "double", "half", "bfloat16"}
# What gives back the model that it gets, by its name, and what torch wraps a model in.
_WRAPPERS = re.compile(
    r"(?i)compile|unwrap|parallel|ddp|distribut|(to|on)_?(device|gpu|cuda)|sync_?batch|checkpointing"
)
_WRAPS = {"torch.compile", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel",
          "torch.nn.parallel.DistributedDataParallel"}  # fmt: skip
_WRAPPED = ("module", "_orig_mod")
# What is written in a function that may cast a model to another dtype.
_DTYPES = re.compile(r"(?i)float|double|half|dtype|(?<!auto)(?<!broad)cast")
# Methods of a model that run nothing.
_NOT_RUN = (*RETURNS_ITSELF, "parameters", "named_parameters", "state_dict", "load_state_dict", "modules", "children")
# A call whose name says that it freezes a part of a model: `freeze_body`, and not `unfreeze`.
_FREEZES = re.compile(r"(?<!un)freeze")
# What is written where `_casts_of_parameters` finds a cast.
_CASTING = re.compile(r"data|float|double|apply|(?i:cast)|\b(to|type|from_pretrained|from_config)\b")

_DEEP = 3  # functions that return a model on
# Functions that give what they are given, in another container.
_PASSING_ON = ("builtins.", "itertools.chain", "itertools.islice")
_MANY_PARTS = 100  # of groups, lists and the loops that fill them
# Their optimizers have no copies of the parameters in float32.
_LIBRARIES = ("bitsandbytes.optim.", "lion_pytorch.", "prodigyopt.", "timm.optim.", "torch_optimizer.", "transformers.")


class HalfModel(NamedTuple):
    """A model that a call casts as a whole, to `dtype` or by a choice, and that no other call casts otherwise before it
    is trained.

    `keys`: where it is kept, in the function that casts it, in callers and in objects; `parts`: the parts of it that
    are trained or kept in variables; `elsewhere`: whether callers or objects keep it once it is cast; `doubtful`:
    whether objects do, code out of sight wraps it, or a variable may hold something else than a part of it. `owned`:
    the optimizers that are made of its parameters in sight; `given`: those that functions make which get the model;
    `beside`: the one that the function that casts it gets next to it, if nothing in sight calls that function.
    `adapts`: adapters are trained in the same program; `by_choice`: those of this model, if an option asks for them;
    `has_half`: those of this model are in its dtype.
    """

    cast: Cast
    dtype: str
    keys: frozenset[str]
    parts: frozenset[str]
    elsewhere: bool
    doubtful: bool
    owned: frozenset[str]
    given: frozenset[str]
    beside: frozenset[str]
    adapts: bool
    by_choice: bool
    has_half: bool

    @property
    def cause(self) -> str:
        """What findings on its cast have in common."""
        return cause_of(self.cast)

    @property
    def makes(self) -> str:
        """For a message: what the cast does, or, where the code chooses its dtype, can do."""
        said = "this cast makes" if self.cast.dtype == self.dtype else "this cast can make"
        return f"without adapters, {said}" if self.by_choice else said

    @property
    def trained(self) -> str:
        """For a message: what of it is trained."""
        return "adapters" if self.has_half else "parameters"

    @property
    def optimizers(self) -> set[str]:
        """All optimizers that have, or may have, its parameters."""
        return {*self.owned, *self.given, *self.beside}


def cause_of(cast: Cast) -> str:
    """What findings on a cast of a model have in common."""
    return f"half parameters {cast.call.id}"


def half_models(module: Module, dtype: str) -> list[HalfModel]:
    """The models that the file casts to a half dtype, "float16" or "bfloat16", surely or by a choice."""
    return module.once(_half_models, dtype)


def _half_models(module: Module, dtype: str) -> list[HalfModel]:
    every = sorted((*casts(module), *part_casts(module)), key=lambda each: each.call.id)
    of_calls = _of_callers(module)
    halves = [each for each in (*every, *of_calls) if each.dtype == dtype or _can_be(module, each, dtype)]
    found = (_half_model(module, each, dtype, every, of_calls.get(each, set())) for each in halves)
    return [each for each in found if each is not None]


def _half_model(module: Module, half: Cast, dtype: str, every: list[Cast], outside: set[str]) -> HalfModel | None:
    """The model that a cast makes half; None if it, or what is trained, may be of another dtype. `outside`: its keys as
    far as they are known.
    """
    if _parameters_are_cast(module, half, dtype):
        return None
    adapted = module.once(adapts)
    chosen, in_half = _adapted(module, half, dtype)
    wrapped = _is_wrapped(module, half, with_adapters=chosen or in_half)
    if wrapped is None:
        return None
    outside = outside | _returned_on(module, ir.function_of(half.call), half.key) | _of_instances(module, half)
    passed_in, kept = _passed_in(module, half), _kept_as(module, half)
    elsewhere = outside | kept
    handed = _handed_down(module, half, {half.key} | passed_in | elsewhere)
    keys = _with_others(module, {half.key} | passed_in | elsewhere | handed)
    if not in_half and _is_untrained(module, half, keys):
        return None
    in_variables = _trained_in_variables(module, half, dtype, every, keys, lists=in_half or not adapted)
    variables = {each.key for each in in_variables}
    owned, given, beside = _optimizers(module, half, keys | variables)
    given |= _of_adapters(module) if in_half and not owned and not given else frozenset()
    owned -= {each for each in owned if not _is_made_half(module, half, objects(module).owns.get(each, ()))}
    others = [each for each in every if not _is_after_training(module, each, {*owned, *given, *beside})]
    trained = _trained_parts(module, keys, owned, in_variables) if not given and not beside else None
    if _is_cast_back(module, half, dtype, others, trained):
        return None
    if _is_cast_later(half, dtype, others, elsewhere | passed_in | handed):
        return None
    roots = (root for each in owned for root in objects(module).owns.get(each, ()))
    parts = frozenset((*variables, *(root for root in roots if _is_inside(root, keys))))
    if adapted and not chosen and not in_half and not (owned and adapts_another(module, keys)):
        return None
    doubtful = bool(kept) or wrapped or any(each.doubtful for each in in_variables) or is_out_of_sight(module, half)
    held = (half, dtype, keys, parts, bool(elsewhere), doubtful, owned, given, beside)
    return HalfModel(*held, adapts=adapted, by_choice=chosen, has_half=in_half)


class _PartKept(NamedTuple):
    """A variable that holds some parts of a model, by a statement that runs under a condition.

    `is_list`: a module that is made of them; `doubtful`: it may hold something else.
    """

    key: str
    parts: frozenset[str]
    when: Formula
    is_list: bool
    doubtful: bool


def _trained_in_variables(
    module: Module, half: Cast, dtype: str, every: list[Cast], keys: frozenset[str], *, lists: bool
) -> list[_PartKept]:
    """The variables that hold a part of a half model, but what is cast otherwise before it is trained; `lists`: also
    modules that are made of its parts.
    """
    found = [
        each
        for each in (_parts_in_variables(module, keys) if not half.inner else ())
        if (lists or not each.is_list) and _is_made_half(module, half, each.parts)
    ]
    owned = {*_owned_by_any(module, keys | {each.key for each in found}, half.inner)} if found else set[str]()
    others = [
        each
        for each in (every if found else ())
        if each.dtype != dtype and each.key not in keys and not _is_after_training(module, each, owned)
    ]
    return [
        each for each in found if not any(_casts_one(module, one, {each.key, *each.parts}, each.when) for one in others)
    ]


def _parts_in_variables(module: Module, keys: frozenset[str]) -> list[_PartKept]:
    """The variables that hold a part of a model with some keys, as `unet = pipeline.unet` has it, but frozen ones."""
    known, found = objects(module), list[_PartKept]()
    for statement in near_kept(module, keys).statements:
        target = statement.targets[0] if isinstance(statement, ir.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ir.Assign) or not isinstance(target, ir.Name) or statement.value is None:
            continue
        value, key = statement.value, known.key(target)
        held = {known.key(each) for each in _held_modules(value)}
        parts = frozenset(each for each in held if each is not None and _is_inside(each, keys))
        if key is None or not parts or wholly_frozen(module) & {key, *parts}:
            continue
        is_other = len(parts) < len(held) or any(True for _ in conditions_round(statement))
        found.append(_PartKept(key, parts, decided(module).inside(statement), isinstance(value, ir.Call), is_other))
    return found


def _is_made_half(module: Module, half: Cast, parts: Collection[str]) -> bool:
    """Whether a cast makes some parts half, and the code doesn't replace all of them: those of a pipeline that it is
    given, or gets later, are as they are.
    """
    known, loads = objects(module), ir.last_name(half.call.func) in LOADS
    replaced = {attribute_of(half.key, arg.keyword) for arg in half.call.args if loads and arg.keyword is not None}
    for statement in near_kept(module, {half.key}).statements:
        value = statement.value if isinstance(statement, ir.Assign) else None
        for target in statement.targets if isinstance(statement, ir.Assign) and value is not None else ():
            key = known.key(target) if isinstance(target, ir.Attribute) else None
            moved = ir.before_calls(value, *RETURNS_ITSELF)
            if key is not None and moved is not None and not _is_made_earlier(target, half):
                is_same = _is_by_accelerator(module, moved) or _is_same(module, moved, {key})
                replaced |= {key} if not is_same else set()
    return not parts or not all(any(contains(key, part) for key in replaced) for part in parts)


def _casts_one(module: Module, cast: Cast, parts: Iterable[str], when: Formula) -> bool:
    """Whether a cast is one of some parts of a model, or of what has them or is in them, in a run of some kind."""
    return any(overlap(cast.key, each) for each in parts) and not contradict(decided(module).inside(cast.call), when)


def _trained_parts(
    module: Module, keys: frozenset[str], owned: frozenset[str], kept: list[_PartKept]
) -> list[tuple[str, Formula]] | None:
    """The parts of a model with some keys that alone some optimizers have, and when; None where they may have more."""
    found, known = list[tuple[str, Formula]](), objects(module)
    for optimizer in owned:
        roots = known.owns.get(optimizer, set())
        own = [(each, TRUE) for each in roots if _is_inside(each, keys)]
        own += [
            (part, one.when) for one in kept for part in one.parts if any(contains(one.key, each) for each in roots)
        ]
        if not own or roots & keys:
            return None
        found += own
    return found or None


def _held_modules(value: ir.Value) -> list[ir.Value]:
    """The modules that a value is or may be, or has: `ModuleList([net.a, net.b])`."""
    if isinstance(value, ir.Conditional):
        return [*_held_modules(value.then), *_held_modules(value.other)]
    if not isinstance(value, ir.Call) or not LISTS.search(ir.last_name(value.func)) or len(value.positional) != 1:
        return [value]
    only = value.positional[0]
    only = ir.called_on(only, "values") or only
    return list(only.items) if isinstance(only, ir.Sequence) and not only.unpacks() else [only]


def _is_inside(key: str, keys: frozenset[str]) -> bool:
    """Whether a key is one of a part of what has one of some keys."""
    return any(key.startswith(f"{each}.") for each in keys)


def _part(half: Cast, keys: frozenset[str]) -> frozenset[str]:
    """The keys of the only part of a model with some keys that a cast is of; none where all of it is cast."""
    return frozenset(f"{key}{half.inner}" for key in keys if half.inner)


def _is_untrained(module: Module, half: Cast, keys: frozenset[str]) -> bool:
    """Whether only a part of a model with some keys is cast, which is frozen, or only there to be asked."""
    part = _part(half, keys)
    return bool(part) and (not part.isdisjoint(wholly_frozen(module)) or _is_only_asked(module, part))


def trained_by(module: Module, model: str) -> set[str]:
    """The optimizers that have a model's parameters, or those of adapters that are added to it, in sight."""
    owned = {*_owned_by_any(module, frozenset({model}), "")}
    return owned or ({*_of_adapters(module)} if has_adapters(module, frozenset({model})) else set())


def adapters_stay(module: Module, model: str, cast: ir.Call) -> bool:
    """Whether a model has adapters that are float32, whatever a call casts the model to."""
    keys = frozenset({model})
    if not has_adapters(module, keys):
        return False
    return not makes_them_half(module, keys, cast) or bool(module.once(_casts_of_parameters))


def _optimizers(
    module: Module, half: Cast, keys: frozenset[str]
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The optimizers of a model with some keys: those made of its parameters, those that functions make, or the one
    beside it.
    """
    owned = _owned_by_any(module, keys, half.inner)
    given = _given_any(module, keys | _part(half, keys)) - owned
    return owned, given, frozenset(() if owned or given else _beside(module, half))


def _adapted(module: Module, half: Cast, dtype: str) -> tuple[bool, bool]:
    """Whether an option asks for adapters of a half model, and whether those it has are half as well."""
    keys = frozenset({half.key})
    if not module.once(adapts):
        return False, False
    if makes_them_half(module, keys, half.call):
        return False, True
    if is_quantized(half.call):
        return False, False  # nobody trains it without adapters
    return by_choice(module, keys, casts_when(module, half, dtype)), False


def _is_cast_back(
    module: Module, half: Cast, dtype: str, every: list[Cast], trained: list[tuple[str, Formula]] | None
) -> bool:
    """Whether a model is cast back, or a part of it, or to what can't be told; only the parts count that are `trained`,
    where these are known.
    """
    later = [each for each in every if each.call.id > half.call.id and _is_other(each, half, dtype)]
    if trained is not None:
        later = [each for each in later if any(_casts_one(module, each, [part], when) for part, when in trained)]
    return any(_can_follow(module, half, each) for each in later)


def _is_after_training(module: Module, cast: Cast, optimizers: set[str]) -> bool:
    """Whether all steps of some optimizers are seen to be made before a cast, as of what is saved in the end."""
    steps = [
        each
        for each in module.whole.near("step").calls
        if (base := ir.called_on(each, "step")) is not None
        and (key := objects(module).key(base)) is not None
        and not also_as(module, key).isdisjoint(optimizers)
    ]
    return bool(steps) and not any(comes_before(module, cast.call, cast.key, each, optimizers) for each in steps)


def _owned_by_any(module: Module, keys: frozenset[str], inner: str) -> frozenset[str]:
    """The optimizers that have the parameters of a model with some keys, or of the part of it that alone is cast."""
    owned = frozenset(optimizer for key in keys for optimizer in _owned_by(module, key, inner))
    if _is_only_asked(module, keys):
        return owned
    return owned | {optimizer for key in keys for optimizer in _owned_with_whole(module, key)}


def _given_any(module: Module, keys: frozenset[str]) -> frozenset[str]:
    """The optimizers that functions make, or return, with a model with some keys."""
    return frozenset(each for key in keys for each in _made_with(module, key) | _returned_with(module, key))


def _of_callers(module: Module) -> dict[Cast, set[str]]:
    """The casts that functions return at once, as casts of what their callers keep, and the keys of all of those."""
    known, found = objects(module), dict[Cast, set[str]]()
    for call, dtype in returned_casts(module):
        kept = [(each, key) for each in callers(module, ir.function_of(call)) for key in known.assigned_to(each)]
        if kept:
            on = (_returned_on(module, ir.function_of(each), key) for each, key in kept)
            keys = {key for _, key in kept}
            found[Cast(call, min(keys), dtype)] = keys.union(*on)
    return found


def _owned_by(module: Module, model: str, inner: str = "") -> set[str]:
    """The optimizers made of a model's parameters, or of a part's, also as callers of the function that makes one keep
    it. `inner`: the only part that counts, with what it has, as the end of a key.
    """
    known, more = objects(module), set[str]()
    owned = known.owned_by(model) | module.once(_owned_through_lists).get(model, set())
    owned |= _owned_by_parts(module, model, inner)
    for call in module.calls_of("torch.optim.*") if owned else ():
        more |= also_returned(module, call, owned & {*known.stored_as(call)})
    return owned | more


def _owned_with_whole(module: Module, model: str) -> set[str]:
    """The optimizers made of all parameters of what a model is a part of: `Adam(net.parameters())` has `net.body`'s."""
    known, found, whole = objects(module), set[str](), owner_of(model)
    frozen = {*wholly_frozen(module), *module.once(_freeze_some)} if whole else set[str]()
    while whole and whole not in frozen:
        found |= known.owned_by(whole)
        whole = owner_of(whole)
    return found


def _is_only_asked(module: Module, keys: frozenset[str]) -> bool:
    """Whether a model that another keeps is only there to be asked: it is put into `eval` where the other is made, or
    is run without gradients, and nothing in sight calls it with them.
    """
    known, keys = objects(module), keys | _seen_inside(module, keys)
    called, run = list[ir.Call](), list[ir.Call]()
    for call in near_kept(module, keys).calls:
        method = call.func.attr if isinstance(call.func, ir.Attribute) and known.key(call.func.base) in keys else None
        if method == "eval" and _is_in_constructor(call):
            return True
        if method == "forward" or known.key(call.func) in keys:
            called.append(call)
        elif method is not None and method not in _NOT_RUN:
            run.append(call)
    if not all(never_has_gradients(module, each) for each in called):
        return False
    return bool(called) or any(never_has_gradients(module, each) for each in run)


def _seen_inside(module: Module, keys: frozenset[str]) -> set[str]:
    """The keys of parts of objects in the classes of these: `self.body` for the `net.body` of `net = Net()`."""
    made = ((key, objects(module).instance(owner)) for key in keys if (owner := owner_of(key)))
    return {attribute_of(own_self(cls), last_name(key)) for key, cls in made if cls is not None}


def _is_in_constructor(call: ir.Call) -> bool:
    """Whether a call stands in an `__init__`."""
    function = ir.function_of(call)
    return function is not None and function.name == "__init__"


def _freeze_some(module: Module) -> set[str]:
    """The keys of the models with a method that is called and by its name freezes a part: `net.freeze_body()`."""
    calls = [each for each in module.whole.near("freeze").calls if _FREEZES.search(ir.last_name(each.func))]
    bases = [each.func.base for each in calls if isinstance(each.func, ir.Attribute)]
    return {key for each in bases if (key := objects(module).key(each)) is not None}


def _owned_by_parts(module: Module, model: str, inner: str) -> set[str]:
    """The optimizers made of the parameters of parts of a model alone, none of which the file replaces:
    `AdamW(model.head.parameters())`.
    """
    known = objects(module)
    found = {
        optimizer: parts
        for optimizer, roots in known.owns.items()
        if (parts := {root for root in roots if root.startswith(f"{model}.")}) and parts == {*roots}
        if not inner or any(overlap(part, f"{model}{inner}") for part in parts)
    }
    if not found:
        return set()
    replaced = {
        key
        for statement in near_kept(module, {model}).statements
        if isinstance(statement, ir.Assign)
        for target in statement.targets
        if isinstance(target, (ir.Attribute, ir.Subscript)) and (key := known.key(target)) is not None
    }
    return {
        optimizer
        for optimizer, parts in found.items()
        if not any(f"{part}.".startswith(f"{key}.") and key != model for part in parts for key in replaced)
    }


def _owned_through_lists(module: Module) -> dict[str, set[str]]:
    """The optimizers that get a model's parameters in lists that loops fill, by the model's key."""
    known, found = objects(module), dict[str, set[str]]()
    for call in module.calls_of("torch.optim.*"):
        params = argument(call, "torch.optim.Optimizer", "params")
        kept = {*known.stored_as(call)}
        if params is None or not kept or known.parameters_roots(params):
            continue
        for root in _roots_of_groups(module, params):
            found.setdefault(root, set()).update(kept)
    return found


def _roots_of_groups(module: Module, params: ir.Value) -> set[str]:
    """The models whose parameters are in groups: `[{"params": decay}, {"params": others}]`, with lists that loops fill
    or comprehensions make.
    """
    known, roots, left = objects(module), set[str](), [params]
    seen = set[object]()
    while left and len(seen) < _MANY_PARTS:
        value = left.pop()
        one: object = (value.scope.home(value.name), value.name) if isinstance(value, ir.Name) else value.id
        if one in seen:
            continue
        seen.add(one)
        found = known.parameters_roots(value)
        roots |= found.union(*(_wholes(module, each) for each in ir.walk_values(value)))
        left += _parts_of_group(module, value) if not found else ()
    return roots


def _wholes(module: Module, value: ir.Value) -> set[str]:
    """The keys of the models of whose parts a value takes the parameters, in a loop or through a variable."""
    part = ir.called_on(value, "parameters", "named_parameters")
    return whole_of(module, part) if part is not None else set()


def _parts_of_group(module: Module, value: ir.Value) -> Iterator[ir.Value]:
    """What a value takes its parameters from."""
    if isinstance(value, ir.Mapping):
        yield from (each for key, each in value.items if isinstance(key, ir.Constant) and key.value == "params")
    elif isinstance(value, ir.Sequence):
        yield from value.items
    elif isinstance(value, ir.Binary):
        yield from (value.left, value.right)
    elif isinstance(value, ir.Comprehension):
        yield from (ir.called_on(each.iter, "items", "values") or each.iter for each in value.clauses)
    elif isinstance(value, ir.Call) and all(each.startswith(_PASSING_ON) for each in module.names.of(value.func)):
        yield from value.positional
    elif isinstance(value, ir.Name):
        yield from (source for each in module.names.bindings(value) if (source := source_of(each)) is not None)
        yield from put_into(module, value)
        for each in module.whole.near(value.name).statements:
            if isinstance(each, ir.AugAssign) and isinstance(each.target, ir.Name) and each.target.name == value.name:
                yield each.value


def also_returned(module: Module, made: ir.Call, keys: set[str]) -> set[str]:
    """The keys of an optimizer that a call creates, with those of callers, where its function returns it."""
    return keys.union(*(returned_as(module, ir.function_of(made), each) for each in keys))


def _of_instances(module: Module, half: Cast) -> set[str]:
    """The keys outside of a class of a model that its constructor casts: `trainer.model` of `trainer = Trainer(model)`,
    and what the constructor is given for it.
    """
    function = ir.function_of(half.call)
    cls = function.cls if function is not None else None
    if function is None or cls is None:
        return set()
    if half.key == own_self(cls):
        # The constructor casts, or a method that it calls.
        inits = (
            [function] if function.name == "__init__" else [ir.function_of(each) for each in callers(module, function)]
        )
        made = (call for each in inits if _is_constructor(each, cls) for call in callers(module, each))
        return {key for call in made for key in objects(module).assigned_to(_moved(call))}
    if function.name != "__init__":
        return set()
    return _of_attribute(module, half, function) if owner_of(half.key) == own_self(cls) else set()


def _is_constructor(function: ir.Function | None, cls: ir.Class) -> bool:
    return function is not None and function.name == "__init__" and function.cls is cls


def _of_attribute(module: Module, half: Cast, function: ir.Function) -> set[str]:
    """The same of a model that the constructor keeps in an attribute."""
    known, kept, found = objects(module), _cast_parameters(module, half, function), set[str]()
    for call in callers(module, function):
        found |= {attribute_of(key, last_name(half.key)) for key in known.assigned_to(_moved(call))}
        for name in kept:
            value = module.once(CallGraph).given_for(call, name)
            key = known.key(value) if value is not None else None
            found |= {key} if key is not None else set()
    return found


def _cast_parameters(module: Module, half: Cast, function: ir.Function) -> set[str]:
    """The parameters that a function keeps under the key of a model that it casts."""
    known, found = objects(module), set[str]()
    for each in function.body.statements:
        if isinstance(each, ir.Assign) and each.value is not None:
            if any(known.key(target) == half.key for target in each.targets):
                value = what_is_cast(each.value)
                found |= {value.name} if isinstance(value, ir.Name) else set()
    return found & {each.name for each in function.params}


def _moved(made: ir.Call) -> ir.Call:
    """What a new module is in the end, after the methods called at once that give it back: `Net().cuda()`."""
    func = made.parent
    while isinstance(func, ir.Attribute) and func.attr in RETURNS_ITSELF and isinstance(func.parent, ir.Call):
        made, func = func.parent, func.parent.parent
    return made


def _passed_in(module: Module, half: Cast) -> set[str]:
    """The keys of what callers give for the model, where it is a parameter of the function that casts it."""
    function, name = ir.function_of(half.call), _parameter_cast(module, half)
    return keys_passed(module, function, name) if function is not None and name is not None else set()


def _handed_down(module: Module, half: Cast, keys: set[str]) -> set[str]:
    """The keys of the parameters by which functions have the model that they are given: `train(model)`."""
    known, found = objects(module), sorted(keys)
    for key in found:  # grows
        for call in near_kept(module, {key}).calls if len(found) < _MANY_PARTS else ():
            function, names = _received(module, call, key) if not _is_made_earlier(call, half) else (None, [])
            inside = [known.variable(function.scope, name) for name in names] if function is not None else []
            found += [each for each in inside if each not in found and stays(module, each)]
    return {*found} - keys


def _is_made_earlier(call: ir.Node, half: Cast) -> bool:
    """Whether a call, or an assignment, comes before a cast in its function, in no loop with it."""
    if ir.function_of(call) is not ir.function_of(half.call) or call.id > half.call.id:
        return False
    return not any(loop in loops_round(half.call) for loop in loops_round(call))


def stays(module: Module, key: str) -> bool:
    """Whether a variable always has the model that it has at first: it is at most moved or wrapped."""
    known = objects(module)
    for statement in near_kept(module, {key}).statements:
        targets = statement.targets if isinstance(statement, ir.Assign) else ()
        if isinstance(statement, ir.Assign) and any(
            known.key(one) == key for each in targets for one in _each_target(each)
        ):
            value = ir.before_calls(statement.value, *RETURNS_ITSELF)
            if value is None or not (_is_by_accelerator(module, value) or _is_same(module, value, {key})):
                return False
    return True


def _is_by_accelerator(module: Module, value: ir.Value) -> bool:
    """Whether a call is one of an Accelerator's method: `prepare` and `unwrap_model` keep the parameters."""
    func = value.func if isinstance(value, ir.Call) else None
    return isinstance(func, ir.Attribute) and accelerators(module).owns(func.base)


def _parameter_cast(module: Module, half: Cast) -> str | None:
    """The parameter that a cast is one of, and not of a model that its function makes and calls the same."""
    function, variable = ir.function_of(half.call), variable_parts(half.key)
    if function is None or variable is None or not is_cast_there(module, half.call, half.key):
        return None
    return variable[1] if variable[1] in [each.name for each in function.params] else None


def _beside(module: Module, half: Cast) -> set[str]:
    """The optimizer that a function gets next to the model that it casts, if it gets only one and nobody in sight calls
    it: `def train(model, optimizer, half)`.
    """
    known, function = objects(module), ir.function_of(half.call)
    if function is None or _parameter_cast(module, half) is None or callers(module, function):
        return set()
    names = [each.name for each in function.params]
    steps = (ir.called_on(each, "step", "zero_grad") for each in module.whole.within(function).calls)
    stepped = {key for base in steps if base is not None and (key := known.is_optimizer(base)) is not None}
    single = stepped if len(stepped) == 1 else set()
    return {key for key in single if (parts := variable_parts(key)) is not None and parts[1] in names}


def _can_follow(module: Module, half: Cast, other: Cast) -> bool:
    """Whether a run can make both of two casts: they are not arms of one choice."""
    known = decided(module)
    return not contradict(known.inside(half.call), known.inside(other.call))


def _can_be(module: Module, cast: Cast, dtype: str) -> bool:
    """Whether a cast is to a dtype that can be this one or another."""
    given = _dtype(module, cast)
    return given is not None and any(each.name == dtype for each in dtypes(module, given))


def _returned_on(module: Module, function: ir.Function | None, inside: str, depth: int = _DEEP) -> set[str]:
    """The keys under which callers, and their callers, keep what has a key inside a function that returns it on."""
    found = returned_as(module, function, inside)
    for call in callers(module, function) if found and depth else ():
        outer = ir.function_of(call)
        if outer is not None and outer is not function:
            found |= {each for key in found for each in _returned_on(module, outer, key, depth - 1)}
    return found


def returned_as(module: Module, function: ir.Function | None, inside: str) -> set[str]:
    """The keys under which callers keep what has a key inside a function that returns it, alone or in a tuple."""
    known = objects(module)
    values = [each.value for each in returned(function) if each.value is not None] if function is not None else []
    if any(known.key(each) == inside for each in values):
        return {key for call in callers(module, function) for key in known.assigned_to(call)}
    displays = [each for each in values if isinstance(each, ir.Sequence) and not each.unpacks()]
    places = {n for each in displays for n, item in enumerate(each.items) if known.key(item) == inside}
    return {
        key
        for call in (callers(module, function) if places else ())
        for target in _unpacked(call)
        for n in places
        if n < len(target.items) and (key := known.key(target.items[n])) is not None
    }


def _returned_with(module: Module, model: str) -> set[str]:
    """The keys of optimizers of a model that a function returns with it: `net, optimizer = build()`."""
    calls, found = module.once(CallGraph), set[str]()
    for statement in near_kept(module, {model}).statements:
        made = statement.value if isinstance(statement, ir.Assign) else None
        targets = _unpacked(made) if isinstance(made, ir.Call) else []
        callee = calls.find(made) if targets and isinstance(made, ir.Call) else None
        displays = [each.value for each in returned(callee.function)] if callee is not None else []
        for each in displays:
            if isinstance(each, ir.Sequence) and not each.unpacks():
                found |= _paired(module, model, list(zip(each.items, targets[0].items, strict=False)))
    return found


def _paired(module: Module, model: str, pairs: list[tuple[ir.Value, ir.Value]]) -> set[str]:
    """The keys of the optimizers of a model, of pairs of what a function returns and what keeps it."""
    known = objects(module)
    inside = {key for item, to in pairs if known.key(to) == model and (key := known.key(item)) is not None}
    own = {optimizer for key in inside for optimizer in _owned_by(module, key) | _made_with(module, key)}
    return {key for item, to in pairs if known.key(item) in own and (key := known.key(to)) is not None}


def _unpacked(call: ir.Call) -> list[ir.Sequence]:
    """The targets that what a call gives is unpacked to: `model, tokenizer = load(name)`."""
    assign = call.parent if isinstance(call.parent, ir.Assign) and call.parent.value is call else None
    targets = assign.targets if assign is not None else ()
    return [each for each in targets if isinstance(each, ir.Sequence) and not each.unpacks()]


def _kept_as(module: Module, half: Cast) -> set[str]:
    """The keys under which objects keep a model that their constructors are given once it is cast."""
    found = set[str]()
    for call in near_kept(module, {half.key}).calls:
        if call.id < half.call.id or ir.function_of(call) is not ir.function_of(half.call):
            continue
        function, names = _received(module, call, half.key)
        if function is None or function.cls is None or function.name != "__init__":
            continue
        attributes = kept_parameters(function, function.cls)
        for name in names:
            found |= _as_attribute(module, call, attributes[name]) if name in attributes else set()
    return found


def _received(module: Module, call: ir.Call, key: str) -> tuple[ir.Function | None, list[str]]:
    """The function that a call runs, and by which parameters it gets what has a key; None where it gets none."""
    known, calls = objects(module), module.once(CallGraph)
    handed = [each.value for each in call.args if known.key(each.value) == key]
    callee = calls.find(call) if handed else None
    if callee is None:
        return None, []
    given = calls.arguments(call, callee) or {}
    return callee.function, [name for name, value in given.items() if value in handed]


def _as_attribute(module: Module, call: ir.Call, attribute: str) -> set[str]:
    """An attribute's key in its class, and the one it has of the object that a call makes: the parameters of
    `net = Policy(backbone)` are those of `net.backbone`, too.
    """
    made = objects(module).assigned_to(_moved(call))
    return {attribute, *(attribute_of(key, last_name(attribute)) for key in made)}


def _of_adapters(module: Module) -> frozenset[str]:
    """The optimizers of torch of parameters that by their names are those of adapters, whatever the model."""
    known, found = objects(module), set[str]()
    others = {each for owned in module.once(_owned_through_lists).values() for each in owned}
    for call in module.calls_of("torch.optim.*"):
        params = argument(call, "torch.optim.Optimizer", "params")
        kept = {*known.stored_as(call)} - known.owns.keys() - others
        if params is not None and kept and reads_adapters(module, params):
            found |= kept
    return frozenset(found)


def _made_with(module: Module, model: str) -> set[str]:
    """The optimizers that functions make which are given the model, whatever they take of it, or that its own methods
    make; and those of libraries that are known to step the parameters themselves.
    """
    known = objects(module)
    made = [
        (each, key)
        for each in near_kept(module, {model}).statements
        if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call)
        if _is_made_with(module, each, each.value, model)
        for target in (one for whole in each.targets for one in _each_target(whole))
        if (key := known.is_optimizer(target)) is not None
    ]
    on = (returned_as(module, ir.function_of(each), key) for each, key in made)
    return {key for _, key in made}.union(*on)


def _is_made_with(module: Module, made: ir.Assign, call: ir.Call, model: str) -> bool:
    """Whether a call is given a model, or is a method of it, or makes an optimizer of a library of its parameters."""
    known = objects(module)
    if _is_by_accelerator(module, call):  # what it gives back, it gets
        return False
    if any(known.key(arg.value) == model for arg in call.args) or _is_made_by(module, call, model):
        return True
    return _is_of_library(module, call) and any(model in known.parameters_roots(each) for each in given_to(made))


def _each_target(target: ir.Value) -> tuple[ir.Value, ...]:
    """What a target binds: itself, or each of several in a tuple."""
    return target.items if isinstance(target, ir.Sequence) and not target.unpacks() else (target,)


def _is_made_by(module: Module, call: ir.Call, model: str) -> bool:
    """Whether a method of the model makes what it gives: `model.configure_optimizers(lr)`."""
    return (
        isinstance(call.func, ir.Attribute)
        and "optim" in call.func.attr
        and objects(module).key(call.func.base) == model
    )


def _is_of_library(module: Module, call: ir.Call) -> bool:
    """Whether a call makes an optimizer of a library that steps the parameters that it is given."""
    name = module.names.only(call.func) or ""
    return name.startswith(_LIBRARIES) and "fused" not in name.lower()


def given_to(made: ir.Assign) -> list[ir.Value]:
    """What the call is given whose result is assigned."""
    return [each.value for each in made.value.args] if isinstance(made.value, ir.Call) else []


def _is_cast_later(half: Cast, dtype: str, every: list[Cast], keys: set[str]) -> bool:
    """Whether another cast is to another dtype, of a model with some other keys, or of what has it or the model as a
    part.
    """
    for each in every:
        is_behind = each.call.id > half.call.id and contains(each.key, half.key) and each.key != half.key
        if each.dtype != dtype and (is_behind or any(contains(each.key, key) for key in keys)):
            return True
    return False


def _is_other(cast: Cast, half: Cast, dtype: str) -> bool:
    """Whether a cast of the same model, or of a part of it, is to another dtype."""
    return cast.dtype != dtype and f"{cast.key}.".startswith(f"{half.key}.")


def _with_others(module: Module, keys: set[str]) -> frozenset[str]:
    """The keys of a model with those of variables that are the same model, or what torch wraps it in:
    `raw = model.module if ddp else model`.
    """
    known, found = objects(module), set(keys)
    for statement in near_kept(module, keys).statements:
        if not isinstance(statement, ir.Assign) or statement.value is None or len(statement.targets) > 1:
            continue
        key = known.key(statement.targets[0])
        if key is not None and isinstance(statement.targets[0], ir.Name) and _is_same(module, statement.value, found):
            found.add(key)
    return frozenset(found)


def _is_same(module: Module, value: ir.Value, keys: set[str]) -> bool:
    """Whether a value is the model with some keys, perhaps wrapped or unwrapped."""
    if isinstance(value, ir.Conditional):
        return _is_same(module, value.then, keys) and _is_same(module, value.other, keys)
    if isinstance(value, ir.Attribute) and value.attr in _WRAPPED:
        return _is_same(module, value.base, keys)
    if isinstance(value, ir.Call) and value.positional:
        names = module.names.of(value.func)
        gets = names == {"builtins.getattr"} or (bool(names) and all(each in _WRAPS for each in names))
        return gets and _is_same(module, value.positional[0], keys)
    return objects(module).key(value) in keys


def _is_wrapped(module: Module, half: Cast, *, with_adapters: bool) -> bool | None:
    """Whether the model is then handed to a function out of sight that by its name gives it back; None where a function
    may give back another: what is trained of that can't be told. With `with_adapters` an option asks for adapters.
    """
    known, wrapped = objects(module), False
    for statement in near_kept(module, {half.key}).statements:
        value = statement.value if isinstance(statement, ir.Assign) else None
        if isinstance(statement, ir.Assign) and isinstance(value, ir.Call) and statement.id > half.call.id:
            if any(known.key(each) == half.key for each in statement.targets) and any(
                known.key(arg.value) == half.key for arg in value.args
            ):
                if all(name.startswith("torch.") for name in module.names.of(value.func)):
                    continue
                if with_adapters and names_adapters(module.text(value)):
                    continue
                if _is_by_accelerator(module, value):
                    continue
                function = local_function(module, value.func)
                if not _WRAPPERS.search(ir.last_name(value.func)):
                    return None
                if function is not None and _DTYPES.search(code_of(module.text(function))):
                    return None
                wrapped = True
    return wrapped


def _parameters_are_cast(module: Module, half: Cast, dtype: str) -> bool:
    """Whether a run that casts a model can cast single parameters too: which of them stay half can't be told then."""
    known, when = decided(module), casts_when(module, half, dtype)
    return any(not contradict(when, known.around(each)) for each in module.once(_casts_of_parameters))


def _casts_of_parameters(module: Module) -> list[ir.Statement]:
    """The statements that cast single parameters, or may do so."""
    found = list[ir.Statement]()
    for statement in module.whole.near(_CASTING).statements:
        if is_idle(module, ir.function_of(statement)):
            continue
        if isinstance(statement, ir.Assign):
            if _sets_data(module, statement):
                found.append(statement)
        # `param.float()` in a loop over parameters, `cast_training_params(model, torch.float32)`
        elif isinstance(statement, ir.Expr) and isinstance(statement.value, ir.Call):
            if _calls_cast(module, statement, statement.value):
                found.append(statement)
    return found


def _sets_data(module: Module, statement: ir.Assign) -> bool:
    """Whether a statement may cast a parameter to anything but half precision: `param.data = param.data.float()`."""
    data = (each for each in statement.targets if isinstance(each, ir.Attribute) and each.attr == "data")
    if not any(owner_class(each) is None for each in data) or not _may_cast(statement.value):
        return False
    return not isinstance(statement.value, ir.Call) or cast_to(module, statement.value) not in HALF


def _calls_cast(module: Module, statement: ir.Statement, call: ir.Call) -> bool:
    """Whether a statement is a call that may cast parameters to anything but half precision."""
    is_torchs = any(name.startswith("torch.") for name in module.names.of(call.func))  # a setting of torch
    if _CASTS.search(ir.last_name(call.func)) and not is_torchs:
        return True
    in_loop = loops_round(statement) and cast_to(module, call) in ("float32", "float64")
    return bool(in_loop) or _applies_cast(module, call)


def _applies_cast(module: Module, call: ir.Call) -> bool:
    """Whether a call applies a function out of sight that by its name casts: `net.apply(to_fp32)`."""
    given = ir.only_argument(call) if ir.called_on(call, "apply") is not None else None
    if not isinstance(given, (ir.Name, ir.Attribute)) or local_callable(module, given) is not None:
        return False
    return bool(_CASTS.search(ir.last_name(given)))


def _may_cast(value: ir.Value | None) -> bool:
    """Whether what a parameter's data is set to may have another dtype: `param.data.float()`, `to_fp32(param.data)`."""
    calls = [each for each in ir.walk_values(value) if isinstance(each, ir.Call)] if value is not None else []
    names = {ir.last_name(each.func) for each in calls if not _moves(each)}
    return bool(names & _METHODS) or any(map(_CASTS.search, names))


def _moves(value: ir.Value | None) -> bool:
    """Whether a value is a tensor on another device, by the call that moves it: `param.data.to(device)`."""
    if ir.called_on(value, "cuda", "cpu") is not None:
        return True
    call = value if isinstance(value, ir.Call) and ir.called_on(value, "to") is not None else None
    return call is not None and len(call.args) == 1 and "device" in ir.last_name(call.args[0].value).lower()


def casts_when(module: Module, half: Cast, dtype: str) -> Formula:
    """What has to hold for a cast to be made, and to this dtype."""
    known, chosen = decided(module), _dtype(module, half)
    return both(known.around(half.call), known.is_dtype(chosen, dtype) if chosen is not None else TRUE)


def _dtype(module: Module, half: Cast) -> ir.Value | None:
    """The dtype of a cast, where it is chosen elsewhere."""
    return dtype_of(module, half.call) if half.dtype is None else None


def scaled_steps(module: Module, optimizers: set[str]) -> Iterator[Event]:
    """The calls of a scaler that divide the gradients of the parameters of some optimizers, in their own dtype."""
    every = [
        event for call in module.whole.near("step", "unscale_").calls if (event := events(module).of(call)) is not None
    ]
    for event in every:
        if event.kind in ("step", "unscale_") and event.scaler is not None and event.optimizer is not None:
            stepped = also_as(module, event.optimizer) & optimizers
            fused = event.kind == "step" and any(_is_fused(module, each) for each in stepped)
            if stepped and not fused:
                yield event


def may_be_fused(made: ir.Call) -> bool:
    """Whether a call may create a fused optimizer, which takes float16 gradients and computes in float32."""
    return made.keyword("fused") is not None or made.unpacks("**")


def _is_fused(module: Module, optimizer: str) -> bool:
    """Whether an optimizer may be a fused one."""
    known = objects(module)
    for statement in near_kept(module, {optimizer}).statements:
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Call):
            if any(known.key(each) == optimizer for each in statement.targets):
                if may_be_fused(statement.value):
                    return True
    return False
