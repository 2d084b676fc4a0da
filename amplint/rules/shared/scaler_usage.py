"""The scalers that a file makes: all that it does with each, whose steps they make, and where they can be reached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import parameter_for
from amplint.model.calls.call_sites import callers, passed_by
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import bases_in_sight, function_named, local_class, local_function, method
from amplint.model.inference.declared_settings import PARSES
from amplint.model.inference.value_sets import decided
from amplint.model.names.tables import arguments_of
from amplint.model.objects.amp_objects import Made, objects, scaler_arguments
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.objects.key_parts import (
    attribute_of,
    attribute_of_self,
    is_attribute,
    is_of_self,
    last_name,
    own_self,
    owner_of,
    root_of,
)
from amplint.model.objects.loop_sources import container_of
from amplint.model.regions.cpu_training import does_nothing, is_for_accelerators, trains_on_cpu
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument, given_to, with_defaults
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.lazy_lowering import values_of
from amplint.model.syntax.nesting import ifs_round
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import NOTHING, UNKNOWN, owner_class
from amplint.model.torch_facts.names import SCALER, SCALERS
from amplint.model.usage.mentions_of import near_kept
from amplint.rules.shared.made_before import Order, made_before
from amplint.rules.shared.scaler_keepers import keepers, reads

if TYPE_CHECKING:
    from amplint.model import Module

# Calls that look at what they are given, and no more.
_LOOKS = re.compile(r"builtins\.(isinstance|print|type|bool|id|hasattr|repr|len|str)$")
# How classes of scalers are called, as far as they are looked for.
_SCALER = re.compile(r"Scaler\s*\(")
# How parameters that take the settings of a program are called.
_SETTINGS = re.compile(r"args?|opts?|options|cfg|conf|config|hparams|params|flags|settings")
# Methods that give the optimizers that there are: Lightning's `self.optimizers()`.
GIVES_THE_SAME = {"optimizers"}
_HANDED_ON = 3  # times that a scaler is handed on from one name to the next
# With these a scaler of its own class may keep its state by itself.
_STATE = {"state_dict", "load_state_dict", "__getstate__", "__setstate__", "__getattr__", "_scale"}


class ScalerUsage:
    """All that a file does with one scaler that it makes.

    `unseen`: the scaler gets to where it can't be followed. `inherits`: it is kept by a class whose bases may use it,
    out of sight; then it is unseen, too. `escapes`: it is unseen for another reason. `methods`: the names of the
    attributes that are read of it. `makes`: its constructions, the first of which is `made`. `stored`: the statement
    that gives it its name, which may call the function that makes it. `keeper`: the class whose objects keep it as an
    attribute. `holders`: classes whose objects are given it where they are made, each with the attribute that keeps it
    there. `before`: the keys of the variables that hand it on to its name: `scaler` of `self.scaler = scaler`, or of a
    function that returns it.
    """

    def __init__(
        self, module: Module, scaler: str, makes: list[Made], stored: ir.Node, before: tuple[str, ...] = ()
    ) -> None:
        self._module = module
        self._known = objects(module)
        self.scaler = scaler
        self.makes = makes
        self.made = makes[0]
        self.stored = ir.statement_of(stored)
        self.before = before
        self.methods: set[str] = set()
        function = ir.function_of(stored)
        self.keeper = function.cls if function is not None and is_of_self(scaler) else None
        self.holders: list[tuple[ir.Class, str]] = []
        target = self.target
        self._settings = frozenset(_settings_called(module, target) if isinstance(target, ir.Attribute) else ())
        self.keys = self._of_keepers() | self._settings | set(before)
        self.inherits = self._is_inherited()
        self.escapes = self._stored_twice()
        todo = list(self.keys)
        while todo:
            for value in _uses(module, todo.pop()):
                for key in self._follow(value) - self.keys:
                    self.keys.add(key)
                    todo.append(key)

    @property
    def unseen(self) -> bool:
        """Whether the scaler gets to where it can't be followed."""
        return self.escapes or self.inherits

    @property
    def target(self) -> ir.Value | None:
        """What the statement that stores the scaler assigns it to: one of several where it unpacks a tuple."""
        targets = self.stored.targets if isinstance(self.stored, ir.Assign) else []
        items = [each.items if isinstance(each, ir.Sequence) else [each] for each in targets]
        return next((each for one in items for each in one if self._known.key(each) == self.scaler), None)

    def _of_keepers(self) -> set[str]:
        """The keys by which the scaler is an attribute of the objects that keep it; a variable's own."""
        attr = attribute_of_self(self.scaler)
        owners = keepers(self._module, self.keeper) if self.keeper is not None else ()
        return {self.scaler, *(attribute_of(each, attr) for each in owners)}

    def _stored_twice(self) -> bool:
        """Whether the scaler is kept under two names, or in an object that code elsewhere may add to."""
        statement = self.stored
        if not isinstance(statement, ir.Assign) or len(statement.targets) != 1:
            return True
        function = ir.function_of(statement)
        if isinstance(self.target, ir.Name) or self._settings:
            return False
        cls = function.cls if function is not None else None
        return cls is None or not is_attribute(self.scaler, own_self(cls))

    def _is_inherited(self) -> bool:
        """Whether the class whose objects keep the scaler inherits from what is out of sight."""
        function = ir.function_of(self.stored)
        cls = function.cls if function is not None and isinstance(self.stored, ir.Assign) else None
        if cls is None or isinstance(self.target, ir.Name) or self._settings:
            return False
        return not bases_in_sight(self._module, cls)

    def _follow(self, value: ir.Value) -> set[str]:
        """Take in one use of the scaler; the keys that it has from there on."""
        up = value.parent
        if isinstance(up, ir.Attribute):
            self.methods.add(up.attr)
            return set()
        if isinstance(value, ir.Name) and value.bound:
            return set()
        if isinstance(up, ir.Call) and up.func is not value:
            return self._given(value, up)
        if isinstance(up, ir.Sequence) and (value in _targets_of(up) or self._is_returned(value, up.parent)):
            return set()
        if isinstance(up, (ir.Sequence, ir.Mapping)):
            calls = self._unpacked_in(up)
            self.escapes = self.escapes or not calls
            return set().union(*(self._given(value, call) for call in calls))
        given = self._of_property(up)
        self.escapes = self.escapes or (not given and self._gets_away(value))
        return given

    def _of_property(self, up: ir.Node | None) -> set[str]:
        """The keys of the attribute as which a property of the object that keeps the scaler gives it."""
        function = ir.function_of(up) if isinstance(up, ir.Return) else None
        if function is None or self.keeper is None or function.cls is not self.keeper or len(function.decorators) != 1:
            return set()
        if "builtins.property" not in self._module.names.of(function.decorators[0]):
            return set()
        owners = keepers(self._module, self.keeper)
        return {attribute_of(each, function.name) for each in (own_self(self.keeper), *owners)}

    def _gets_away(self, value: ir.Value) -> bool:
        """Whether a use of the scaler, other than by a call, may give it a name that isn't known."""
        up = value.parent
        if isinstance(up, ir.Assign):
            return value not in up.targets and any(self._known.key(each) not in self.keys for each in up.targets)
        if isinstance(up, ir.Conditional):
            return up.test is not value
        if self._is_returned(value, up):
            return False
        return not isinstance(up, (ir.Compare, ir.Bool, ir.Unary, ir.If, ir.While, ir.Assert, ir.Expr, ir.Delete))

    def _is_returned(self, value: ir.Value, up: ir.Node | None) -> bool:
        """Whether a function returns what it hands on to the scaler's name."""
        return isinstance(up, ir.Return) and self._known.key(value) in self.before

    def _unpacked_in(self, items: ir.Sequence | ir.Mapping) -> list[ir.Call]:
        """The calls that unpack a tuple or dict; none where something else may happen to it."""
        made = items.parent
        if isinstance(made, ir.Call):
            return [made] if _is_unpacked(made, items) else []
        target = made.targets[0] if isinstance(made, ir.Assign) and len(made.targets) == 1 else None
        if not isinstance(target, ir.Name):
            return []
        uses = reads(self._module, target.scope.home(target.name), target.name)
        calls = [use.parent for use in uses if isinstance(use.parent, ir.Call) and _is_unpacked(use.parent, use)]
        return calls if len(calls) == len(uses) else []

    def _given(self, value: ir.Value, call: ir.Call) -> set[str]:
        names = self._module.names.of(call.func)
        if any(_LOOKS.match(name) for name in names):
            return set()
        cls = local_class(self._module, call.func)
        if cls is not None:
            return self._given_to_object(value, call, cls)
        parameter = parameter_for(self._module, value)
        if parameter is not None:
            return {self._known.variable(parameter[0].scope, parameter[1])}
        function = local_function(self._module, call.func)
        if isinstance(call.func, ir.Attribute) and names <= {UNKNOWN, NOTHING}:
            function = function_named(self._module, call.func.attr)
        param = parameter_of(self._module, function, call, value) if function is not None else None
        if function is None or param is None:
            self.escapes = True
            return set()
        return {self._known.variable(function.scope, param)}

    def _given_to_object(self, value: ir.Value, call: ir.Call, made: ir.Class) -> set[str]:
        """The keys of the attribute in which an object keeps the scaler that it is given when it is made."""
        parameter = parameter_for(self._module, value)
        cls = parameter[0].cls if parameter is not None else made
        if parameter is not None:
            attr = self._known.kept(*parameter)
        else:  # of a dataclass
            kept = self._known.kept_values(call, made)
            attr = next((name for name, each in kept.items() if each is value), None)
        if cls is None or attr is None or not bases_in_sight(self._module, cls):
            self.escapes = True
            return set()
        self.holders.append((cls, attr))
        return {attribute_of(each, attr) for each in (own_self(cls), *keepers(self._module, cls))}


def _settings_called(module: Module, target: ir.Attribute) -> Iterator[str]:
    """The keys of `args.scaler` in all functions of a file that hand the settings of the program on as `args`; none
    where the object may be anything else.
    """
    base, known = target.base, objects(module)
    if not isinstance(base, ir.Name) or owner_class(target) is not None or not _is_settings(module, base):
        return
    for value in module.whole.near(target.attr).values:
        if isinstance(value, ir.Attribute) and value.attr == target.attr and isinstance(value.base, ir.Name):
            key = known.key(value) if value.base.name == base.name else None
            if key is not None:
                yield key


def _is_settings(module: Module, name: ir.Name) -> bool:
    """Whether a variable holds the parsed arguments of the program: it is their result, or a parameter called so."""
    parsed = any(
        isinstance(each, Assigned) and isinstance(each.value, ir.Call) and ir.last_name(each.value.func) in PARSES
        for each in module.names.bindings(name)
    )
    given = ir.parameter_of(module.names.only_binding(name)) is not None and bool(_SETTINGS.fullmatch(name.name))
    return parsed or given


def _uses(module: Module, key: str) -> list[ir.Value]:
    known = objects(module)
    values = known.with_key(near_kept(module, {key}), key)
    return [each for each in values if isinstance(each, (ir.Name, ir.Attribute))]


def every_scaler_usage(module: Module) -> list[ScalerUsage]:
    """The scalers that the file makes, and what it does with them."""
    return module.once(_scaler_usages)


def _scaler_usages(module: Module) -> list[ScalerUsage]:
    made = {**objects(module).made, **_made_by_subclasses(module)}
    usages = [each for scaler, makes in made.items() for each in _usages_of(module, scaler, makes, set(made))]
    return [*usages, *_given_by_functions(module, set(made))]


def _usages_of(module: Module, scaler: str, makes: list[Made], others: set[str]) -> list[ScalerUsage]:
    """What is done with a scaler, under the names that its variable hands it on to, if it does."""
    names: list[tuple[str, ir.Node, tuple[str, ...]]] = [(scaler, makes[0].call, ())]
    for _ in range(_HANDED_ON):
        names = [
            each
            for name, place, before in names
            for each in [(key, at, (*before, name)) for key, at in _handed_on(module, name)] or [(name, place, before)]
            if each[0] == scaler or each[0] not in others
        ]
    return [ScalerUsage(module, name, makes, place, before) for name, place, before in names]


def _handed_on(module: Module, key: str) -> list[tuple[str, ir.Node]]:
    """The names that a variable hands a scaler on to, each with the statement that does; none where it keeps it.

    It does so by `self.scaler = scaler`, once, or by the one return of its function, alone or in a tuple.
    """
    if is_of_self(key):
        return []
    found: list[tuple[str, ir.Node]] = []
    for value in _uses(module, key):
        up = value.parent
        for call, target in _returned_to(module, value):
            name = objects(module).key(target) if target is not None else None
            if name is None:
                return []
            found.append((name, call))
        if isinstance(up, ir.Assign) and value is up.value and len(up.targets) == 1:
            target = up.targets[0]
            name = objects(module).key(target) if isinstance(target, ir.Attribute) else None
            if name is not None and owner_class(target) is not None:  # type: ignore[arg-type]
                found.append((name, up))
    return found if len({name for name, _ in found}) == len(found) else []


def _returned_to(module: Module, value: ir.Value) -> list[tuple[ir.Call, ir.Value | None]]:
    """The calls of a function that returns a value, alone or in a tuple, with what each assigns it to."""
    items = value.parent if isinstance(value.parent, ir.Sequence) else None
    if not isinstance(items.parent if items is not None else value.parent, ir.Return):
        return []
    place, count = (items.items.index(value), len(items.items)) if items is not None else (None, 0)
    return [(call, _target_of(call, place, count)) for call in callers(module, ir.function_of(value))]


def _target_of(call: ir.Call, place: int | None, count: int) -> ir.Value | None:
    """What a call's result is assigned to, or the item of it at a place where it is a tuple."""
    made = call.parent
    target = made.targets[0] if isinstance(made, ir.Assign) and len(made.targets) == 1 else None
    if place is None or target is None:
        return target
    items = target.items if isinstance(target, ir.Sequence) and not target.unpacks() else []
    return items[place] if len(items) == count else None


def _targets_of(items: ir.Sequence) -> list[ir.Value]:
    """The items of a tuple that is assigned to."""
    made = items.parent
    return list(items.items) if isinstance(made, ir.Assign) and items in made.targets else []


def _made_by_subclasses(module: Module) -> dict[str, list[Made]]:
    """The scalers of classes of the project that inherit torch's, and save and load their state as that does."""
    found: dict[str, list[Made]] = {}
    for call in module.whole.near(_SCALER).calls:
        cls = local_class(module, call.func)
        if cls is not None and _is_scalers(module, cls):
            for key in objects(module).assigned_to(call):
                found.setdefault(key, []).append(Made(call, call.keywords.get("enabled")))
    return found


def _is_scalers(module: Module, cls: ir.Class, depth: int = 4) -> bool:
    """Whether a class inherits torch's scaler, and neither takes its state nor gives another one."""
    own = ir.walk_statements(cls.body)
    if len(cls.bases) != 1 or any(ir.last_name(value) in _STATE for value in values_of(own)):
        return False
    if any(method(module, cls, each) is not None for each in _STATE):
        return False
    base = cls.bases[0].value
    parent = local_class(module, base)
    if parent is not None:
        return bool(depth) and _is_scalers(module, parent, depth - 1)
    return bool(module.names.of(base) & SCALERS)


def _given_by_functions(module: Module, others: set[str]) -> Iterator[ScalerUsage]:
    """The scalers that are what a function of the file returns, alone or in a tuple, other than those that have one of
    some keys.
    """
    makes: dict[str, tuple[ir.Call, list[Made]]] = {}
    known = objects(module)
    for made in module.calls_of(*SCALERS):
        top: ir.Value = made
        while isinstance(top.parent, ir.Conditional) and top.parent.test is not top:
            top = top.parent
        for call, target in _returned_to(module, top):
            in_a_tuple = isinstance(top.parent, ir.Sequence)
            kept = [known.key(target)] if in_a_tuple and target is not None else []
            keys = {each for each in (kept if in_a_tuple else known.assigned_to(call)) if each is not None}
            for key in keys - others:
                enabled = scaler_arguments(module, made).get("enabled")
                makes.setdefault(key, (call, []))[1].append(Made(made, enabled))
    for key, (call, each) in makes.items():
        yield ScalerUsage(module, key, each, call)


def scaler_usages(module: Module) -> list[ScalerUsage]:
    """The scalers that the file makes and that may be on."""
    return [
        usage
        for usage in every_scaler_usage(module)
        if any(each.enabled is None or not is_off(module, each.enabled) for each in usage.makes)
    ]


def _is_unpacked(call: ir.Call, value: ir.Value) -> bool:
    return any(arg.value is value and arg.star for arg in call.args)


def parameter_of(module: Module, function: ir.Function, call: ir.Call, value: ir.Value) -> str | None:
    """The name of the parameter that takes an argument of a call of the function; None where that can't be told."""
    return next((name for name, each in _given_by(module, function, call).items() if each is value), None)


def argument_of(
    module: Module, function: ir.Function, call: ir.Call, param: str, *, bound: bool | None = None
) -> ir.Value | None:
    """What a call gives for a parameter of the function, its default where it gives nothing.

    `bound`: whether it is a method that gets its object by itself; by default as the call is written.
    """
    return _given_by(module, function, call, bound).get(param)


def _given_by(
    module: Module, function: ir.Function, call: ir.Call, bound: bool | None = None
) -> dict[str, ir.Value | None]:
    if bound is None:
        bound = function.cls is not None and isinstance(call.func, ir.Attribute)
    params = function.params[1 if bound else 0 :]
    given = arguments_of(module, call)
    positional, keywords = given if given is not None else (call.positional, call.keywords)
    return with_defaults(params, given_to(params, positional, keywords))


def is_off(module: Module, enabled: ir.Value) -> bool:
    """Whether `enabled` is surely False: the literal, or a name that is bound to nothing else."""
    if isinstance(enabled, ir.Name):
        bindings = module.names.bindings(enabled)
        return bool(bindings) and all(isinstance(each, Assigned) and is_false(each.value) for each in bindings)
    return is_false(enabled)


def flags_in(module: Module, value: ir.Value) -> set[str]:
    """The keys of the variables and attributes that a value reads: of `args.amp`, not of `args`."""
    known = objects(module)
    return {
        key
        for each in ir.walk_values(value)
        if isinstance(each, (ir.Name, ir.Attribute)) and not isinstance(each.parent, ir.Attribute)
        if (key := known.key(each)) is not None
    }


def asks(module: Module, usage: ScalerUsage, node: ir.Node) -> bool:
    """Whether an if round a node asks for the scaler, or for something of its flag."""
    about = set(usage.keys) | (flags_in(module, usage.made.enabled) if usage.made.enabled is not None else set())
    return any(flags_in(module, each.test) & about for each in ifs_round(node))


def starts_anew(module: Module, where: ir.For | ir.While | ir.Function) -> bool:
    """Whether a loop or function makes an optimizer: each of its iterations or calls is a training run of its own."""
    known = objects(module)
    return any(
        isinstance(each, ir.Assign)
        and isinstance(each.value, ir.Call)
        and ir.last_name(each.value.func) not in GIVES_THE_SAME
        and any(known.is_optimizer(value) is not None for target in each.targets for value in ir.walk_values(target))
        for each in ir.walk_statements(where.body, into=False)
    )


def float16_possible(module: Module) -> bool:
    """Whether some region of the file can be float16; without any the scaler speaks for itself."""
    return module.once(_float16_possible)


def _float16_possible(module: Module) -> bool:
    return overflows(module) or all(is_false(each.enabled) for each in regions(module))


def overflows(module: Module) -> bool:
    """Whether some region in sight can be float16, so that gradients overflow and steps are skipped."""
    found = [each for each in regions(module) if not is_false(each.enabled) and not does_nothing(module, each)]
    return any(each.name in ("float16", None) for region in found for each in decided(module).region_dtypes(region))


def scales_in_sight(module: Module) -> bool:
    """Whether a scaler scales a loss in code that the file runs: not in a class or function that it only could use."""
    for call in module.whole.near("scale").calls:
        event, function = events(module).of(call), ir.function_of(call)
        if event is None or event.kind != "scale":
            continue
        if function is None or module.is_own(call):
            return True
        if callers(module, function) or _is_constructed(module, function.cls):
            return True
    known = objects(module)
    return any(known.may_call_library_scaler(call) for call in module.whole.near("optimizer").calls)


def _is_constructed(module: Module, cls: ir.Class | None) -> bool:
    """Whether something in sight makes an object of a class."""
    return cls is not None and any(local_class(module, each.func) is cls for each in module.whole.near(cls.name).calls)


def maybe_float16(module: Module) -> Region | None:
    """The first region in sight whose dtype can't be told, where none is evidently float16."""
    found = [region for region in regions(module) if not is_false(region.enabled)]
    names = [(region, {each.name for each in decided(module).region_dtypes(region)}) for region in found]
    if any("float16" in each for _, each in names):
        return None
    return next((region for region, each in names if None in each), None)


def trains_off(module: Module) -> bool:
    """Whether each scaled loss is evidently one of float32: all regions of the file are literally off, and it comes out
    of one, or all are for accelerators, and the file trains on the CPU.
    """
    found = regions(module)
    if found and all(is_for_accelerators(module, each) for each in found):
        return trains_on_cpu(module) is not None
    if not found or not all(is_false(each.enabled) for each in found):
        return False
    scaled = [each for each in trained(module) if each.event.kind == "scale"]
    return bool(scaled) and all(each.entered and not each.unseen for each in scaled)


def linked(module: Module, usage: ScalerUsage, optimizer: str) -> bool:
    """Whether the file shows that the scaler steps the optimizer, or gives both to one of its functions.

    Where one object keeps both, and the file steps none of its optimizers with the scaler, that is enough.
    """
    known = objects(module)
    owner = root_of(usage.scaler)
    held = usage.keys if usage.keeper is not None else usage.keys | {root_of(key) for key in usage.keys}
    together = is_of_self(owner) and is_attribute(optimizer, owner)
    for call in near_kept(module, usage.keys).calls:
        values = _values_given(module, call)
        given = [known.key(value) for value in values] + [container_of(module, value) for value in values]
        if isinstance(call.func, ir.Attribute) and call.func.attr in ("step", "unscale_"):
            if known.key(call.func.base) in usage.keys and given:
                if optimizer in given:
                    return True
                together = together and not is_attribute(str(given[0]), owner)
        elif optimizer in given and held & set(given):
            function = function_named(module, ir.last_name(call.func))
            if function is not None and not _steps_another(module, usage, function, call, optimizer):
                return True
    if together or optimizer in module.once(_stepped_by_keeper, usage) | module.once(_stepped_for_callers, usage):
        return True
    wrapper = owner_of(optimizer)  # `schedule.optimizer`, where the scaler steps `schedule`
    return bool(wrapper) and known.is_optimizers(wrapper) and linked(module, usage, wrapper)


def _stepped_for_callers(module: Module, usage: ScalerUsage) -> set[str]:
    """The optimizers that functions are given and step with a scaler that they aren't given, for all their callers."""
    known = objects(module)
    stepped = (
        known.key(each)
        for call, each in _steps(module, usage)
        if isinstance(call.func, ir.Attribute) and known.parameter_of(str(known.key(call.func.base))) is None
    )
    return set(given_as(module, [key for key in stepped if key is not None]))


def _stepped_by_keeper(module: Module, usage: ScalerUsage) -> set[str]:
    """The optimizers that the object which keeps a scaler is given by its callers, and steps with it."""
    if usage.keeper is None:
        return set()
    known, own = objects(module), keepers(module, usage.keeper)
    keys = (known.key(stepped) for _, stepped in _steps(module, usage))
    found = dict.fromkeys(key for key in keys if key is not None)  # in a method: `self.train_step(optimizer)`
    for call in near_kept(module, own).calls:
        of_method = isinstance(call.func, ir.Attribute) and known.key(call.func.base) in own
        name = ir.last_name(call.func) if of_method else "__call__"
        called = of_method or known.key(call.func) in own
        function = method(module, usage.keeper, name) if called else None
        if function is None:
            continue
        for stepped in _stepped_in(module, usage, function):
            value = argument_of(module, function, call, ir.last_name(stepped), bound=True)
            key = known.is_optimizer(value) if value is not None else None
            found |= {key: None} if key is not None else {}
    return set(given_as(module, list(found)))


def given_as(module: Module, keys: list[str]) -> dict[str, ir.Call | None]:
    """Some optimizers, and those that functions are given which hand them on: keys, and the calls that give them."""
    known, found = objects(module), dict[str, ir.Call | None](dict.fromkeys(keys))
    todo = list(found)
    for key in todo:  # grows
        parameter = known.parameter_of(key)
        for call, value in passed_by(module, *parameter) if parameter is not None else ():
            given = known.is_optimizer(value) if value is not None else None
            if given is not None and given not in found:
                found[given] = call
                todo.append(given)
    return found


def holds_optimizers(module: Module, container: str | None) -> bool:
    """Whether a container holds optimizers, by its name, or because one that is taken out of it is stepped."""
    if container is None:
        return False
    return objects(module).is_optimizers(container) or container in module.once(_stepped_containers)


def _stepped_containers(module: Module) -> set[str | None]:
    """The containers out of which the optimizers are taken that scalers step."""
    return {
        container_of(module, each.positional[0])
        for each in module.whole.called("step")
        if isinstance(each.func, ir.Attribute)
        and each.positional
        and objects(module).is_scaler(each.func.base) is not None
    }


def _values_given(module: Module, call: ir.Call) -> list[ir.Value]:
    """The arguments of a call, what it unpacks one by one where that is in sight."""
    given = arguments_of(module, call)
    return [*given[0], *given[1].values()] if given is not None else [arg.value for arg in call.args]


def _steps_another(module: Module, usage: ScalerUsage, function: ir.Function, call: ir.Call, optimizer: str) -> bool:
    """Whether a function that is given the scaler and an optimizer steps others of its parameters with it, not this."""
    known = objects(module)
    params = {known.variable(function.scope, each.name) for each in function.params}
    stepped = {known.key(each) for each in _stepped_in(module, usage, function)}
    values = (value for value in _values_given(module, call) if known.key(value) == optimizer)
    taken = [parameter_of(module, function, call, value) for value in values]
    own = {known.variable(function.scope, each) for each in taken if each is not None}
    return bool(own and stepped) and stepped <= params and not stepped & own


def _stepped_in(module: Module, usage: ScalerUsage, function: ir.Function) -> Iterator[ir.Value]:
    """The optimizers that a function steps with a scaler."""
    return (stepped for call, stepped in _steps(module, usage) if ir.function_of(call) is function)


def _steps(module: Module, usage: ScalerUsage) -> Iterator[tuple[ir.Call, ir.Value]]:
    """The steps of a scaler, with the optimizers that they step."""
    for call in near_kept(module, usage.keys).calls:
        if isinstance(call.func, ir.Attribute) and call.func.attr == "step":
            stepped = argument(call, f"{SCALER}.step", "optimizer")
            if stepped is not None and objects(module).key(call.func.base) in usage.keys:
                yield call, stepped


def in_reach(module: Module, usage: ScalerUsage, place: ir.Node) -> bool:
    """Whether the scaler can be read at a place: under one of its names, or because it is the same object's."""
    return (
        _is_held_at(usage, place)
        or any(_is_visible(module, key, place) for key in usage.keys)
        or _is_given_keeper(module, usage, place)
    )


def _is_given_keeper(module: Module, usage: ScalerUsage, place: ir.Node) -> bool:
    """Whether a call is given an attribute of an object that keeps the scaler: `save(model, trainer.optimizer)`."""
    known = objects(module)
    roots = (ir.root(arg.value) for arg in place.args) if isinstance(place, ir.Call) else ()
    keys = [known.key(each) for each in roots if isinstance(each, ir.Name)]
    return usage.keeper is not None and any(key is not None and known.instance(key) is usage.keeper for key in keys)


def _is_visible(module: Module, key: str, place: ir.Node) -> bool:
    """Whether a place can read a variable, or the variable or `self` that the attribute is one of."""
    function = ir.function_of(place)
    owner = root_of(key)
    if is_of_self(owner) and is_attribute(key, owner):
        while function is not None and function.cls is None:
            function = function.outer
        return function is not None and function.cls is not None and owner == own_self(function.cls)
    scope = function.scope if function is not None else module.program.scope
    return objects(module).variable(scope, last_name(owner)) == owner


def _is_held_at(usage: ScalerUsage, place: ir.Node) -> bool:
    """Whether a place is in a class whose objects are given the scaler."""
    function = ir.function_of(place)
    while function is not None and function.cls is None:
        function = function.outer
    return function is not None and any(function.cls is cls for cls, _ in usage.holders)


def text_at(module: Module, usage: ScalerUsage, place: ir.Node) -> str | None:
    """How the scaler is written at a place where it is surely there; None where it may be missing."""
    if why_not_at(module, usage, place) is not None:
        return None
    name = usage.target
    if isinstance(name, ir.Name):
        return name.name
    function = ir.function_of(place)
    if not isinstance(name, ir.Attribute) or function is None or function.cls is None or not function.params:
        return None
    return f"{function.params[0].name}.{name.attr}"


def _times_bound(module: Module, target: ir.Value, place: ir.Node) -> int | None:
    """How often what a scaler is assigned to is bound; None where a place can't read it."""
    if isinstance(target, ir.Name):
        return len(objects(module).bindings(target))
    function = ir.function_of(place)
    if not isinstance(target, ir.Attribute) or function is None or function.cls is None or not function.params:
        return None
    return len(function.cls.stored(target.attr))


def why_not_at(module: Module, usage: ScalerUsage, place: ir.Node) -> str | None:
    """Why the scaler can't be used at a place, as a clause about the place; None where it surely can.

    It can where it is made before on every path, and not made anew after.
    """
    statement, line = usage.stored, module.line(usage.made.call)
    if not in_reach(module, usage, place):
        return f", where the scaler created on {line} is not accessible"
    if _is_held_at(usage, place) or not _is_visible(module, usage.scaler, place):
        return f", where the scaler created on {line} has another name"
    if len(usage.makes) != 1:
        others = " or ".join(sorted({module.line(each.call) for each in usage.makes}))
        return f", where the scaler may be that of {others}"
    handed_on = bool(usage.before) and isinstance(usage.made.call.parent, ir.Assign)
    if not isinstance(statement, ir.Assign) or not (isinstance(statement.value, ir.Call) or handed_on):
        if isinstance(usage.made.call.parent, (ir.Conditional, ir.Bool)):
            return f", where the scaler may be missing, as {line} creates it under a condition"
        return f", where the scaler created on {line} may be missing"
    target = usage.target
    bound = _times_bound(module, target, place) if target is not None else None
    if target is None or bound is None:
        return f", where the scaler created on {line} is not accessible"
    if bound != 1:
        return f", where `{module.text(target)}` may be another object than the scaler created on {line}"
    order = made_before(module, statement, place)
    if order is Order.LATER:
        return f" before the scaler is created on {line}"
    if order is Order.UNSURE:
        if ifs_round(statement):
            return f", where the scaler may be missing, as {line} creates it under a condition"
        return f", where the scaler created on {line} may still be missing"
    return None
