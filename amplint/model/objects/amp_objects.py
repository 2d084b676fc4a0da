"""Which values are scalers and optimizers, and what an optimizer owns.

An object is known by its key (`amplint.model.objects.access_paths`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.objects.access_paths import Keys, word_of
from amplint.model.objects.key_parts import is_item, is_of_self, is_own_attribute, last_name, owner_of, variable_parts
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument, arguments
from amplint.model.syntax.ir import Assigned, Other, node_of, parameter_of
from amplint.model.syntax.queries import names_cuda
from amplint.model.syntax.scopes import NOTHING, UNKNOWN
from amplint.model.torch_facts.modules import RETURNS_ITSELF
from amplint.model.torch_facts.names import KEEPS_SCALER, SCALER, SCALER_METHODS, SCALERS

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.lazy_lowering import Piece

_MANY = 4096  # of as many names it is remembered what they say
_OPTIMIZER_NAME = re.compile(r"(?i)optim|^opt$|^opt_|_opt$")
# What is written where such a name is, where a scaler scales, and where something steps.
# Texts are searched for them: what starts with letters, and minds their case, is found ten times as fast.
_OPT = "[oO][pP][tT]"
_OPTIMIZERS = re.compile(rf"{_OPT}(?:[iI][mM]|(?<!\w{_OPT})(?:_|\b)|(?<=_{_OPT})\b)")
_SCALES = re.compile(r"scale\s*\(")
_STEPS = re.compile(r"step\s*\(")
_UPDATES = re.compile(r"update\s*\(")
# The keys of variables, and those of attributes as their class has them: how they are bound can be read.

# Names of what belongs to an optimizer, and is none: `optimizer_state`, `optim_cfg`, `opt_save_path`.
_OF_AN_OPTIMIZER = re.compile(
    r"(?i)(optim\w*|(^|_)opt)_(states?|state_?dicts?|config|cfg|conf|options|settings|(grouped_)?param(eter)?s|kwargs|args|"
    r"name|type|cls|class|(save_?)?(path|file|dir|p)|file_?(name|path)|level|ckpt|checkpoint|lr|index|idx|id)$"
)
# Names of flags and numbers, and of losses and options: `need_unscaled_optimizer`, `num_optimizers`, `loss_opt`.
_ABOUT_AN_OPTIMIZER = re.compile(
    r"(?i)^_?(is|has|uses?|needs?|should|must|do|skip|can|may|save|load|step|reset|num|n)_"
    r"|(^|_)(loss|losses|train|test|val|data|dataset|path|logger)_opt$"
)
# The methods of an optimizer; an engine of a framework, which is stepped as well, has others.
_OPTIMIZERS_OWN = {"add_param_group", "load_state_dict", "state_dict", "step", "zero_grad"}


class Made(NamedTuple):
    """A construction of a scaler, with its `enabled` argument."""

    call: ir.Call
    enabled: ir.Value | None


class _Bound(Enum):
    """How an optimizer comes to its key: made there by torch's class, passed in, taken from what a call returns, or
    chosen from several: an item, a loop's variable, an arm of a condition.
    """

    MADE = auto()
    GIVEN = auto()
    CALL = auto()
    CHOICE = auto()


@dataclass
class _Constructed:
    """What one object is made by: the classes of this file (None: something else), the names of all, and whether one
    of those is a class that is neither torch's scaler nor an optimizer.
    """

    instances: list[ir.Class | None] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    is_foreign: bool = False


_NOTHING_MADE = _Constructed()
# What a class that inherits the scaler's may not do in its own way, to count as torch's.
_PROTOCOL = ("unscale_", "step", "update")


class Objects(Keys):
    """The scalers and optimizers of one module."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._assigned: dict[int, dict[str, list[tuple[str, ir.Value]]]] = {}  # by piece
        self._constructed: dict[str, dict[str, _Constructed]] = {}  # last word of keys -> what they are made by
        self._functions: dict[str, ir.Function | None] = {}
        self.scalers: set[str] = set()
        self.library_scalers: set[str] = set()  # timm's NativeScaler and its like
        self.optimizers: set[str] = set()
        self.made: dict[str, list[Made]] = {}
        self.constructed: set[str] = set()  # optimizers that the file makes
        self.owns: dict[str, set[str]] = {}
        self._bounds: dict[str, _Bound] = {}  # optimizers -> how they are bound
        self._items: dict[str, bool] = {}  # optimizers -> whether they are items
        self.wraps: dict[str, set[str]] = {}  # optimizers that were made of others -> those
        self._read_constructions()
        self._read_uses()
        self._read_wrappers()

    def is_scaler(self, value: ir.Value) -> str | None:
        """The key of a value that is a GradScaler, by how it is made or used."""
        key = self.key(value)
        return key if key is not None and self.is_scalers(key) else None

    def is_scalers(self, key: str) -> bool:
        """Whether a key is one of a scaler."""
        return key in self.scalers or self.original(key) in self.scalers

    def may_call_library_scaler(self, call: ir.Call) -> bool:
        """Whether what is called is, or as a parameter may be, a scaler of timm's kind that the file makes."""
        func = call.func
        if not self.library_scalers or not call.args:
            return False
        if isinstance(func, ir.Name) and any(map(parameter_of, self._module.names.bindings(func))):
            return True
        return self.key(func) in self.library_scalers

    def asked_if_enabled(self, value: ir.Value) -> ir.Value | None:
        """The scaler that a value asks whether it is enabled: `scaler.is_enabled()`, or the attribute behind that."""
        asked = value.func if isinstance(value, ir.Call) else value
        name = "is_enabled" if isinstance(value, ir.Call) else "_enabled"
        if not isinstance(asked, ir.Attribute) or asked.attr != name or self.is_scaler(asked.base) is None:
            return None
        return asked.base

    def has_method(self, call: ir.Call) -> bool:
        """Whether a call asks a scaler for a method that each has: `hasattr(scaler, "unscale_")`."""
        given = call.positional
        if self._module.names.of(call.func) != {"builtins.hasattr"} or len(given) != 2:
            return False
        name = given[1].value if isinstance(given[1], ir.Constant) else None
        return name in SCALER_METHODS and self.is_scaler(given[0]) is not None

    def every_scaler(self) -> set[str]:
        """All keys of scalers, those too that a call context gave."""
        return self.scalers | {key for key, own in self._origins.items() if own in self.scalers}

    def made_by(self, key: str) -> list[Made]:
        """The constructions of a scaler in this file."""
        return self.made.get(key) or self.made.get(self.original(key), [])

    def is_for_cuda(self, key: str) -> bool:
        """Whether this file makes a scaler, and for cuda: by its device, by default, or by the old class."""
        devices = [scaler_arguments(self._module, each.call).get("device") for each in self.made_by(key)]
        return bool(devices) and all(each is None or names_cuda(each) for each in devices)

    def is_norm(self, value: ir.Value) -> bool:
        """Whether a value is what one of torch's clips returns: never None."""
        names = self._module.names.of(value.func) if isinstance(value, ir.Call) else frozenset()
        return bool(names) and all(name.startswith("torch.nn.utils.") for name in names)

    def classes_of(self, key: str | None) -> set[str]:
        """The names of what an object is made by."""
        return (self.classes(key) or self.classes(self.original(key))) if key is not None else set()

    def is_optimizer(self, value: ir.Value) -> str | None:
        """The key of a value that is an optimizer, by how it is made, used or called."""
        key = self.key(value)
        if key is None or self.is_scalers(key):
            return None
        if self.is_optimizers(key):
            return key
        return key if _is_called_optimizer(ir.last_name(value)) else None  # of an alias too

    def is_optimizers(self, key: str) -> bool:
        """Whether a key is one of an optimizer, by how it is made, stepped or called."""
        return _is_called_optimizer(last_name(key)) or key in self.optimizers or self.original(key) in self.optimizers

    def cleared(self, value: ir.Value) -> str | None:
        """The key of what a `zero_grad` clears: of the optimizer that a value wraps, where only that one is stepped."""
        key = self.key(value)
        if key is None or key in self.optimizers or self.original(key) in self.optimizers:
            return key
        wrapped = [each for each in self.optimizers if owner_of(each) == key and _is_called_optimizer(last_name(each))]
        return wrapped[0] if len(wrapped) == 1 else key

    def is_inside(self, optimizer: str, other: str) -> bool:
        """Whether an optimizer is one in an attribute of another one, `sam.base_optimizer`: they share gradients."""
        return owner_of(optimizer) == other and self.is_optimizers(other) and _is_called_optimizer(last_name(optimizer))

    def may_be_one(self, optimizer: str, other: str) -> bool:
        """Whether two keys of optimizers may name one object, going by how each is bound."""
        bound = self._bound_as(optimizer), self._bound_as(other)
        if _Bound.CHOICE in bound:
            # Two items of one container, by literals, are two; what comes from two containers can't be told.
            return not (is_item(optimizer) and is_item(other))
        if _Bound.CALL in bound:
            return _Bound.MADE in bound
        outer = {"." in key for key in (optimizer, other)}
        return _Bound.GIVEN in bound and len(outer) > 1  # `self.optimizer` may have been passed

    def is_item(self, key: str) -> bool:
        """Whether a key is one of an item, or of what a loop takes from its variable: in each round another object."""
        own = self.original(key)
        if own not in self._items:  # `group.optimizer`, `opt = group.get("optimizer")`
            self._items[own] = is_item(own) or any(map(self._is_of_a_loop, self._reads(own)))
        return self._items[own]

    def _reads(self, key: str) -> Iterator[ir.Value]:
        """What stands where an optimizer is used, or is assigned to its variable."""
        for value in self.with_key(self._module.whole.near(word_of(key)), key):
            if isinstance(value, (ir.Name, ir.Attribute)):
                yield from self.sources(value) if isinstance(value, ir.Name) else (value,)

    def _is_of_a_loop(self, value: ir.Value) -> bool:
        """Whether an attribute, an item or what a method gives is that of a variable which a loop binds.

        So is what is asked for by that variable: `getattr(self, name)`.
        """
        if isinstance(value, ir.Call) and self._module.names.of(value.func) == {"builtins.getattr"}:
            return len(value.positional) > 1 and self._is_bound_by_a_loop(value.positional[1])
        base = value.func if isinstance(value, ir.Call) else value
        if not isinstance(base, (ir.Attribute, ir.Subscript)):
            return False
        while isinstance(base, (ir.Attribute, ir.Subscript)):
            base = base.base
        return self._is_bound_by_a_loop(base)

    def _is_bound_by_a_loop(self, value: ir.Value) -> bool:
        bindings = self.bindings(value) if isinstance(value, ir.Name) else []
        return bool(bindings) and all(isinstance(each, Other) and _is_loops(each.node) for each in bindings)

    def _bound_as(self, key: str) -> _Bound:
        """How an optimizer comes to its key; of an instance's attribute it is asked as the class has it."""
        own = self.original(key)
        if key in self.constructed or is_own_attribute(key) or variable_parts(key) or variable_parts(own):
            own = key  # and not how a loop's variable, or a parameter, comes to be that one
        if own not in self._bounds:
            self._bounds[own] = self._find_bound(own)
        return self._bounds[own]

    def _find_bound(self, key: str) -> _Bound:
        if key in self.constructed:
            return _Bound.MADE
        if is_item(key):
            return _Bound.CHOICE
        found = _Bound.GIVEN
        for own, value in self._assigned_near(key):
            if own != key:
                continue
            if isinstance(value, ir.Call):
                fresh = bool(self.parameters_roots(value)) or is_of_self(key)
                found = found if fresh else _Bound.CALL
            elif isinstance(value, (ir.Conditional, ir.Bool, ir.Subscript)):
                return _Bound.CHOICE
        if self._is_rebound(key):
            return _Bound.CALL
        return _Bound.CHOICE if self._is_looped_over(key) else found

    def _is_looped_over(self, key: str) -> bool:
        """Whether a key is one of a loop's variable."""
        loops = (each for each in self._module.whole.near(word_of(key)).statements if isinstance(each, ir.For))
        targets = (value for each in loops for value in ir.walk_values(each.target) if isinstance(value, ir.Name))
        return any(self._raw(each) == key for each in targets)

    def _is_rebound(self, key: str) -> bool:
        """Whether a variable is bound by unpacking, or a parameter is bound again: it may be an object that has another
        key, as what a call was given and gives back.
        """
        bindings = self.bindings_of(key)
        others = [each.why for each in bindings if isinstance(each, Other)]
        return "assignment" in others or ("parameter" in others and len(bindings) > 1)

    def owned_by(self, root: str) -> set[str]:
        """The optimizers made of the parameters of the object `root`."""
        return {optimizer for optimizer, roots in self.owns.items() if root in roots}

    def parameters_roots(self, value: ir.Value) -> frozenset[str]:
        """The objects whose `parameters()` a value is made of, through lists, sums and variables bound once."""
        found: set[str] = set()
        for each in ir.walk_values(value):
            if isinstance(each, ir.Call) and isinstance(each.func, ir.Attribute):
                if each.func.attr in ("parameters", "named_parameters") and not each.positional:
                    found.add(self.key(each.func.base) or UNKNOWN)
        if isinstance(value, ir.Name):
            bindings = self.bindings(value)
            if len(bindings) == 1 and isinstance(bindings[0], Assigned):
                return self.parameters_roots(bindings[0].value)
        return frozenset(found)

    def _read_constructions(self) -> None:
        module = self._module
        for call in module.calls_of(*SCALERS):
            for key in self.assigned_to(call):
                self.scalers.add(key)
                self.made.setdefault(key, []).append(Made(call, scaler_arguments(module, call).get("enabled")))
        for call in module.calls_of(*KEEPS_SCALER):
            self.library_scalers.update(self.assigned_to(call))
        for call in module.calls_of("torch.optim.*"):
            names = module.names.of(call.func)
            if names & SCALERS or not any(map(_is_optimizers_class, names)):
                continue
            for key in self.stored_as(call):
                self.optimizers.add(key)
                self.constructed.add(key)
                params = argument(call, "torch.optim.Optimizer", "params")
                if params is not None and (roots := self.parameters_roots(params)):
                    self.owns.setdefault(key, set()).update(roots)

    def _construction(self, key: str) -> _Constructed:
        """What an object is made by, in whatever place."""
        word = word_of(key)
        if not word:
            return _NOTHING_MADE
        if word not in self._constructed:
            found = self._constructed[word] = dict[str, _Constructed]()
            for own, value in self._assigned_near(key):
                self._read_construction(found.setdefault(own, _Constructed()), value)
        return self._constructed[word].get(key, _NOTHING_MADE)

    def _assigned_near(self, key: str) -> Iterator[tuple[str, ir.Value]]:
        """What the file assigns to a key, and to others with the same last word."""
        word = word_of(key)
        for piece in self._module.whole.near(word).pieces:
            yield from self._assigned_in(piece).get(word, ())

    def _assigned_in(self, piece: Piece) -> dict[str, list[tuple[str, ir.Value]]]:
        """What a piece assigns, by the last word of the key, which is as the file has it, whatever the call context."""
        if piece.first_id not in self._assigned:
            found = self._assigned[piece.first_id] = dict[str, list[tuple[str, ir.Value]]]()
            for statement in piece.statements:
                if isinstance(statement, ir.Assign) and statement.value is not None:
                    for own in filter(None, map(self._raw, statement.targets)):
                        found.setdefault(word_of(own), []).append((own, statement.value))
        return self._assigned[piece.first_id]

    def _read_construction(self, made: _Constructed, value: ir.Value) -> None:
        if isinstance(value, ir.Conditional):
            self._read_construction(made, value.then)
            self._read_construction(made, value.other)
            return
        if ir.is_none(value):
            return  # `self.manager = None`, until there is one: no method of it runs before
        made_first = ir.before_calls(value, *RETURNS_ITSELF)  # `Net().cuda()` is a `Net`
        value = made_first if isinstance(made_first, ir.Call) else value
        cls = self._local_class(value.func) if isinstance(value, ir.Call) else None
        made.instances.append(cls)
        if isinstance(value, ir.Call):
            names = self._module.names.of(value.func)
            made.names.update(names)
            if not names & SCALERS and not any(map(_is_optimizers_class, names)):
                # Another class, in sight or imported: a scaler of its own kind, if one at all.
                foreign = not names & {UNKNOWN, NOTHING} and any(map(_is_class, names))
                made.is_foreign |= foreign and not (cls is not None and self._works_as_torchs(cls))

    def _works_as_torchs(self, cls: ir.Class, depth: int = 4) -> bool:
        """Whether a class inherits torch's scaler, and unscales, steps and updates as that does."""
        if any(isinstance(each, ir.Function) and each.name in _PROTOCOL for each in cls.body.statements):
            return False
        parents = (self._local_class(each.value) for each in cls.bases)
        return any(self._module.names.of(each.value) & SCALERS for each in cls.bases) or any(
            parent is not None and depth > 0 and self._works_as_torchs(parent, depth - 1) for parent in parents
        )

    def instance(self, key: str) -> ir.Class | None:
        """The class of this file that an object is made by; None where that is another, or several."""
        instances = self._construction(key).instances
        return instances[0] if instances and all(each is instances[0] for each in instances) else None

    def classes(self, key: str) -> set[str]:
        """The names of what an object is made by."""
        return self._construction(key).names

    def function(self, key: str) -> ir.Function | None:
        """The function of this file that a key stands for, where nothing else is bound to the name."""
        if key not in self._functions:
            name = (variable_parts(key) or (0, ""))[1]
            self._functions[key] = next(
                (
                    each
                    for each in self._module.whole.defined(name)
                    if (scope := each.scope.parent) is not None and scope.kind != "class"
                    if len(scope.bindings.get(name, ())) == 1 and self.raw_variable(scope, name) == key
                ),
                None,
            )
        return self._functions[key]

    def _read_uses(self) -> None:
        whole = self._module.whole
        near = (whole.near("unscale_", _SCALES, _STEPS), whole.near("caler").near(_UPDATES))
        calls = {
            each.id: each for nodes in near for each in nodes.calls if isinstance(each.func, ir.Attribute)
        }.values()
        for call in calls:
            assert isinstance(call.func, ir.Attribute)
            receiver, key = call.func.base, self._scaler_by_use(call, call.func)
            if key is not None and not self._construction(key).is_foreign and not self._is_module(receiver):
                self.scalers.add(key)
        for call in calls:
            assert isinstance(call.func, ir.Attribute)
            if call.func.attr in ("unscale_", "step") and self.is_scaler(call.func.base):
                optimizer = argument(call, f"{SCALER}.step", "optimizer")
                if optimizer is not None and (key := self.key(optimizer)) is not None:
                    self.optimizers.add(key)
        self.optimizers |= self._stepped_and_cleared(calls)

    def _stepped_and_cleared(self, calls: Iterable[ir.Call]) -> set[str]:
        """The parameters, and variables of loops, that are used as only an optimizer is: stepped without arguments, and
        cleared.
        """
        stepped = {self._given(each.func) for each in calls if ir.last_name(each.func) == "step" and not each.args}
        stepped -= {None}
        words = sorted(word_of(key) for key in stepped if key is not None)
        used: dict[str | None, set[str]] = {}
        for call in self._module.whole.near(*words).calls if words else ():
            used.setdefault(self._given(call.func), set()).add(ir.last_name(call.func))
        return {
            key
            for key in stepped
            if key is not None and used.get(key, set()) <= _OPTIMIZERS_OWN and "zero_grad" in used[key]
        }

    def _given(self, func: ir.Value) -> str | None:
        """The key of the parameter, or of the variable of a loop, whose method a function is."""
        base = func.base if isinstance(func, ir.Attribute) else None
        if not isinstance(base, ir.Name):
            return None
        nodes = [node_of(each) for each in self.bindings(base)]
        is_given = all(isinstance(each, ir.Function) or ir.loop_of_target(each) is not None for each in nodes)
        return self.own_key(base) if is_given else None

    def _scaler_by_use(self, call: ir.Call, func: ir.Attribute) -> str | None:
        """The key of what has a method called as only a scaler's is."""
        if func.attr not in ("unscale_", "scale", "step", "update"):
            return None
        key = self.key(func.base)
        named = key is not None and "scaler" in last_name(key).lower()
        backward = isinstance(call.parent, ir.Attribute) and call.parent.attr == "backward"
        used = (
            func.attr == "unscale_"
            or (func.attr == "scale" and (backward or named) and len(call.args) == 1)
            or (func.attr == "step" and named and call.positional)
            or (func.attr == "update" and named and not call.args)
        )
        return key if used else None

    def _read_wrappers(self) -> None:
        words = {word_of(key) for key in self.optimizers}
        for statement in self._module.whole.near(_OPTIMIZERS, *sorted(words)).statements:
            value = statement.value if isinstance(statement, ir.Assign) else None
            if not isinstance(statement, ir.Assign) or not isinstance(value, ir.Call):
                continue
            inner = {key for each in given(value) if (key := self.is_optimizer(each)) is not None}
            for target in statement.targets if inner else ():
                key = self.key(target)
                if key is not None and self.is_optimizers(key) and key not in inner:
                    self.wraps.setdefault(key, set()).update(inner)

    def _is_module(self, value: ir.Value) -> bool:
        return bool(self._module.names.of(value) - {UNKNOWN, NOTHING})


def scaler_arguments(module: Module, call: ir.Call) -> dict[str, ir.Value]:
    """What a construction of a scaler is given, by the parameters' names, as far as it is in sight."""
    classes = module.names.of(call.func) & SCALERS
    # Where the class is the old one or the new one, a place means one thing or another.
    return arguments(call, min(classes)) if len(classes) == 1 else call.keywords


def given(call: ir.Call) -> Iterator[ir.Value]:
    """The values that a call is given, those in displays among its arguments too."""
    todo = [arg.value for arg in call.args]
    while todo:
        value = todo.pop()
        if isinstance(value, (ir.Sequence, ir.Mapping, ir.Starred, ir.Conditional)):
            todo += value.children()
        else:
            yield value


def _is_loops(target: ir.Node | None) -> bool:
    """Whether a variable is a loop's, by itself or among others."""
    up = target.parent if target is not None else None
    while isinstance(up, ir.Sequence):
        up = up.parent
    return isinstance(up, ir.For)


@lru_cache(maxsize=_MANY)
def _is_called_optimizer(name: str) -> bool:
    """Whether a name is one of an optimizer."""
    if not _OPTIMIZER_NAME.search(name) or "sched" in name.lower():
        return False
    return not _OF_AN_OPTIMIZER.search(name) and not _ABOUT_AN_OPTIMIZER.search(name)


def _is_optimizers_class(name: str) -> bool:
    return name.startswith("torch.optim.") and not any(each in name for each in (".lr_scheduler", ".swa_utils"))


def _is_class(name: str) -> bool:
    """Whether a qualified name is one of a class, going by its spelling."""
    last = name.rpartition(".")[2].lstrip("_")
    return last[:1].isupper()


def objects(module: Module) -> Objects:
    """The module's scalers and optimizers."""
    return module.once(Objects)
