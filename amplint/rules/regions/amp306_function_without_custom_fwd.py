"""The backward of an autograd Function runs without the autocast state of its forward, and raises.

## What it does
Finds a `torch.autograd.Function`

- with `custom_bwd`, but without `custom_fwd` (an error);
- with `custom_bwd` and a `setup_context` (an error);
- without `custom_bwd`, if the Function is applied in an autocast region with a float32 parameter, and multiplies
  matrices with that parameter in `forward` and in `backward` (a warning).

amplint reports nothing:

- if a method casts, or opens a region by itself;
- under `custom_fwd(cast_inputs=...)`;
- if nothing shows that an operand is float32;
- if no region of this file leads to the Function's `apply`.

## Why is this bad?
`forward` runs inside the region, where autocast casts the operands of a product. `backward` runs outside: the product
of the half-precision gradient and the saved float32 weight raises `RuntimeError: expected m1 and m2 to have the same
dtype`.

`custom_fwd` on `forward` and `custom_bwd` on `backward` make `backward` run under the autocast state of `forward`.
Both are needed: `custom_bwd` reads what `custom_fwd` has stored on `ctx`. Without `custom_fwd`, or with a
`setup_context` (where `forward` gets no `ctx`), `custom_bwd` raises AttributeError.

## Example
```python
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, weight):
        ctx.save_for_backward(inputs, weight)
        return inputs @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        inputs, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ inputs
```

## Use instead
```python
class Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, inputs, weight):
        ctx.save_for_backward(inputs, weight)
        return inputs @ weight.t()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        inputs, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ inputs
```

## Fix safety
The fix adds the missing decorators, for the device of the file's regions. Unsafe: everything else in `backward` then
runs under autocast too. There is no fix for a Function with a `setup_context`: rewrite it with `forward(ctx, ...)`.

## Proof
The wrong programs raise in backward; the corrected programs train.

## References
- [Functions with autocast](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#autocast-and-custom-autograd-functions)
- [setup_context and custom_fwd](https://github.com/pytorch/pytorch/issues/132388)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.device_choice import choose
from amplint.fixes.edits import insert, line_start
from amplint.fixes.inherited_arguments import module_name
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.external_calls import local_class
from amplint.model.inference.constructions import constructions
from amplint.model.inference.values import asked, held, values_of
from amplint.model.objects.autocast_objects import region_of
from amplint.model.regions.openers import Open
from amplint.model.regions.regions_at import enabled_at
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.syntax.lazy_lowering import values_of as written_in
from amplint.model.syntax.queries import assigned
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.op_spellings import RESHAPES
from amplint.registry.rule import Rule
from amplint.rules.shared.in_region import AUTOGRAD_FUNCTIONS, is_product

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("autograd & Function & autocast & apply & backward", "autograd & Function & custom_bwd"),
    not_shown="verify uses a small model of its own, without custom autograd Functions",
)

_FWD, _BWD = "custom_fwd", "custom_bwd"
_SINCE = "2.4"
_PARAMETERS = {"torch.nn.Parameter", "torch.nn.parameter.Parameter"}
_FACTORIES = {f"torch.{name}" for name in ("randn", "rand", "zeros", "ones", "empty", "eye")}
_HALF = {"torch.float16", "torch.half", "torch.bfloat16"}


class _Function(NamedTuple):
    """An autograd Function whose methods are in sight; what decorates them for autocast, if something does."""

    cls: ir.Class
    forward: ir.Function
    backward: ir.Function
    fwd: ir.Value | None
    bwd: ir.Value | None
    with_setup: bool


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """What raises wherever it is used first, then what does under autocast."""
    functions = list(_functions(module))
    applied = _applied(module) if functions else {}
    for each in functions:
        if each.bwd is not None and each.with_setup:
            message = "`custom_bwd` does not work with `setup_context`: backward raises AttributeError"
            yield rule.finding(
                module.span(each.bwd),
                f"{message}; move `setup_context` into `forward(ctx, ...)`, and decorate `forward` with `custom_fwd`",
                severity=Severity.ERROR,
            )
        elif each.bwd is not None and each.fwd is None:
            fix, withheld = _fix(module, each)
            yield rule.finding(
                module.span(each.bwd),
                f"`{each.cls.name}.backward` raises AttributeError: `custom_bwd` works only with `custom_fwd`; add "
                "`custom_fwd` to `forward`",
                fix=fix,
                withheld=withheld,
                severity=Severity.ERROR,
            )
        elif each.bwd is None and not _has_one_dtype(each.fwd):
            yield from _under_autocast(module, each, applied.get(each.cls.id, []))


def _functions(module: Module) -> Iterator[_Function]:
    for statement in module.whole.near(*module.words(*AUTOGRAD_FUNCTIONS)).statements:
        if not isinstance(statement, ir.Class) or len(statement.bases) != 1:
            continue
        if not module.names.of(statement.bases[0].value) <= AUTOGRAD_FUNCTIONS:
            continue
        methods = {each.name: each for each in statement.body.statements if isinstance(each, ir.Function)}
        if "forward" not in methods or "backward" not in methods:
            continue
        forward, backward = methods["forward"], methods["backward"]
        fwd, bwd = _decorator(forward, _FWD), _decorator(backward, _BWD)
        setup = methods["setup_context"].decorators if "setup_context" in methods else ()  # one may do what is missing
        if all(_is_known(module, each, (fwd, bwd)) for each in (*forward.decorators, *backward.decorators, *setup)):
            yield _Function(statement, forward, backward, fwd, bwd, "setup_context" in methods)


def _has_one_dtype(fwd: ir.Value | None) -> bool:
    """`custom_fwd(cast_inputs=torch.float32)`: all that forward saves and returns has that dtype, the gradient too."""
    given = fwd.keyword("cast_inputs") if isinstance(fwd, ir.Call) else None
    return given is not None and not (isinstance(given, ir.Constant) and given.value is None)


def _decorator(method: ir.Function, name: str) -> ir.Value | None:
    called = ((each, each.func if isinstance(each, ir.Call) else each) for each in method.decorators)
    return next((each for each, func in called if ir.last_name(func) == name), None)


def _is_known(module: Module, decorator: ir.Value, known: tuple[ir.Value | None, ...]) -> bool:
    return decorator in known or module.names.of(decorator) == {"builtins.staticmethod"}


def _may_be_half(module: Module, operand: ir.Value) -> bool:
    """Whether the file casts something to a half type that may hold an operand: a whole model, perhaps."""
    casts = module.once(_cast_to_half)
    owner = owner_class(operand) if isinstance(operand, ir.Attribute) else None
    return any(owner is None or _may_hold(module, each, owner) for each in casts)


def _cast_to_half(module: Module) -> list[ir.Value]:
    """What the file casts to a half type with a method that isn't its own."""
    calls, found = module.once(CallGraph), list[ir.Value]()
    for call in module.whole.near("half", "bfloat16", *module.words(*_HALF)).calls:
        if not isinstance(call.func, ir.Attribute) or calls.find(call) is not None:
            continue
        named = call.func.attr in ("half", "bfloat16") and not call.args
        given = call.func.attr in ("to", "type") and any(module.names.of(arg.value) & _HALF for arg in call.args)
        if named or given:
            found.append(call.func.base)
    return found


def _may_hold(module: Module, value: ir.Value, cls: ir.Class, depth: int = 4) -> bool:
    """Whether a value may be, or hold, an object of a class: all that it is made of is not seen."""
    if isinstance(value, ir.Constant):
        return False
    made = constructions(module, value) if depth else ()
    return not made or any(_may_make(module, call, cls, depth) for call in made)


def _may_make(module: Module, call: ir.Call, cls: ir.Class, depth: int) -> bool:
    what, names = module.names.definition(call.func), module.names.of(call.func)
    if isinstance(what, ir.Class):
        foreign = not cls.decorators and cls not in _classes_below(module, what)
    else:
        foreign = bool(names) and all(name.startswith("torch.") for name in names)
    return not foreign or any(_may_hold(module, arg.value, cls, depth - 1) for arg in call.args)


def _classes_below(module: Module, cls: ir.Class) -> list[ir.Function | ir.Class]:
    """A class, with all functions and classes of the file that it mentions, and those that they mention."""
    found: list[ir.Function | ir.Class] = [cls]
    for each in found:
        for value in written_in((each, *ir.walk_statements(each.body))):
            what = module.names.definition(value) if isinstance(value, (ir.Name, ir.Attribute)) else None
            if what is not None and what not in found:
                found.append(what)
    return found


# --- under autocast -------------------------------------------------------------------------------------------------


def _under_autocast(module: Module, function: _Function, applied: list[ir.Call]) -> Iterator[Finding]:
    """The finding about a Function that a region leads to with a float32 operand."""
    if any(isinstance(each, ir.Call) and region_of(module, each) for each in _values(function)):
        return
    names = _mixed(module, function) if applied else {}
    for call in applied:
        for index, name in names.items():
            given = call.positional[index] if index < len(call.positional) else None
            if given is None or not _is_float32(module, given) or _may_be_half(module, given):
                continue
            found = next(iter(enabled_at(module, call)), None)
            if found is not None:
                yield _finding(module, function, found, name)
                return


def _finding(module: Module, function: _Function, found: Open, name: str) -> Finding:
    fix, withheld = _fix(module, function)
    return rule.finding(
        module.layout.name(function.backward),
        f"`{function.cls.name}.backward` runs outside the region on {module.line(found.entered)} and raises "
        f"RuntimeError: the gradient is in half precision, but `{name}` is float32; {_to_do(function)}",
        fix=fix,
        withheld=withheld,
    )


def _values(function: _Function) -> Iterator[ir.Value]:
    yield from ir.values_below(function.forward.body)
    yield from ir.values_below(function.backward.body)


def _mixed(module: Module, function: _Function) -> dict[int, str]:
    """The parameters that both methods multiply, by their place in `apply`'s arguments."""
    forward = [param.name for param in function.forward.params if param.kind == "positional"]
    gradients = {param.name for param in function.backward.params[1:]}
    saved = _saved(function, forward)
    multiplied = {name for each in _products(function.forward) for name in each}.intersection(forward[1:])
    found = {}
    for operands in _products(function.backward):
        grads = gradients & operands
        if grads and all(_stays(module, function.backward, each) for each in grads):
            kept = [saved[name] for name in operands & saved.keys() if _is_bound_once(function.backward, name)]
            for name in kept:
                if name in multiplied and _is_bound_once(function.forward, name):
                    found[forward.index(name) - 1] = name
    return dict(sorted(found.items()))  # not in the order of a set


def _products(method: ir.Function) -> Iterator[set[str]]:
    """For each product of matrices the variables that are its operands as they are."""
    for value in ir.values_below(method.body):
        if is_product(value):
            yield {name for each in _operands(value) if (name := _root(each)) is not None}


def _operands(value: ir.Value) -> list[ir.Value]:
    if isinstance(value, ir.Binary):
        return [value.left, value.right]
    assert isinstance(value, ir.Call)
    return [*([value.func.base] if isinstance(value.func, ir.Attribute) else ()), *value.positional]


def _root(value: ir.Value) -> str | None:
    """The variable that an operand is, but for its shape."""
    while not isinstance(value, ir.Name):
        if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute):
            value = value.func
        if not isinstance(value, ir.Attribute) or value.attr not in RESHAPES:
            return None
        value = value.base
    return value.name


def _is_bound_once(method: ir.Function, name: str) -> bool:
    return len(method.scope.bindings.get(name, ())) == 1


def _stays(module: Module, method: ir.Function, name: str) -> bool:
    """Whether a gradient is at most given another shape."""
    return all(
        _root(each.value) == name if isinstance(each, Assigned) else isinstance(each, Other)
        for each in method.scope.bindings.get(name, ())
    )


def _saved(function: _Function, forward: list[str]) -> dict[str, str]:
    """What `backward` calls the tensors that `forward` saves: its names -> forward's parameters."""
    if not forward or not function.backward.params:
        return {}
    saving = [each for each in ir.calls_below(function.forward.body) if _saves(each, forward[0])]
    if len(saving) != 1 or len(saving[0].positional) != len(saving[0].args):
        return {}
    names = [_root(each) for each in saving[0].positional]
    found = {}
    for target in _taking_saved(function.backward):
        for item, name in zip(target.items, names, strict=False):
            if isinstance(item, ir.Name) and name is not None:
                found[item.name] = name
    return found


def _saves(call: ir.Call, context: str) -> bool:
    """`ctx.save_for_backward(...)`."""
    func = call.func
    return isinstance(func, ir.Attribute) and func.attr == "save_for_backward" and _root(func.base) == context


def _taking_saved(backward: ir.Function) -> Iterator[ir.Sequence]:
    """The targets of `x, weight = ctx.saved_tensors`."""
    context = backward.params[0].name
    for statement in ir.walk_statements(backward.body, into=False):
        target = statement.targets[0] if isinstance(statement, ir.Assign) else None
        value = statement.value if isinstance(statement, ir.Assign) else None
        saved = isinstance(value, ir.Attribute) and value.attr == "saved_tensors" and _root(value.base) == context
        if isinstance(target, ir.Sequence) and saved:
            yield target


# --- where it is applied --------------------------------------------------------------------------------------------


def _applied(module: Module) -> dict[int, list[ir.Call]]:
    """The calls of `Function.apply`, or of a variable for it, by the classes' ids."""
    found: dict[int, list[ir.Call]] = {}
    applying = module.whole.near("apply").values
    words = {word for each in applying if ir.last_name(each) == "apply" for word in assigned(each)}
    for call in module.whole.near("apply", *sorted(words)).calls:
        func = held(module, call.func)
        if isinstance(func, ir.Attribute) and func.attr == "apply":
            cls = local_class(module, func.base)
            if cls is not None:
                found.setdefault(cls.id, []).append(call)
    return found


def _is_float32(module: Module, value: ir.Value) -> bool:
    """Whether a tensor is evidently float32: a parameter, or one that a factory makes."""
    leaves = values_of(module, value).leaves
    return all(not leaf.is_open and asked(module, _is_made_float32, leaf.value, False) for leaf in leaves)


def _is_made_float32(module: Module, value: ir.Value) -> bool:
    if not isinstance(value, ir.Call) or value.keyword("dtype") is not None:
        return False
    if module.names.of(value.func) & (_PARAMETERS | _FACTORIES):
        return all(_is_plain_number(module, each) for each in value.positional)
    if not isinstance(value.func, ir.Attribute) or value.func.attr not in ("cuda", "requires_grad_"):
        return False
    return _is_float32(module, value.func.base)


def _is_plain_number(module: Module, value: ir.Value) -> bool:
    """Whether what a factory or Parameter is given says nothing of another dtype."""
    calls = [each for each in ir.walk_values(value) if isinstance(each, ir.Call)]
    return all(each.keyword("dtype") is None and not module.names.of(each.func) & {"torch.tensor"} for each in calls)


# --- the fix --------------------------------------------------------------------------------------------------------


def _fix(module: Module, function: _Function) -> tuple[Fix | None, str | None]:
    """The missing decorators, below `@staticmethod`."""
    torch, device = module_name(module, "torch"), _device(module, function)
    if torch is None:
        return None, "the fix needs `import torch`, which this file lacks; add that import, and run amplint again"
    if device is None:
        return None, "the file doesn't show the device for `device_type`; add the decorators by hand"
    new = module.target.guarantees(_SINCE)
    if not new and device != '"cuda"':
        return (
            None,
            f"`custom_fwd` needs torch {_SINCE} for {device}, and the project allows older ({module.target.origin})",
        )
    edits: list[Edit] = []
    for method, name, there in (
        (function.forward, _FWD, function.fwd),
        (function.backward, _BWD, function.bwd),
    ):
        if there is not None:
            continue
        if not any(module.names.of(each) == {"builtins.staticmethod"} for each in method.decorators):
            return None, f"`{method.name}` is not a `@staticmethod`; add that decorator first"
        at = line_start(module, module.layout.name(method)[0])
        line = module.source.line(module.source.row(at))
        indent = line[: len(line) - len(line.lstrip())]
        made = f"{torch}.amp.{name}(device_type={device})" if new else f"{torch}.cuda.amp.{name}"
        edits.append(insert(at, f"{indent}@{made}{module.source.newline}"))
    title = f"Add {_missing(function)} for {device} (the whole backward then runs under autocast)"
    return Fix(Applicability.UNSAFE, title, tuple(edits)), None


def _to_do(function: _Function) -> str:
    """What to add where, with what is there already."""
    if function.fwd is not None:
        return f"add `{_BWD}` to `backward` (`forward` has `{_FWD}`)"
    return f"add `{_FWD}` to `forward`, and `{_BWD}` to `backward`"


def _missing(function: _Function) -> str:
    """The decorators that a Function lacks."""
    lacking = [f"`{name}`" for name, there in ((_FWD, function.fwd), (_BWD, function.bwd)) if there is None]
    return " and ".join(lacking)


def _device(module: Module, function: _Function) -> str | None:
    """The device that the other decorator is for, else the one that the file trains on."""
    other = function.fwd or function.bwd
    if isinstance(other, ir.Call) and (given := other.keyword("device_type")) is not None:
        return module.text(given)
    if other is not None:
        return '"cuda"'  # the old decorators'
    device = choose(module, function.cls)
    return device.text if device is not None else None
