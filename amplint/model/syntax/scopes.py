"""Names: which scope binds them to what, resolved after the walk to *sets* of qualified names.

A function's body runs after its module, imports stand in both arms of a try, names are bound twice; so a name has a set
of meanings, and a rule decides whether all or some of them count. Order within a scope is ignored.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding, Defined, Imported, Scope

UNKNOWN = "?"
NOTHING = "None"
UNBOUND = "!"
LOCAL = "."

# The modules that define what the packages that they stand in have as well.
DEFINED_IN = {
    "torch.amp.autocast_mode": ("autocast", "custom_bwd", "custom_fwd", "is_autocast_available"),
    "torch.amp.grad_scaler": ("GradScaler",),
    "torch.cuda.amp.autocast_mode": ("autocast", "custom_bwd", "custom_fwd"),
    "torch.cuda.amp.common": ("amp_definitely_not_available",),
    "torch.cuda.amp.grad_scaler": ("GradScaler",),
    "torch.cpu.amp.autocast_mode": ("autocast",),
    "torch.cpu.amp.grad_scaler": ("GradScaler",),
    "torch.nn.utils.clip_grad": ("clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"),
    "timm.utils.agc": ("adaptive_clip_grad",),
    "timm.utils.clip_grad": ("dispatch_clip_grad",),
}

# The same object under several names; the first is the one that rules speak of.
_SAME = {
    "torch.autocast": "torch.amp.autocast",
    "torch.GradScaler": "torch.amp.GradScaler",
    **{f"{home}.{name}": f"{home.rpartition('.')[0]}.{name}" for home, names in DEFINED_IN.items() for name in names},
}

# What a star import of these modules binds (their `__all__`).
STAR_EXPORTS = {
    "torch.cuda.amp": ("GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"),
    "torch.cpu.amp": ("GradScaler", "autocast"),
    "torch.amp": ("GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"),
    **DEFINED_IN,
}

# The modules of torch that a function may give, or something else where torch isn't installed.
_OF_TORCH = frozenset(("torch", "torch.amp", "torch.cuda.amp", "torch.nn", "torch.nn.functional", "torch.optim"))
# What imports a module by its name.
_IMPORTERS = frozenset(("importlib.import_module", "builtins.__import__", "pytest.importorskip", "sys.modules.get"))

# Functions of Python that no star import replaces. (Torch's gives `float`, a dtype, which nothing calls.)
_NEVER_GIVEN = ("getattr", "hasattr", "isinstance", "float", "int", "len", "range", "enumerate", "zip", "str", "repr")


def canonical(name: str) -> str:
    """The one name that rules use for an object of torch."""
    return _SAME.get(name, name)


class Names:
    """Resolves the values of one module; remembers what it has resolved."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], frozenset[str]] = {}
        self._partial: dict[tuple[int, str], frozenset[str]] = {}  # what was found for who asks for more
        self._attributes: dict[int, frozenset[str]] = {}
        self._active: set[tuple[int, str]] = set()
        self._called: set[int] = set()  # calls of which is asked what they give
        self._cut = 0  # how often that led back to one of them

    def of(self, value: ir.Value) -> frozenset[str]:
        """The qualified names that `value` can stand for.

        Besides dotted names: `UNKNOWN` for what can't be followed, `NOTHING` for None, True and False, `LOCAL` + name
        for what the file defines itself, `UNBOUND` + name for a name that is bound nowhere in the file.
        """
        if isinstance(value, ir.Name):
            return self._of_name(value.name, value.scope)
        if isinstance(value, ir.Attribute):
            known = self._attributes.get(value.id)
            if known is None:
                cut = self._cut
                known = self._of_module(value)
                known = known or frozenset(_join(base, value.attr) for base in self.of(value.base))
                known |= self._of_self(value)
                if not self._active and self._cut == cut:  # within a cycle the answer is not yet whole
                    self._attributes[value.id] = known
            return known
        if isinstance(value, ir.Conditional):
            return self.of(value.then) | self.of(value.other)
        if isinstance(value, ir.Bool):
            return self.of(value.left) | self.of(value.right)
        if isinstance(value, (ir.Walrus, ir.Quoted)):
            return self.of(value.value)
        if isinstance(value, ir.Constant) and (value.value is None or isinstance(value.value, bool)):
            return frozenset((NOTHING,))
        found = self._of_call(value) if isinstance(value, ir.Call) else None
        return found or frozenset((UNKNOWN,))

    def only(self, value: ir.Value) -> str | None:
        """The one qualified name that `value` stands for, a fallback to None aside; else None."""
        names = self.of(value) - {NOTHING}
        return next(iter(names)) if len(names) == 1 else None

    def bindings(self, name: ir.Name) -> list[Binding]:
        """The bindings that a read of `name` can see; empty where there is none in the file."""
        home = name.scope.home(name.name)
        return home.bindings[name.name] if home is not None else []

    def only_binding(self, name: ir.Name) -> Binding | None:
        """The one binding that a read of `name` can see."""
        bindings = self.bindings(name)
        return bindings[0] if len(bindings) == 1 else None

    def bound_once(self, name: ir.Name) -> Assigned | None:
        """The assignment that binds a variable, where nothing else ever does."""
        only = self.only_binding(name)
        return only if isinstance(only, Assigned) else None

    def is_passed_on(self, value: ir.Value) -> bool:
        """Whether a name stands for what another file of the project imports and passes on."""
        root = ir.root(value)
        bindings = self.bindings(root) if isinstance(root, ir.Name) else ()
        return any(isinstance(each, Imported) and (each.passed_on or each.passes_on) for each in bindings)

    def definition(self, value: ir.Value, depth: int = 2) -> ir.Function | ir.Class | None:
        """The function or class that a name, or a module's attribute, surely stands for; those of other files too.

        A compiled function is the function; `depth` bounds how often it is compiled.
        """
        if isinstance(value, ir.Name):
            bindings = [each for each in self.bindings(value) if self._compiled(each) != value.name]
            found = [each.what if isinstance(each, (Defined, Imported)) else None for each in bindings]
            made = bindings[0] if len(bindings) == 1 else None
            if isinstance(made, Assigned) and isinstance(made.value, ir.Call) and self._compiled(made) is not None:
                return self.definition(made.value.positional[0], depth - 1) if depth else None
        elif isinstance(value, ir.Attribute) and isinstance(value.base, ir.Name):
            modules = self.bindings(value.base)
            found = [each.members.get(value.attr) if isinstance(each, Imported) else None for each in modules]
        else:
            return None
        only = found[0] if found and all(each is found[0] for each in found) else None
        return only if not isinstance(only, Assigned) else None

    def _compiled(self, binding: Binding) -> str | None:
        """The name of what a variable holds that `torch.compile` has compiled: it computes the same."""
        made = binding.value if isinstance(binding, Assigned) else None
        if not isinstance(made, ir.Call) or not made.positional or ir.last_name(made.func) != "compile":
            return None
        inner = made.positional[0]
        return inner.name if isinstance(inner, ir.Name) and self.of(made.func) == {"torch.compile"} else None

    def imported_constant(self, value: ir.Name | ir.Attribute) -> ir.Value | None:
        """What another file of the project sets a name to that is imported, or a module's attribute."""
        name = value.base if isinstance(value, ir.Attribute) else value
        only = self.only_binding(name) if isinstance(name, ir.Name) else None
        if not isinstance(only, Imported):
            return None
        found = only.members.get(value.attr) if isinstance(value, ir.Attribute) else only.what
        return found.value if isinstance(found, Assigned) else None

    def _of_name(self, name: str, scope: Scope) -> frozenset[str]:
        home = scope.home(name)
        if home is None:
            return self._of_unbound(name, scope.module)
        key = (id(home), name)
        for known in (self._known, self._partial):
            if key in known:
                return known[key]
        if key in self._active:
            return frozenset()  # `x = x or y`: the other bindings decide
        self._active.add(key)
        found: set[str] = set()
        for binding in home.bindings[name]:
            found |= self._of_binding(binding, name)
        self._active.discard(key)
        result = frozenset(found)
        if self._active:
            # In a cycle what is missing here is added further out: whole is the outermost answer only.
            self._partial[key] = result
        else:
            self._partial.clear()
            self._known[key] = result = result or frozenset((UNKNOWN,))
        return result

    def _of_binding(self, binding: Binding, name: str) -> frozenset[str]:
        if isinstance(binding, Imported):
            return binding.passed_on or frozenset((canonical(binding.name),))
        if isinstance(binding, Assigned):
            return self.of(binding.value)
        if isinstance(binding, Defined):
            return frozenset((LOCAL + name,))
        return self._of_unpacked(binding) or frozenset((UNKNOWN,))

    def _of_unpacked(self, binding: Binding) -> frozenset[str]:
        """What a function of the program imports and returns with others: `torch, np = lazy_imports()`."""
        target = binding.node if isinstance(binding, ir.Other) else None
        display = target.parent if isinstance(target, ir.Name) else None
        assign = display.parent if isinstance(display, ir.Sequence) and not display.unpacks() else None
        call = assign.value if isinstance(assign, ir.Assign) else None
        if not isinstance(display, ir.Sequence) or not isinstance(call, ir.Call):
            return frozenset()
        return self._of_call(call, next(n for n, each in enumerate(display.items) if each is target))

    def _of_unbound(self, name: str, module: Scope) -> frozenset[str]:
        found = {
            canonical(f"{star.module}.{name}")
            for star in module.stars
            if name in STAR_EXPORTS.get(star.module or "", ())
        }
        if any(star.module not in STAR_EXPORTS for star in module.stars):
            # fastai's star import gives torch, say; numpy's gives `max`.
            found.add("torch" if name == "torch" else f"builtins.{name}" if name in _NEVER_GIVEN else UNKNOWN)
        if not found:
            # An interactive Python that runs amplint keeps its last answer there.
            known = hasattr(builtins, name) and name != "_"
            found.add(f"builtins.{name}" if known else UNBOUND + name)
        return frozenset(found)

    def _of_module(self, value: ir.Attribute) -> frozenset[str]:
        """The qualified names of what a module of the project passes on, as another file writes it."""
        only = self.only_binding(value.base) if isinstance(value.base, ir.Name) else None
        return only.passes_on.get(value.attr, frozenset()) if isinstance(only, Imported) else frozenset()

    def _of_call(self, call: ir.Call, place: int | None = None) -> frozenset[str]:
        """What a function of the program imports and returns (`torch = lazy_torch()`); empty: it does more.

        `place`: of what is returned in a tuple, the only item that counts.
        """
        if call.id in self._called:
            self._cut += 1
            return frozenset()  # a function that returns what it returns itself
        self._called.add(call.id)
        try:
            if place is None and (named := self._imported(call)):
                return named
            function = self.definition(call.func)
            if not isinstance(function, ir.Function) or function.is_generator or function.is_async:
                return frozenset()
            returns = (each for each in ir.walk_statements(function.body, into=False) if isinstance(each, ir.Return))
            values = [each.value if place is None else _item(each.value, place) for each in returns]
            found = [self._imported(each) for each in values]
            if all(found):
                return frozenset().union(*found)
            return self._torch_or_else(values)
        finally:
            self._called.discard(call.id)

    def _torch_or_else(self, values: Sequence[ir.Value | None]) -> frozenset[str]:
        """What a function can return that returns a module of torch on some of its paths; empty: on none.

        It gives something else where torch isn't installed, or keeps torch in a variable once it is imported.
        """
        if not any(self._may_be_torch(each) for each in values):
            return frozenset()
        found = [self.of(each) if isinstance(each, ir.Name) else frozenset((UNKNOWN,)) for each in values]
        every = frozenset[str]().union(*found)
        modules = every & _OF_TORCH
        return modules | (frozenset((UNKNOWN,)) if every - modules else frozenset())

    def _may_be_torch(self, value: ir.Value | None, depth: int = 2) -> bool:
        """Whether a variable is bound to a module of torch somewhere, perhaps through another variable."""
        if not isinstance(value, ir.Name):
            return not self._imported(value).isdisjoint(_OF_TORCH)
        bindings = self.bindings(value)
        if any(isinstance(each, Imported) and not self.of(value).isdisjoint(_OF_TORCH) for each in bindings):
            return True
        return depth > 0 and any(
            self._may_be_torch(each.value, depth - 1) for each in bindings if isinstance(each, Assigned)
        )

    def _imported(self, value: ir.Value | None) -> frozenset[str]:
        """What an import binds to a variable, or `importlib.import_module("torch")` gives; empty: it is neither."""
        if isinstance(value, ir.Name):
            bindings = self.bindings(value)
            only = all(isinstance(each, Imported) and each.what is None for each in bindings)
            return self.of(value) if bindings and only else frozenset()
        if isinstance(value, ir.Call) and value.positional and (by := self.of(value.func) & _IMPORTERS):
            named = value.positional[0]
            name = named.value if isinstance(named, ir.Constant) else None
            if isinstance(name, str) and "builtins.__import__" in by:
                name = name.partition(".")[0]  # it gives the package that a module stands in
            return frozenset((canonical(name),)) if isinstance(name, str) and name[:1].isalpha() else frozenset()
        return frozenset()

    def _of_self(self, value: ir.Attribute) -> frozenset[str]:
        """`self.attr`, where the class stores plain names in it (`self.amp = torch.cuda.amp`)."""
        stored = list(self.stored(value))
        if not stored:
            return frozenset()
        key = (id(owner_class(value)), "self." + value.attr)
        if key in self._active:
            return frozenset()
        self._active.add(key)
        found: set[str] = set()
        for each in stored:
            found |= self.of(each) if each is not None else {UNKNOWN}
        self._active.discard(key)
        return frozenset(found)

    def stored(self, value: ir.Attribute) -> Iterator[ir.Value | None]:
        """What the enclosing class's methods store in `self.attr` (None: something that can't be followed)."""
        cls = owner_class(value)
        if cls is not None:
            yield from cls.stored(value.attr)


def _item(value: ir.Value | None, place: int) -> ir.Value | None:
    """What a tuple that is written out has at a place."""
    is_plain = isinstance(value, ir.Sequence) and not value.unpacks() and place < len(value.items)
    return value.items[place] if isinstance(value, ir.Sequence) and is_plain else None


def owner_class(value: ir.Attribute) -> ir.Class | None:
    """The class whose instance `self` of `self.attr` is, seen from a method or a function nested in one."""
    return class_of_self(value.base) if isinstance(value.base, ir.Name) else None


def class_of_self(value: ir.Name) -> ir.Class | None:
    """The class whose instance a name is that is a method's `self`, seen from it or from a function nested in it."""
    function = ir.function_of(value)
    while function is not None:
        if function.params and function.params[0].name == value.name and function.cls is not None:
            return function.cls
        if any(param.name == value.name for param in function.params):
            return None
        function = function.outer
    return None


def _join(base: str, attr: str) -> str:
    if base in (UNKNOWN, NOTHING) or base[0] in (LOCAL, UNBOUND):
        return UNKNOWN
    return canonical(f"{base}.{attr}")
