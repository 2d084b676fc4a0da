"""How one use of an old name is rewritten, by the place where it stands: call, decorator, annotation, partial ..."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Edit
from amplint.fixes.edits import add_first_argument, add_last_argument, insert
from amplint.fixes.inherited_arguments import pins
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.torch_facts.deprecated_names import Legacy

if TYPE_CHECKING:
    from amplint.model import Module

_SCRIPT = [f"torch.jit.{name}" for name in ("script", "script_method", "export", "script_if_tracing", "ScriptModule")]
_CLASS_TESTS = {"builtins.isinstance", "builtins.issubclass"}
_LEFT_OUT = {"torch.jit.ignore", "torch.jit.unused"}


class Rewrite(NamedTuple):
    """The edits of one use beside its name; or why there are none (`refusal`); or why they are unsafe (`doubt`)."""

    refusal: str | None = None
    edits: tuple[Edit, ...] = ()
    doubt: str | None = None


def rewrite_use(module: Module, legacy: Legacy, value: ir.Value) -> Rewrite:
    """What has to change around `value`, a read of the old name, when the name becomes the new one."""
    parent = value.parent
    if isinstance(parent, ir.Call) and parent.func is value:
        return _call(module, legacy, parent)
    if isinstance(parent, (ir.Function, ir.Class)) and value in parent.decorators:
        return _bare_decorator(module, legacy, value)
    if legacy.module == "torch":
        return Rewrite(f"{_as_value(legacy)}, and amplint can't see the call, which must also pass the device")
    if in_annotation(value) or _in_type(module, value) or _only_tested(module, value):
        return Rewrite()
    return _of_class(module, legacy, value)


def _of_class(module: Module, legacy: Legacy, value: ir.Value) -> Rewrite:
    """What has to change around `value`, the name of an old class that something else than a call takes."""
    parent = value.parent
    if isinstance(parent, ir.Attribute):
        return Rewrite() if parent.attr != "__init__" else _base_init(module, legacy, parent)
    if isinstance(parent, ir.Class):
        return _base(module, legacy, parent)
    if isinstance(parent, ir.Call) and _is_partial(module, parent, value):
        return _partial(module, legacy, parent)
    if isinstance(parent, ir.Assign) and _only_names_it(parent):
        return (
            Rewrite()
            if _alias_is_read(module, parent)
            else Rewrite("the class gets another name that this file doesn't use, so another file may use that name")
        )
    if isinstance(parent, ir.With):
        return Rewrite("`with` raises TypeError for a class; call the class, with the device")
    return Rewrite(f"{_as_value(legacy)}, and amplint can't see the call, which must also pass the device")


def _as_value(legacy: Legacy) -> str:
    return f"`{legacy.old.rpartition('.')[2]}` is not called on this line"


def _is_partial(module: Module, call: ir.Call, of: ir.Value) -> bool:
    return "functools.partial" in module.names.of(call.func) and call.args[0].value is of


def _only_names_it(assign: ir.Assign) -> bool:
    """Whether an assignment gives its value a name, or several."""
    return assign.annotation is None and all(isinstance(target, ir.Name) for target in assign.targets)


def in_fstring(value: ir.Value) -> bool:
    """Whether `value` stands between the braces of an f-string."""
    up: ir.Node | None = value
    while isinstance(up, ir.Value):
        if isinstance(up, ir.FString):
            return True
        up = up.parent
    return False


def follows(module: Module, value: ir.Value) -> bool:
    """Whether `value` is the right side of a plain assignment, so that the name's reads are uses too."""
    return isinstance(value.parent, ir.Assign) and value.parent.value is value


def only_named(value: ir.Value, legacy: Legacy, modern: list[ir.Node]) -> bool:
    """Whether a use neither makes nor calls anything: it is compared with, or listed beside the new name.

    Tables of all the names that a tool knows, and tests of what it was given, have to name the old ones too.
    """
    parent = value.parent
    if isinstance(parent, ir.Compare):
        return True
    if not isinstance(parent, (ir.Sequence, ir.Mapping)):
        return False
    return bool(modern) or legacy.module == "torch" or isinstance(parent.parent, ir.Compare)


def is_class_test(module: Module, value: ir.Value) -> bool:
    """Whether `value` is the class that isinstance asks for, or with which a class is compared."""
    parent = value.parent
    if isinstance(parent, ir.Sequence):
        parent = parent.parent
    if isinstance(parent, ir.Compare):
        return not any(isinstance(each, ir.Constant) and each.value is None for each in parent.children())
    return (
        isinstance(parent, ir.Call) and bool(_CLASS_TESTS & module.names.of(parent.func)) and parent.func is not value
    )


# --- calls ----------------------------------------------------------------------------------------------------------


def _call(module: Module, legacy: Legacy, call: ir.Call) -> Rewrite:
    if legacy.style == "device_type":
        if call.keyword("device_type") is not None:
            return Rewrite(
                "the call passes `device_type`, which the old function doesn't take; change only the "
                "name of the function"
            )
        return Rewrite(edits=(add_last_argument(module, call, f'device_type="{legacy.device}"'),))
    named = names_device(call)
    if legacy.style == "front":
        if named:  # it raised; under the new name it is right
            return (
                Rewrite()
                if named == "device" and not call.positional
                else Rewrite(f"the old class has no argument `{named}`; correct the call's arguments first")
            )
        if _scripted(module, call) and legacy.module == "torch":
            return Rewrite(
                "TorchScript can't compile the new function; if TorchScript compiles this code, keep the old function"
            )
        return Rewrite(edits=(add_first_argument(module, call, f'"{legacy.device}"'),))
    if call.unpacks("*"):
        return Rewrite(
            "the call unpacks its arguments with `*`, and the new class takes them in another order; pass keywords"
        )
    if len(call.positional) > len(legacy.parameters):
        return Rewrite("the call has more arguments than the old class takes; correct the call first")
    if named:
        return (
            Rewrite()
            if named == "device_type" and not call.positional
            else Rewrite(f"the old class has no argument `{named}`; correct the call's arguments first")
        )
    edits = list(_as_keywords(module, legacy, call.positional))
    pin = pins(module, legacy, call)
    if pin.arguments:
        edits.append(add_last_argument(module, call, ", ".join(pin.arguments)))
    edits.append(add_first_argument(module, call, f'"{legacy.device}"'))
    return Rewrite(edits=_merged(edits), doubt=pin.doubt)


def names_device(call: ir.Call) -> str | None:
    """The keyword for the device that a call of an old class already has, by mistake."""
    return next((arg.keyword for arg in call.args if arg.keyword in ("device", "device_type")), None)


def _as_keywords(module: Module, legacy: Legacy, positional: tuple[ir.Value, ...]) -> Iterator[Edit]:
    for parameter, value in zip(legacy.parameters, positional, strict=False):
        start, end = module.layout.outer(value)
        bare = isinstance(value, ir.Walrus) and (start, end) == module.span(value)
        yield insert(start, f"{parameter}=(" if bare else f"{parameter}=")
        if bare:  # `f(x=y := 1)` is no syntax
            yield insert(end, ")")


def _merged(edits: list[Edit]) -> tuple[Edit, ...]:
    """Insertions at one offset become one: the device goes in front of the keyword that its neighbour gets."""
    device = edits[-1]
    same = [each for each in edits[:-1] if each.start == device.start == each.end]
    rest = [each for each in edits[:-1] if each not in same]
    contents = "".join(each.content for each in same)
    if same and contents.startswith(", "):  # nothing between the parentheses: the pinned dtype comes behind
        contents = contents[2:]
        return (*rest, Edit(device.start, device.end, f"{device.content}, {contents}"))
    separator = (
        ", " if same and not device.content.endswith((" ", "\n")) and not device.content.rstrip().endswith(",") else ""
    )
    return (*rest, Edit(device.start, device.end, device.content + separator + contents))


def _scripted(module: Module, node: ir.Node) -> bool:
    """Whether TorchScript may compile what holds `node`: with a function it compiles all that this one calls."""
    function = ir.function_of(node)
    if function is None:
        return False
    decorators = [each.func if isinstance(each, ir.Call) else each for each in function.decorators]
    if any(module.names.of(each) & _LEFT_OUT for each in decorators):
        return False
    return any(True for name in _SCRIPT for _ in module.references(name))


# --- what is no call ------------------------------------------------------------------------------------------------


def _bare_decorator(module: Module, legacy: Legacy, value: ir.Value) -> Rewrite:
    end = module.span(value)[1]
    if legacy.style == "device_type":
        return Rewrite(edits=(insert(end, f'(device_type="{legacy.device}")'),))
    if legacy.style == "keywords":
        return Rewrite(edits=(insert(end, f'("{legacy.device}")'),))
    return Rewrite("the new name can't be used as a decorator")


def in_annotation(value: ir.Value) -> bool:
    """Whether a value is in an annotation, quoted or not, and not in a call there."""
    child: ir.Node = value
    parent = value.parent
    while isinstance(parent, ir.Value):
        if isinstance(parent, ir.Quoted):
            return True
        if isinstance(parent, ir.Call):
            return False
        child, parent = parent, parent.parent
    if isinstance(parent, ir.Assign):
        return parent.annotation is child
    if isinstance(parent, ir.Function):
        return parent.returns is child or any(param.annotation is child for param in parent.params)
    return False


def _in_type(module: Module, value: ir.Value) -> bool:
    """`Optional[it]`, `cast(it, x)`: a type, of which nothing can be made."""
    parent = value.parent
    if isinstance(parent, ir.Sequence):
        parent = parent.parent
    if isinstance(parent, ir.Call):
        return module.names.of(parent.func) == {"typing.cast"} and parent.args[0].value is value
    return isinstance(parent, ir.Subscript) and all(
        name.startswith(("typing.", "typing_extensions.")) for name in module.names.of(parent.base)
    )


def _only_tested(module: Module, value: ir.Value) -> bool:
    """isinstance(x, it), `it is None`, `if it:`: nothing is made, so the name is all that changes.

    The old classes are subclasses of the new ones, so isinstance holds for both; `x is it` would no longer.
    """
    parent = value.parent
    if isinstance(parent, ir.Sequence) and parent.kind == "tuple":
        parent = parent.parent
    if isinstance(parent, ir.Call):
        return bool(_CLASS_TESTS & module.names.of(parent.func))
    if isinstance(parent, ir.Compare):
        others = [each for each in parent.children() if each is not value]
        return all(isinstance(each, ir.Constant) and each.value is None for each in others)
    if isinstance(parent, (ir.If, ir.While, ir.Conditional)):
        return parent.test is value
    return isinstance(parent, (ir.Assert, ir.Unary)) or isinstance(value.parent, ir.Expr)


def _base(module: Module, legacy: Legacy, cls: ir.Class) -> Rewrite:
    """A subclass: its own constructor must hand on keywords only, to which the device is added."""
    if len([base for base in cls.bases if base.keyword is None]) > 1:
        return Rewrite(
            "the class has several bases, so `super().__init__` may call another base, which takes no device"
        )
    init = next((s for s in cls.body.statements if isinstance(s, ir.Function) and s.name == "__init__"), None)
    if init is None:
        return Rewrite(
            "the subclass has no `__init__`: its callers pass the arguments, and amplint can't know all callers"
        )
    edits = []
    for call in module.own.within(init).calls:
        func = call.func
        if ir.function_of(call) is init and isinstance(func, ir.Attribute) and func.attr == "__init__":
            if not isinstance(func.base, ir.Call):
                continue  # Base.__init__(self, ...) is a use of its own
            if call.positional or call.unpacks():
                return Rewrite(
                    "the subclass passes positional arguments to `super().__init__`, and the new class takes the "
                    "device first; pass keywords"
                )
            edits.append(add_first_argument(module, call, f'"{legacy.device}"'))
    return Rewrite(edits=tuple(edits))


def _base_init(module: Module, legacy: Legacy, init: ir.Attribute) -> Rewrite:
    call = init.parent
    if isinstance(call, ir.Call) and call.func is init and len(call.positional) == 1 and not call.unpacks("*"):
        if call.unpacks("**"):
            return Rewrite(
                "the subclass passes on `**` arguments to `__init__` of its base class, and they may contain a device"
            )
        end = module.layout.outer(call.positional[0])[1]
        return Rewrite(edits=(insert(end, f', "{legacy.device}"'),))
    return Rewrite(
        "the subclass passes positional arguments to `__init__` of its base class, and the new class takes the device "
        "first; pass keywords"
    )


def _partial(module: Module, legacy: Legacy, call: ir.Call) -> Rewrite:
    end = module.layout.span(call.args[0])[1]
    if legacy.style == "device_type":
        return Rewrite(edits=(insert(end, f', device_type="{legacy.device}"'),))
    device = insert(end, f', "{legacy.device}"')
    if legacy.style == "front":
        return Rewrite(edits=(device,))
    if call.unpacks("*"):
        return Rewrite(
            "the call unpacks its arguments with `*`, and the new class takes them in another order; pass keywords"
        )
    positional = call.positional[1:]
    if len(positional) > len(legacy.parameters):
        return Rewrite("the call has more arguments than the old class takes; correct the call first")
    if not positional and call.keyword("enabled") is None and not _called_without_positional(module, call):
        return Rewrite("a call of the partial may have `enabled` as its first argument, which would become the dtype")
    pin = pins(module, legacy, call, skip=1)
    added = "".join(f", {each}" for each in pin.arguments)
    if len(call.args) == 1:
        return Rewrite(edits=(insert(end, f"{device.content}{added}"),), doubt=pin.doubt)
    last = (insert(module.layout.span(call.args[-1])[1], added),) if added else ()
    return Rewrite(edits=(device, *_as_keywords(module, legacy, positional), *last), doubt=pin.doubt)


def _called_without_positional(module: Module, partial: ir.Call) -> bool:
    parent = partial.parent
    if not isinstance(parent, ir.Assign) or not all(isinstance(target, ir.Name) for target in parent.targets):
        return False
    reads = list(reads_of(module, parent))
    return bool(reads) and all(
        isinstance(read.parent, ir.Call)
        and read.parent.func is read
        and not read.parent.positional
        and not read.parent.unpacks("*")
        for read in reads
    )


def reads_of(module: Module, assign: ir.Assign) -> Iterator[ir.Name]:
    """The reads of the names that an assignment binds."""
    targets = (each for target in assign.targets for each in ir.walk_values(target))
    for value in module.own.near(*sorted({each.name for each in targets if isinstance(each, ir.Name)})).values:
        if isinstance(value, ir.Name) and not value.bound:
            for binding in module.names.bindings(value):
                if isinstance(binding, Assigned) and binding.value is assign.value:
                    yield value


def _alias_is_read(module: Module, assign: ir.Assign) -> bool:
    return any(True for _ in reads_of(module, assign))
