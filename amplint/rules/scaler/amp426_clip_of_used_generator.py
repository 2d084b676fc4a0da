"""A clip gets a generator of parameters that is already used up: it clips nothing.

## What it does
Finds `clip_grad_norm_` and `clip_grad_value_`, of torch and of accelerate, in files that use a GradScaler, autocast or
accelerate, if the parameters are a generator that is kept in a variable or an attribute: `model.parameters()`,
`filter(...)`, `map(...)`, `itertools.chain(...)`, a generator expression, or the result of a function with `yield`.

amplint reports a clip

- after other code has read the generator to its end: an optimizer's constructor, `list(...)`, `sum(...)`, a `for` loop,
  or another clip;
- in a loop, if the generator is created before the loop: the first clip uses up the generator;
- in a method, if the generator is created in `__init__`: the first call uses up the generator.

amplint reports nothing:

- if the generator is created again before the clip, or in each iteration;
- if the project defines a method `parameters`, which may return a list;
- if the value may be something other than a generator on some path, or comes from code that amplint can't see.

## Why is this bad?
A generator yields its items only once. After that `clip_grad_norm_` gets no parameters: it clips nothing, returns a
norm of 0, and raises nothing. (Current torch warns of an empty generator, but not of an empty `filter` or
`itertools.chain`.) The logged norm is 0, and one outlier batch can ruin the weights, as if the program didn't clip.
`clip_grad_value_` raises RuntimeError instead.

## Example
```python
params = itertools.chain(unet.parameters(), text_encoder.parameters())
optimizer = torch.optim.AdamW(params, lr=1e-5)

for batch in loader:
    accelerator.backward(loss(batch))
    accelerator.clip_grad_norm_(params, 1.0)
    optimizer.step()
```

## Use instead
```python
params = list(itertools.chain(unet.parameters(), text_encoder.parameters()))
optimizer = torch.optim.AdamW(params, lr=1e-5)

for batch in loader:
    accelerator.backward(loss(batch))
    accelerator.clip_grad_norm_(params, 1.0)
    optimizer.step()
```

## Fix safety
Unsafe, as it changes training: the fix makes the generator a list, and the clip then has an effect in each iteration.

## Proof
The test programs are not executed (shows=none): a run is compared with the same run without AMP, which clips nothing
either. A test gives torch's clip a generator that an optimizer has used up: the norm is 0 and no gradient
changes.

## References
- [torch.nn.utils.clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
- [Python's glossary: generator iterator](https://docs.python.org/3/glossary.html#term-generator-iterator)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.edits import insert
from amplint.model.calls.call_sites import callers
from amplint.model.calls.external_calls import local_function
from amplint.model.inference.values import values_of
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import dominates, loops_round
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("clip_grad & GradScaler", "clip_grad & autocast", "clip_grad & ccelerat"),
    not_shown="verify compares with the same step without AMP, which clips nothing either",
)

_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grad_value")
_GENERATORS = {"builtins.filter", "builtins.map", "itertools.chain", "itertools.chain.from_iterable"}
# What reads all of what it is given.
_READERS = {f"builtins.{name}" for name in ("list", "tuple", "set", "frozenset", "sum", "sorted", "max", "min")}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each clip whose parameters come from a generator that was read before."""
    for call in module.own.called(*_CLIPS):
        given = argument(call, "torch.nn.utils.clip_grad_norm_", "parameters")
        if isinstance(given, ir.Name):
            yield from _of_variable(module, call, given)
        elif isinstance(given, ir.Attribute):
            yield from _of_attribute(module, call, given)


def _of_variable(module: Module, call: ir.Call, given: ir.Name) -> Iterator[Finding]:
    bindings = reaching(module.names, given)
    made = [each.value for each in bindings if isinstance(each, Assigned) and each.value is not None]
    if not made or len(made) < len(bindings) or not all(_is_generator(module, each) for each in made):
        return
    reader = next((each for each in _readers(module, given, call) if _comes_before(module, each, call)), None)
    text, raises = module.text(given), _raises(call)
    if reader is not None:
        what = "this clip raises RuntimeError" if raises else "this clip does nothing"
        yield _finding(module, call, made, f"{what}: {module.line(reader)} has used up the generator `{text}`")
    elif any(all(loop not in loops_round(each) for each in made) for loop in loops_round(call)):
        what = (
            "this clip raises RuntimeError in the second iteration: the first iteration"
            if raises
            else "this clip works in the first iteration only: that iteration"
        )
        yield _finding(module, call, made, f"{what} uses up the generator `{text}`")


def _comes_before(module: Module, reader: ir.Node, clip: ir.Call) -> bool:
    """Whether a clip runs only after something: in its function, or as the file is loaded, before its function runs."""
    function = ir.function_of(clip)
    if function is None or ir.function_of(reader) is not None:
        return dominates(reader, clip)
    sites = [each for each in callers(module, function) if ir.function_of(each) is None]
    return not conditions_round(reader) and all(each.id > reader.id for each in sites)


def _of_attribute(module: Module, call: ir.Call, given: ir.Attribute) -> Iterator[Finding]:
    found = values_of(module, given)
    made = [each.value for each in found.leaves]
    if not found.is_closed or not all(_is_generator(module, each) for each in made) or _is_in_init(call):
        return
    if not all(_is_in_init(each) and _is_stored_as(each, given.attr) for each in made):
        return  # a property, or a method that is called again, gives a new one
    text = module.text(given)
    what = (
        "this clip raises RuntimeError in the second call of this method: the first call"
        if _raises(call)
        else "only the first call of this method can clip: it"
    )
    yield _finding(module, call, made, f"{what} uses up the generator `{text}`")


def _raises(call: ir.Call) -> bool:
    """Whether a clip without parameters raises: `clip_grad_value_` does, `clip_grad_norm_` returns 0."""
    return "value" in ir.last_name(call.func)


def _is_in_init(node: ir.Node) -> bool:
    function = ir.function_of(node)
    return function is not None and function.name == "__init__"


def _is_stored_as(value: ir.Value, attr: str) -> bool:
    statement = ir.statement_of(value)
    return isinstance(statement, ir.Assign) and any(
        isinstance(each, ir.Attribute) and each.attr == attr for each in statement.targets
    )


def _finding(module: Module, call: ir.Call, made: list[ir.Value], what: str) -> Finding:
    edits = [edit for each in made if module.is_own(each) for edit in _listed(module, each)]
    fix = Fix(Applicability.UNSAFE, "Turn the generator into a list", tuple(edits)) if edits else None
    return rule.finding(module.span(call), f"{what}; turn the generator into a list", fix=fix)


def _listed(module: Module, value: ir.Value) -> list[Edit]:
    outer, inner = module.layout.outer(value), module.span(value)
    if outer != inner and not isinstance(value, ir.Comprehension):  # it has parentheses
        return [insert(outer[0], "list")]
    return [insert(outer[0], "list("), insert(outer[1], ")")]


def _is_generator(module: Module, value: ir.Value) -> bool:
    """Whether a value is surely an iterator over parameters, which gives them once."""
    if isinstance(value, ir.Conditional):
        return _is_generator(module, value.then) and _is_generator(module, value.other)
    if isinstance(value, ir.Comprehension):
        return value.kind == "GeneratorExp"
    if not isinstance(value, ir.Call):
        return False
    if isinstance(value.func, ir.Attribute) and value.func.attr == "parameters":
        return not module.whole.defines("parameters") and not value.positional
    function = local_function(module, value.func)
    if function is not None:
        return function.is_generator and not function.decorators
    names = module.names.of(value.func)
    return bool(names) and names <= _GENERATORS


def _readers(module: Module, given: ir.Name, clip: ir.Call) -> Iterator[ir.Node]:
    """What reads the same generator to its end before a clip."""
    same = {id(each) for each in reaching(module.names, given)}
    for each in module.own.near(given.name).values:
        if isinstance(each, ir.Name) and each.name == given.name and not each.bound and each is not given:
            reader = _reader(module, each)
            if reader is not None and reader.id < clip.id and same == {id(one) for one in reaching(module.names, each)}:
                yield reader


def _reader(module: Module, read: ir.Name) -> ir.Node | None:
    """The call or loop that reads all of a variable's items at once."""
    if isinstance(read.parent, ir.For) and read.parent.iter is read:
        jumps = (each for each in ir.walk_statements(read.parent.body) if isinstance(each, ir.Jump))
        return None if any(each.kind == "break" for each in jumps) else read.parent
    up: ir.Node | None = read.parent
    if isinstance(up, ir.Comprehension):
        call = up.parent
        reads = up.kind != "GeneratorExp" or (isinstance(call, ir.Call) and bool(module.names.of(call.func) & _READERS))
        return up if reads and up.clauses[0].iter is read else None
    while isinstance(up, (ir.Sequence, ir.Mapping)):  # `[{"params": params}]`
        up = up.parent
    if not isinstance(up, ir.Call) or up.func is read:
        return None
    if ir.last_name(up.func) in _CLIPS or module.names.of(up.func) & _READERS or _makes_optimizer(module, up):
        return up
    return None


def _makes_optimizer(module: Module, call: ir.Call) -> bool:
    """Whether a call's result is an optimizer: of torch's classes, or what the code steps."""
    if any(name.startswith("torch.optim.") for name in module.names.of(call.func)):
        return True
    statement = ir.statement_of(call)
    if not isinstance(statement, ir.Assign) or statement.value is not call:
        return False
    return any(objects(module).is_optimizer(each) is not None for each in statement.targets)
