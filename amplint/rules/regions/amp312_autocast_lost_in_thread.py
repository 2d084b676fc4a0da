"""The autocast region, or its dtype, does not apply in the threads that run the model's forward.

## What it does
Finds two things inside an autocast region:

- a call of an `nn.DataParallel`, if the region is for bfloat16, always or by an option. The finding is only `likely` if
  amplint can't see the class of the wrapped model;
- a `threading.Thread` that is started, or work for a `ThreadPoolExecutor`, whose function calls a model of this file
  and opens no region itself.

amplint reports nothing:

- if the wrapped model, or the thread's function, opens its own region;
- if `DataParallel` gets one device, and so has no threads;
- if amplint can't see the thread's model or function.

## Why is this bad?
Each thread has its own autocast state, and a new thread starts with autocast disabled: the forward pass runs in
float32.

`DataParallel` enables autocast in its threads, but without the dtype: the forward pass runs in float16 instead of
bfloat16. float16 overflows above 65,504, and gradients underflow if there is no scaler.

## Example
```python
with torch.autocast("cuda", dtype=torch.bfloat16):
    thread = threading.Thread(target=lambda: outputs.append(model(batch)))
    thread.start()
```

## Use instead
```python
def work():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        outputs.append(model(batch))


thread = threading.Thread(target=work)
thread.start()
```

## Fix safety
There is no fix: open the region, with its dtype, in the function that the thread runs, or in the model's `forward`.
`DistributedDataParallel` has no such threads.

## Proof
The test programs with threads compare the dtype of the loss: float32 in the wrong programs, the region's dtype in the
corrected programs. The test programs with `DataParallel` are not executed (shows=none), since it needs two devices to
start threads; torch 2.13's `parallel_apply` enters `autocast(device_type, enabled=autocast_enabled)` in each thread,
without a dtype.

## References
- [Working with multiple GPUs](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-gpus)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.calls.external_calls import ancestors, local_class, local_function
from amplint.model.inference.constructions import constructions
from amplint.model.inference.devices import region_devices
from amplint.model.inference.formulas import possible
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region
from amplint.model.regions.regions_at import regions_at
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import upwards
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import LOCAL
from amplint.model.torch_facts.grad_modes import NO_GRAD, SET_GRAD
from amplint.model.torch_facts.modules import DATA_PARALLEL, RETURNS_ITSELF
from amplint.model.usage.mentions_of import near_regions
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import said, turning

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=("autocast & DataParallel", "autocast & Thread"),
    not_shown="verify doesn't run threads",
)

_POOLS = {
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.thread.ThreadPoolExecutor",
    "multiprocessing.pool.ThreadPool",
    "multiprocessing.dummy.Pool",
}
_HANDS_ON = ("submit", "map", "apply", "apply_async", "map_async", "imap", "starmap")
# Methods that give the module itself, in float32 where it was.
_SAME = {*RETURNS_ITSELF} - {"half", "bfloat16", "type"}
_LIBRARIES = ("torch.nn.", "torchvision.models.", "timm.", "transformers.", "segmentation_models_pytorch.")
# Contexts that have nothing to do with autocast.
_CONTEXTS = (*NO_GRAD, *SET_GRAD, "torch.cuda.")
_FOLLOW = 4
_IN_THREAD = Fix(Applicability.DISPLAY, "Move `with torch.autocast(...)` into the function that the thread runs")
_IN_FORWARD = Fix(Applicability.DISPLAY, "Begin the model's `forward` with `with torch.autocast(...)`")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each forward that other threads run without the region round it."""
    pools = _pools(module)
    parallel: dict[tuple[str, str], tuple[Confidence, list[ir.Call]]] = {}  # by the model and the condition
    for call in near_regions(module).calls:
        job = _job(module, call, pools)
        if job is None and not isinstance(call.func, (ir.Name, ir.Attribute)):
            continue
        if job is not None:
            around = _region_round(module, call)
            if around is not None and _is_started(module, call) and _runs_a_model(module, job):
                yield rule.finding(
                    module.span(call),
                    f"a new thread starts with autocast off: the model runs in float32; {_advice(module, job)}",
                    fix=_IN_THREAD,
                )
        elif (around := _region_round(module, call)) is not None:
            chosen = _bfloat16(module, around, call)
            sure = _parallel(module, call.func) if chosen is not None else None
            if chosen is not None and sure is not None:
                parallel.setdefault((module.on_one_line(call.func), chosen), (sure, []))[1].append(call)
    for (_, chosen), (sure, found) in parallel.items():
        calls = sorted(found, key=lambda each: each.id)
        others = ", ".join(dict.fromkeys(module.line(each) for each in calls[1:]))
        under = f"{chosen} and several GPUs are used" if chosen else "with several GPUs"
        yield rule.finding(
            module.span(calls[0]),
            f"{under}, DataParallel's threads don't get the region's dtype: they run in float16, not bfloat16"
            f"{f' (the same on {others})' if others else ''}; open a region in the model's `forward`, or use "
            "DistributedDataParallel",
            fix=_IN_FORWARD,
            confidence=sure,
        )


def _region_round(module: Module, node: ir.Node) -> Region | None:
    """The region that surely is open and on round a node in its function, where all its arguments are in sight."""
    found = [each for each in regions_at(module, node) if each.site is None]
    first = found[0].region if found else None
    return None if first is None or first.opaque or is_false(first.enabled) else first


# --- what models are made of ----------------------------------------------------------------------------------------


def _made_by(module: Module, value: ir.Value, depth: int = _FOLLOW) -> list[ir.Call | None]:
    """The constructions that a model can come from, `.to(device)` and the like aside; None for what isn't in sight."""
    if isinstance(value, ir.Call):
        func = value.func
        if isinstance(func, ir.Attribute) and func.attr in _SAME:
            return _made_by(module, func.base, depth)
        return [value]
    if isinstance(value, ir.Conditional):
        return _made_by(module, value.then, depth) + _made_by(module, value.other, depth)
    if not isinstance(value, (ir.Name, ir.Attribute)) or not depth:
        return [None]
    known = objects(module)
    sources = known.sources(value)
    whole = not isinstance(value, ir.Name) or all(isinstance(each, Assigned) for each in known.bindings(value))
    found: list[ir.Call | None] = [] if whole and sources else [None]
    for each in sources:
        if known.key(each) is None or known.key(each) != known.key(value):  # `model = model.to(device)` adds nothing
            inner = _made_by(module, each, depth - 1) if not _is_itself(value, each) else []
            found += inner
    return found


def _is_itself(value: ir.Name | ir.Attribute, source: ir.Value) -> bool:
    """`model = model.to(device)`: the value, through methods that give it back."""
    while isinstance(source, ir.Call) and isinstance(source.func, ir.Attribute) and source.func.attr in _SAME:
        source = source.func.base
    if isinstance(value, ir.Name):
        return isinstance(source, ir.Name) and source.name == value.name
    return isinstance(source, ir.Attribute) and source.attr == value.attr


def _is_model(module: Module, value: ir.Value) -> bool:
    """Whether a value is surely a model without a region of its own."""
    made = _made_by(module, value)
    return bool(made) and all(call is not None and _makes_model(module, call) for call in made)


def _makes_model(module: Module, call: ir.Call) -> bool:
    names = module.names.of(call.func)
    if names and all(name.startswith(_LIBRARIES) for name in names):
        return not names & DATA_PARALLEL
    cls = local_class(module, call.func) if all(name[0] == LOCAL for name in names) else None
    return cls is not None and _is_module_class(module, cls) and "autocast" not in module.text(cls)


def _is_module_class(module: Module, cls: ir.Class, depth: int = _FOLLOW) -> bool:
    for base in cls.bases:
        if any(name.startswith("torch.nn.") for name in module.names.of(base.value)):
            return True
        parent = local_class(module, base.value)
        if parent is not None and depth and "autocast" not in module.text(parent):
            return _is_module_class(module, parent, depth - 1)
    return False


# --- DataParallel ---------------------------------------------------------------------------------------------------


def _parallel(module: Module, func: ir.Value) -> Confidence | None:
    """How sure it is that what is called can be a DataParallel over several devices, of a model without a region.

    It is likely where the model isn't in sight.
    """
    if not _is_parallel(module, func):
        return None
    made = constructions(module, func)
    if any(_has_region(module, each) for each in made):
        return None
    sure = bool(made) and all(_makes_model(module, each) for each in made)
    return Confidence.CERTAIN if sure else Confidence.LIKELY


def _is_parallel(module: Module, value: ir.Value, depth: int = _FOLLOW) -> bool:
    """Whether a value can be a DataParallel that has threads: it isn't given one device."""
    for leaf in values_of(module, value).leaves:
        made = ir.before_calls(leaf.value, *_SAME)
        if made is not None and made is not leaf.value and depth:
            if _is_parallel(module, made, depth - 1):
                return True
        elif isinstance(made, ir.Call) and module.names.of(made.func) & DATA_PARALLEL:
            devices = argument(made, "torch.nn.DataParallel", "device_ids")
            if not isinstance(devices, ir.Sequence) or len(devices.items) > 1:
                return True
    return False


def _has_region(module: Module, made: ir.Call) -> bool:
    """Whether the class or function that makes a model speaks of autocast, or a class that it inherits."""
    found = module.names.definition(made.func)
    if isinstance(found, ir.Class):
        classes = chain((found,), ancestors(module, found, _FOLLOW))
        return any("autocast" in module.text(each) for each in classes)
    return isinstance(found, ir.Function) and "autocast" in module.text(found)


def _bfloat16(module: Module, region: Region, call: ir.Call) -> str | None:
    """Under which options a region with a call is bfloat16, in words; None where it isn't, or that can't be told.

    Nor where it is for a device on which DataParallel has no threads.
    """
    if region.dtype is None or not any(each.type in ("cuda", "xpu", None) for each in region_devices(module, region)):
        return None
    known = decided(module)
    chosen = known.is_dtype(region.dtype, "bfloat16")
    if is_vague(chosen) or chosen.facts() & known.dtypes:
        return None
    world = possible(chosen, known.of(region.enabled), known.around(call))
    return said(module, world, chosen, turning(world, chosen) - ON_CUDA.facts()) if world is not None else None


# --- threads of one's own -------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """What a thread is to run, and the arguments as far as they are in sight."""

    target: ir.Value
    given: Sequence[ir.Value]


def _pools(module: Module) -> set[str]:
    """The keys of the file's pools of threads, those left out that prepare their threads."""
    known = objects(module)
    found = set()
    for statement in module.whole.near(*module.words(*_POOLS)).statements:
        made: list[tuple[ir.Value, ir.Value | None]] = []
        if isinstance(statement, ir.With):
            made = [(item.context, item.target) for item in statement.items]
        elif isinstance(statement, ir.Assign) and statement.value is not None:
            made = [(statement.value, target) for target in statement.targets]
        for value, target in made:
            if isinstance(value, ir.Call) and target is not None and module.names.of(value.func) & _POOLS:
                key = known.key(target)
                if key is not None and value.keyword("initializer") is None:
                    found.add(key)
    return found


def _job(module: Module, call: ir.Call, pools: set[str]) -> _Job | None:
    """What a call gives to a thread."""
    if "threading.Thread" in module.names.of(call.func):
        target, given = call.keyword("target"), call.keyword("args")
        return _Job(target, given.items if isinstance(given, ir.Sequence) else ()) if target is not None else None
    func = call.func
    if not isinstance(func, ir.Attribute) or func.attr not in _HANDS_ON or not call.positional:
        return None
    if objects(module).key(func.base) not in pools:
        return None
    return _Job(call.positional[0], call.positional[1:] if func.attr == "submit" else ())


def _is_started(module: Module, call: ir.Call) -> bool:
    """Whether a thread starts within the region; a pool's do at once."""
    if "threading.Thread" not in module.names.of(call.func):
        return True
    around = [each.parent for each in upwards(ir.statement_of(call)) if isinstance(each.parent, ir.With)]
    block = around[0].body if around else None
    function = ir.function_of(call)
    if block is None and function is not None:
        block = function.body
    return block is not None and any(
        isinstance(each, ir.Attribute) and each.attr == "start" for each in ir.values_below(block)
    )


def _may_be_region(module: Module, statement: ir.Statement) -> bool:
    """Whether a statement is a `with` for something that may be a region under another name."""
    return isinstance(statement, ir.With) and any(
        "lock" not in module.text(item.context).lower()
        and not any(
            name.startswith(_CONTEXTS)
            for name in module.names.of(item.context.func if isinstance(item.context, ir.Call) else item.context)
        )
        for item in statement.items
    )


def _unwrapped(module: Module, job: _Job) -> _Job:
    """A job without `functools.partial` round it."""
    call = job.target
    if isinstance(call, ir.Call) and module.names.of(call.func) == {"functools.partial"} and call.positional:
        return _Job(call.positional[0], (*call.positional[1:], *job.given))
    return job


def _runs_a_model(module: Module, job: _Job) -> bool:
    """Whether the thread calls a model outside of any region."""
    target, given = _unwrapped(module, job)
    function = target.function if isinstance(target, ir.Lambda) else local_function(module, target)
    if function is None:
        return isinstance(target, (ir.Name, ir.Attribute)) and _is_model(module, target)
    if "autocast" in (module.text(target) if isinstance(target, ir.Lambda) else module.text(function)):
        return False
    if any(_may_be_region(module, each) for each in ir.walk_statements(function.body, into=False)):
        return False
    names = [param.name for param in function.params if param.kind == "positional"]
    arguments = dict(zip(names[1:] if isinstance(target, ir.Attribute) else names, given, strict=False))
    called = (_given(call.func, arguments) for call in ir.calls_below(function.body))
    return any(isinstance(each, (ir.Name, ir.Attribute)) and _is_model(module, each) for each in called)


def _advice(module: Module, job: _Job) -> str:
    """What to do about a thread that runs a model outside of any region."""
    target = _unwrapped(module, job).target
    if isinstance(target, ir.Lambda) or local_function(module, target) is not None:
        return "open the region inside the function that the thread runs"
    return f"let the thread run a function that opens the region and calls `{module.text(target)}`"


def _given(value: ir.Value, arguments: Mapping[str, ir.Value]) -> ir.Value:
    """What a parameter is given; a value that is no parameter, as it is."""
    return arguments.get(value.name, value) if isinstance(value, ir.Name) else value
