"""Reader 2: which values are scalers and optimizers, and what an optimizer owns.

An object is known by a *key*: where it is kept (`self.scaler`, a variable of one scope), aliases followed while a
name has one binding. Two keys are taken for two objects, one key for one object. While flow analysis follows a call,
`frame` says what the callee's parameters and `self` are for the caller: keys are the caller's there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from amplint.model import ir
from amplint.model.dtypes import OLD_SCALER, SCALER
from amplint.model.frames import Frame
from amplint.model.scopes import NOTHING, UNKNOWN, Assigned, Binding, Imported, Other, Scope, owner_class

if TYPE_CHECKING:
    from amplint.model import Module

SCALERS = {SCALER, *OLD_SCALER, "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"}
_OPTIMIZER_NAME = re.compile(r"(?i)optim|^opt$|^opt_|_opt$")
# What is written where such a name is, where a scaler scales, and where something steps.
# Texts are searched for them: what starts with letters, and minds their case, is found ten times as fast.
_OPT = "[oO][pP][tT]"
_OPTIMIZERS = re.compile(rf"{_OPT}(?:[iI][mM]|(?<!\w{_OPT})(?:_|\b)|(?<=_{_OPT})\b)")
_SCALES = re.compile(r"scale\s*\(")
_STEPS = re.compile(r"step\s*\(")
_UPDATES = re.compile(r"update\s*\(")
_WORD = re.compile(r"[^\W\d]\w*")
_FOLLOW = 5


class Made(NamedTuple):
    """A construction of a scaler, with its `enabled` argument."""

    call: ir.Call
    enabled: ir.Value | None


@dataclass
class _Constructed:
    """What one object is made by: the classes of this file (None: something else), the names of all, and whether one
    of those is a class that is neither torch's scaler nor an optimizer.
    """

    instances: list[ir.Class | None] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    is_foreign: bool = False


_NOTHING_MADE = _Constructed()


class Objects:
    """The scalers and optimizers of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.frame = Frame()
        self._origins: dict[str, str] = {}  # keys that a frame gave -> as the callee has them
        self._scopes: dict[int, int] = {}
        self._keys: dict[int, str | None] = {}
        self._kept_by: dict[int, dict[str, str]] = {}  # constructor -> what it keeps, see `_kept`
        self._constructed: dict[str, dict[str, _Constructed]] = {}  # last word of keys -> what they are made by
        self._functions: dict[str, ir.Function | None] = {}
        self.scalers: set[str] = set()
        self.optimizers: set[str] = set()
        self.made: dict[str, list[Made]] = {}
        self.constructed: set[str] = set()  # optimizers that the file makes
        self.owns: dict[str, set[str]] = {}
        self.wraps: dict[str, set[str]] = {}  # optimizers that were made of others -> those
        self._read_constructions()
        self._read_uses()
        self._read_wrappers()

    @contextmanager
    def within(self, frame: Frame) -> Iterator[None]:
        """A context in which keys are those of a frame; with an empty one they are the file's own."""
        before, self.frame = self.frame, frame
        try:
            yield
        finally:
            self.frame = before

    # --- keys -------------------------------------------------------------------------------------------------------

    def key(self, value: ir.Value) -> str | None:
        """The key of the object that a value is; None where it is no name, attribute or fixed item."""
        return self._translated(self._raw(value))

    def _translated(self, key: str | None) -> str | None:
        """A key as the frame has it; which it was is remembered, for the roles."""
        if key is None or not self.frame.aliases:
            return key
        found = self.frame.translate(key)
        if found != key:
            self._origins.setdefault(found, key)
        return found

    def original(self, key: str) -> str:
        """The key as the function has it in which the object was first met."""
        return self._origins.get(key, key)

    def _raw(self, value: ir.Value, depth: int = _FOLLOW) -> str | None:
        if depth < _FOLLOW:
            return self._find_key(value, depth)
        if value.id not in self._keys:
            self._keys[value.id] = None  # what is made of itself has none
            self._keys[value.id] = self._find_key(value, depth)
        return self._keys[value.id]

    def _find_key(self, value: ir.Value, depth: int) -> str | None:
        if isinstance(value, ir.Name):
            return self._name_key(value, depth)
        if isinstance(value, ir.Attribute):
            cls = owner_class(value)
            base = f"self{cls.id}" if cls is not None else self._raw(value.base, depth)
            owner = cls if cls is not None or not isinstance(value.base, ir.Name) else self._class_of(value.base)
            attr = self._property(owner, value.attr) if owner is not None else value.attr
            return f"{base}.{attr}" if base is not None else None
        if isinstance(value, ir.Subscript):
            base, index = self._raw(value.base, depth), self._rendered(value.index)
            return f"{base}[{index}]" if base is not None and index is not None else None
        if (
            isinstance(value, ir.Call)
            and self._module.names.of(value.func) == {"builtins.getattr"}
            and len(value.positional) >= 2
        ):
            base, name = self._raw(value.positional[0], depth), self._rendered(value.positional[1])
            return f"{base}.getattr({name})" if base is not None and name is not None else None
        return None

    def _class_of(self, value: ir.Name) -> ir.Class | None:
        """The class of this file that a variable is an instance of, where it is bound once."""
        bindings = self.bindings(value)
        made = bindings[0].value if len(bindings) == 1 and isinstance(bindings[0], Assigned) else None
        return self._local_class(made.func) if isinstance(made, ir.Call) else None

    def _property(self, cls: ir.Class, attr: str) -> str:
        """The attribute that a property of that name returns, if it does nothing else."""
        for each in cls.body.statements:
            if isinstance(each, ir.Function) and each.name == attr and each.decorators:
                names = self._module.names.of(each.decorators[0])
                last = each.body.statements[-1]
                value = last.value if isinstance(last, ir.Return) and len(each.body.statements) <= 2 else None
                if names == {"builtins.property"} and isinstance(value, ir.Attribute) and owner_class(value) is cls:
                    return value.attr
        return attr

    def own_key(self, value: ir.Name) -> str:
        """The key of a variable itself, aliases not followed."""
        return self.variable(value.scope, value.name)

    def variable(self, scope: Scope, name: str) -> str:
        """The key of the variable that `name` is in a scope."""
        key = self.raw_variable(scope, name)
        return self._translated(key) or key

    def raw_variable(self, scope: Scope, name: str) -> str:
        """The same, whatever the frame."""
        home = scope.home(name)
        return f"{self._number(home)}:{name}" if home is not None else name

    def kept(self, function: ir.Function, name: str) -> str | None:
        """The attribute's name in which a constructor keeps a parameter."""
        key = self._kept(function.scope, name)
        return key.partition(".")[2] if key is not None else None

    def _kept(self, scope: Scope, name: str) -> str | None:
        """The key of the attribute in which a constructor keeps a parameter as it is."""
        parameters = (each.node for each in scope.bindings.get(name, ()) if isinstance(each, Other))
        function = next((each for each in parameters if isinstance(each, ir.Function)), None)
        if function is None or function.name != "__init__" or function.cls is None:
            return None
        if function.id not in self._kept_by:
            self._kept_by[function.id] = _kept_parameters(function, function.cls)
        return self._kept_by[function.id].get(name)

    def prefix(self, scope: Scope) -> str:
        """How the keys of a scope's own variables begin."""
        return f"{self._number(scope)}:"

    def bindings(self, value: ir.Name) -> list[Binding]:
        """What binds a variable."""
        return self._module.names.bindings(value)

    def sources(self, value: ir.Name | ir.Attribute) -> Sequence[ir.Value]:
        """The values that are assigned to a variable, or stored in an attribute of the enclosing class."""
        if isinstance(value, ir.Attribute):
            return [each for each in self._module.names.stored(value) if each is not None]
        return [each.value for each in self._module.names.bindings(value) if isinstance(each, Assigned)]

    def names_in(self, value: ir.Value) -> set[str]:
        """The keys of the variables and attributes that a value is made of."""
        return {
            key
            for each in ir.walk_values(value)
            if (key := self.own_key(each) if isinstance(each, ir.Name) else self.key(each)) is not None
        }

    def assigned_in(self, statement: ir.Statement, flags: bool = True) -> list[str]:
        """The keys of the variables and attributes that a compound statement assigns, nested functions left out.

        Without `flags` also those left out that are only ever set to literals or negated.
        """
        found: dict[str, None] = {}
        for each in (statement, *(s for block in statement.blocks() for s in ir.walk_statements(block, into=False))):
            for value in self._bound_by(each):
                if not flags and isinstance(value, ir.Name) and self._is_flag(value):
                    continue
                key = self.own_key(value) if isinstance(value, ir.Name) else self.key(value)
                if key is not None:
                    found[key] = None
        return list(found)

    def _is_flag(self, value: ir.Name) -> bool:
        sources = [each.value for each in self.bindings(value) if isinstance(each, Assigned)]
        return bool(sources) and all(
            isinstance(each, ir.Constant) or (isinstance(each, ir.Unary) and each.op == "Not") for each in sources
        )

    @staticmethod
    def _bound_by(statement: ir.Statement) -> Sequence[ir.Value]:
        targets: list[ir.Value] = []
        if isinstance(statement, ir.Assign):
            targets += statement.targets
        elif isinstance(statement, (ir.AugAssign, ir.For)):
            targets.append(statement.target)
        elif isinstance(statement, ir.With):
            targets += [item.target for item in statement.items if item.target is not None]
        flat = [value for target in targets for value in ir.walk_values(target)]
        walrus = [
            each.target for value in statement.values() for each in ir.walk_values(value) if isinstance(each, ir.Walrus)
        ]
        return [
            each for each in flat if isinstance(each, ir.Attribute) or (isinstance(each, ir.Name) and each.bound)
        ] + list(walrus)

    def _name_key(self, value: ir.Name, depth: int) -> str:
        home = value.scope.home(value.name)
        if home is not None and (kept := self._kept(home, value.name)) is not None:
            return kept
        bindings = home.bindings[value.name] if home is not None else []
        what = self._module.names.definition(value) if bindings and isinstance(bindings[0], Imported) else None
        if isinstance(what, ir.Function) and what.scope.parent is not None:
            return self.raw_variable(what.scope.parent, what.name)
        if depth and len(bindings) == 1 and isinstance(bindings[0], Assigned):
            aliased = bindings[0].value
            if isinstance(aliased, (ir.Name, ir.Attribute, ir.Subscript, ir.Call)):
                key = self._raw(aliased, depth - 1)
                if key is not None:
                    return key
        return self.raw_variable(value.scope, value.name)

    def _number(self, scope: Scope) -> int:
        return self._scopes.setdefault(id(scope), len(self._scopes))

    def render(self, value: ir.Value) -> str | None:
        """A test or index as text that is the same for the same names and values; None where that can't be told."""
        return self._translated(self._rendered(value))

    def _rendered(self, value: ir.Value) -> str | None:
        if isinstance(value, ir.Constant):
            return repr(value.value)
        if isinstance(value, (ir.Name, ir.Attribute, ir.Subscript)):
            return self._raw(value)
        if isinstance(value, ir.Call) and not value.unpacks("*") and not value.unpacks("**"):
            func = self._raw(value.func)
            given = [self._rendered(arg.value) for arg in value.args]
            if func is None or None in given:
                return None
            return f"call({func};{','.join(str(each) for each in given)})"
        parts = [self._rendered(child) for child in value.children()]
        if any(part is None for part in parts):
            return None
        if isinstance(value, (ir.Unary, ir.Binary, ir.Bool)):
            return f"{value.op}({','.join(str(part) for part in parts)})"
        if isinstance(value, ir.Compare):
            return f"{','.join(value.ops)}({','.join(str(part) for part in parts)})"
        if isinstance(value, (ir.Sequence, ir.FString)):
            return f"({','.join(str(part) for part in parts)})"
        return None

    # --- roles ------------------------------------------------------------------------------------------------------

    def is_scaler(self, value: ir.Value) -> str | None:
        """The key of a value that is a GradScaler, by how it is made or used."""
        key = self.key(value)
        return key if key is not None and self.is_scalers(key) else None

    def is_scalers(self, key: str) -> bool:
        """Whether a key is one of a scaler."""
        return key in self.scalers or self.original(key) in self.scalers

    def every_scaler(self) -> set[str]:
        """All keys of scalers, those too that a frame gave."""
        return self.scalers | {key for key, own in self._origins.items() if own in self.scalers}

    def made_by(self, key: str) -> list[Made]:
        """The constructions of a scaler in this file."""
        return self.made.get(key) or self.made.get(self.original(key), [])

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
        last = ir.last_name(value)  # of an alias too
        return key if _OPTIMIZER_NAME.search(last) and "sched" not in last.lower() else None

    def is_optimizers(self, key: str) -> bool:
        """Whether a key is one of an optimizer, by how it is made, stepped or called."""
        last = re.split(r"[.:\[]", key)[-1]
        named = bool(_OPTIMIZER_NAME.search(last)) and "sched" not in last.lower()
        return named or key in self.optimizers or self.original(key) in self.optimizers

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

    def assigned_to(self, value: ir.Value) -> Iterator[str]:
        """The keys of what a value is assigned to, where it is all of it or an arm of a conditional."""
        node: ir.Value = value
        while isinstance(node.parent, ir.Conditional) and node is not node.parent.test:
            node = node.parent
        statement = node.parent
        for target in statement.targets if isinstance(statement, ir.Assign) and statement.value is node else ():
            key = self.key(target)
            if key is not None:
                yield key

    def _read_constructions(self) -> None:
        module = self._module
        for call in module.calls_of(*SCALERS):
            for key in self.assigned_to(call):
                self.scalers.add(key)
                self.made.setdefault(key, []).append(Made(call, call.keyword("enabled")))
        for call in module.calls_of("torch.optim.*"):
            names = module.names.of(call.func)
            if names & SCALERS or not any(map(_is_optimizers_class, names)):
                continue
            for key in self.assigned_to(call):
                self.optimizers.add(key)
                self.constructed.add(key)
                given = call.positional[0] if call.positional else call.keyword("params")
                if given is not None and (roots := self.parameters_roots(given)):
                    self.owns.setdefault(key, set()).update(roots)

    def _construction(self, key: str) -> _Constructed:
        """What an object is made by, in whatever place."""
        word = word_of(key)
        if not word:
            return _NOTHING_MADE
        if word not in self._constructed:
            found = self._constructed[word] = dict[str, _Constructed]()
            for statement in self._module.whole.near(word).statements:
                if isinstance(statement, ir.Assign) and statement.value is not None:
                    for target in statement.targets:
                        # As the file has it, whatever the frame.
                        own = self._raw(target)
                        if own is not None and word_of(own) == word:
                            self._read_construction(found.setdefault(own, _Constructed()), statement.value)
        return self._constructed[word].get(key, _NOTHING_MADE)

    def _read_construction(self, made: _Constructed, value: ir.Value) -> None:
        if isinstance(value, ir.Conditional):
            self._read_construction(made, value.then)
            self._read_construction(made, value.other)
            return
        cls = self._local_class(value.func) if isinstance(value, ir.Call) else None
        made.instances.append(cls)
        if isinstance(value, ir.Call):
            names = self._module.names.of(value.func)
            made.names.update(names)
            if not names & SCALERS and not any(map(_is_optimizers_class, names)):
                # Another class, in sight or imported: a scaler of its own kind, if one at all.
                made.is_foreign |= not names & {UNKNOWN, NOTHING} and any(map(_is_class, names))

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
            name = key.partition(":")[2]
            self._functions[key] = next(
                (
                    each
                    for each in (self._module.whole.near(name).functions if name.isidentifier() else ())
                    if each.name == name and (scope := each.scope.parent) is not None and scope.kind != "class"
                    if len(scope.bindings.get(name, ())) == 1 and self.raw_variable(scope, name) == key
                ),
                None,
            )
        return self._functions[key]

    def _local_class(self, func: ir.Value) -> ir.Class | None:
        found = self._module.names.definition(func)
        return found if isinstance(found, ir.Class) else None

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
            if call.func.attr in ("unscale_", "step") and call.positional and self.is_scaler(call.func.base):
                if (optimizer := self.key(call.positional[0])) is not None:
                    self.optimizers.add(optimizer)

    def _scaler_by_use(self, call: ir.Call, func: ir.Attribute) -> str | None:
        """The key of what has a method called as only a scaler's is."""
        if func.attr not in ("unscale_", "scale", "step", "update"):
            return None
        key = self.key(func.base)
        named = key is not None and any("scaler" in key.rpartition(sign)[2].lower() for sign in ".:")
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


def _kept_parameters(function: ir.Function, cls: ir.Class) -> dict[str, str]:
    """The parameters that a constructor keeps in an attribute as they are, and the attributes' keys."""
    found = {}
    for statement in function.body.statements:
        value = statement.value if isinstance(statement, ir.Assign) else None
        if not isinstance(statement, ir.Assign) or not isinstance(value, ir.Name):
            continue
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ir.Attribute) or owner_class(target) is not cls:
            continue
        once = len(function.scope.bindings.get(value.name, ())) == 1 and len(cls.stored(target.attr)) == 1
        if once and any(param.name == value.name for param in function.params[1:]):
            found[value.name] = f"self{cls.id}.{target.attr}"
    return found


def given(call: ir.Call) -> Iterator[ir.Value]:
    """The values that a call is given, those in displays among its arguments too."""
    todo = [arg.value for arg in call.args]
    while todo:
        value = todo.pop()
        if isinstance(value, (ir.Sequence, ir.Mapping, ir.Starred, ir.Conditional)):
            todo += value.children()
        else:
            yield value


@lru_cache(maxsize=4096)
def word_of(key: str) -> str:
    """The word that is written wherever the object of a key is named."""
    words = _WORD.findall(key)
    return words[-1] if words else ""


def _is_optimizers_class(name: str) -> bool:
    return name.startswith("torch.optim.") and ".lr_scheduler" not in name


def _is_class(name: str) -> bool:
    """Whether a qualified name is one of a class, going by its spelling."""
    last = name.rpartition(".")[2].lstrip("_")
    return last[:1].isupper()


def objects(module: Module) -> Objects:
    """The module's scalers and optimizers."""
    return module.once(Objects)
