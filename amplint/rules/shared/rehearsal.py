"""Steps that train nothing: on random data alone, in a file that saves nothing, as benchmarks and tests take them.

And backwards that are only timed, or whose memory is measured.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import leading_to
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import local_class, method
from amplint.model.inference.values import asked, held, values_of
from amplint.model.names.reaching_definitions import reaching, returned
from amplint.model.objects.amp_objects import objects
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.control import unpacked_from
from amplint.model.syntax.nesting import is_within, loops_round
from amplint.model.syntax.scopes import owner_class

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.regions.openers import Open

_KEEPS = re.compile(r"(?i)save|checkpoint|state_dict|export|push_to_hub|dump")
_RANDOM = re.compile(
    r"torch\.(?:randn?|randint|randperm|normal|bernoulli|zeros|ones|empty|full|arange|linspace)(?:_like)?$"
    r"|numpy\.random\."
)
# What makes of random data other such: the first argument tells.
_TAKES_OVER = re.compile(r"torch\.(?:tensor|as_tensor|from_numpy)$")
_NEUTRAL = re.compile(r"torch\.(?:device|nn\.|optim\.|amp\.|float|bfloat|half)")
_NUMBERS = {"builtins.range", "itertools.count", "itertools.repeat"}
_LOADER = "torch.utils.data.DataLoader"
_CLOCKS = {
    "time.time", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "time.process_time", "time.time_ns",
    "timeit.default_timer", "torch.cuda.Event",
}  # fmt: skip
_CLOCK_NAMES = re.compile(r"\btime\(|perf_counter|monotonic|process_time|time_ns|default_timer|cuda\.Event")
_RESETS_PEAK = {"torch.cuda.reset_peak_memory_stats", "torch.cuda.reset_max_memory_allocated"}
_READS_PEAK = {"torch.cuda.max_memory_allocated", "torch.cuda.max_memory_reserved", "torch.cuda.memory_stats"}
_PROFILES = re.compile(
    r"torch\.(autograd\.)?profiler\.(profile|kineto)|torch\.cuda\.memory\._record_memory_history|torch\.cuda\.nvtx\."
)
_TRACES = re.compile(r"(?i)trace|snapshot|stacks|timeline")  # what a profiler saves
_STEPS = ("step", "optimizer_step")
# What computes nothing with what it is given, and properties of a tensor that are no data.
_NO_INPUTS = ("to", "cuda", "xpu", "npu", "type", "view", "reshape", "expand", "print")
_PROPERTIES = ("dtype", "shape", "device")


def is_rehearsal(module: Module, backward: ir.Node) -> bool:
    """Whether a step computes with data that is all made up, and the file saves nothing.

    A loop over something else than numbers is one over data; and with one of several backwards the others are judged.
    """
    function = ir.function_of(backward)
    steps = [each for each in trained(module) if ir.function_of(each.event.call) is function]
    loops = [each for each in loops_round(backward) if isinstance(each, ir.For)]
    return (
        all(_counts(module, each.iter) or _makes_up(module, each.iter) for each in loops)
        and all(_is_made_up(module, entered) for each in steps for entered in each.entered)
        and not _saves(module)
    )


def is_demo(module: Module, backward: ir.Node) -> bool:
    """Whether a script or a cell of a notebook steps just once, on random data: to show something, not to train."""
    if ir.function_of(backward) is not None or loops_round(backward):
        return False
    shown = any(each.entered for each in trained(module) if ir.function_of(each.event.call) is None)
    return shown and is_rehearsal(module, backward)


def is_measured(module: Module, backward: ir.Node) -> bool:
    """Whether a backward is there to be timed: its function reads clocks, and nobody uses its gradients.

    That is so where nothing in sight steps, resets gradients or reads them, or where a step rehearses.
    """
    function = ir.function_of(backward)
    if function is None or not _takes_time(module, function):
        return False
    if any(ir.function_of(each.event.call) is function for each in trained(module)) and is_rehearsal(module, backward):
        return True
    known = events(module)
    places = {None, *(ir.function_of(each) for each in leading_to(module, backward))}
    near = [each for each in module.whole.near("step", "zero_grad").calls if ir.function_of(each) in places]
    return not (
        any(each is not None and each.kind in _STEPS for each in map(known.of, near))
        or any(ir.last_name(each.func) in ("step", "zero_grad") for each in ir.calls_below(function.body))
        or any(isinstance(each, ir.Attribute) and each.attr == "grad" for each in ir.values_below(function.body))
        or any(ir.last_name(each.func) == "zero_grad" for each in near)
    )


def is_timed(module: Module, start: int) -> bool:
    """Whether the function at an offset only times steps: it reads clocks, its regions compute with made-up data alone,
    and it saves nothing.
    """
    if not module.once(_has_clocks):
        return False
    inside = (each for each in module.statements_round(start) if isinstance(each, ir.Function))
    function = max(inside, key=lambda each: module.span(each)[0], default=None)
    return function is not None and module.once(_only_times, function)


def _has_clocks(module: Module) -> bool:
    return _CLOCK_NAMES.search(module.source.text) is not None


def _only_times(module: Module, function: ir.Function) -> bool:
    if not _takes_time(module, function) or any(
        _KEEPS.search(ir.last_name(each.func)) for each in ir.calls_below(function.body)
    ):
        return False
    steps = [each for each in trained(module) if ir.function_of(each.event.call) is function]
    loops = {loop for each in steps for loop in loops_round(each.event.call) if isinstance(loop, ir.For)}
    made_up = all(_is_made_up(module, entered) for each in steps for entered in each.entered)
    return any(each.entered for each in steps) and made_up and all(_counts(module, each.iter) for each in loops)


def is_profiled(module: Module, backward: ir.Node) -> bool:
    """Whether a step is there for a profiler: its function, or script, runs one, counts iterations and keeps nothing
    but what was measured.
    """
    function = ir.function_of(backward)
    calls = [each for each in module.whole.within(function).calls if ir.function_of(each) is function]
    if not any(_PROFILES.match(name) for each in calls for name in module.names.of(each.func)):
        return False
    loops = [each for each in loops_round(backward) if isinstance(each, ir.For)]
    kept = [each for each in calls if _KEEPS.search(ir.last_name(each.func))]
    return all(_counts(module, each.iter) for each in loops) and all(map(_keeps_traces, kept))


def _keeps_traces(call: ir.Call) -> bool:
    """Whether a call saves what a profiler has measured, by its name or its arguments'."""
    names = (ir.last_name(each) for each in (call.func, *call.positional))
    return any(map(_TRACES.search, names))


def is_check(module: Module, backward: ir.Node) -> bool:
    """Whether a backward is there to try or compare something: `model(x).sum().backward()`, in a file that has no
    optimizer, steps nothing and clears no gradients.
    """
    known = events(module)
    steps = (known.of(each) for each in module.whole.called("step"))
    if any(each is not None and each.kind in _STEPS for each in steps):
        return False
    if objects(module).optimizers or module.whole.called("zero_grad"):
        return False
    event = known.of(backward) if isinstance(backward, ir.Call) else None
    loss = held(module, event.subject) if event is not None and event.subject is not None else None
    return isinstance(loss, ir.Call) and ir.called_on(loss, "sum") is not None and not loss.positional


def is_probe(module: Module, backward: ir.Node) -> bool:
    """Whether a backward is there to see how much memory it takes: its function resets and reads the peak, and steps
    nothing, or trains a model of its own that it neither saves, nor returns, nor stores.
    """
    function = ir.function_of(backward)
    if function is None:
        return False
    calls = list(ir.calls_below(function.body))
    names = {name for each in calls for name in module.names.of(each.func)}
    if (
        not names & _RESETS_PEAK
        or not names & _READS_PEAK
        or any(_KEEPS.search(ir.last_name(each.func)) for each in calls)
    ):
        return False
    if not any(ir.last_name(each.func) == "step" for each in calls):
        return True
    bases = [ir.called_on(each, "parameters") for each in calls]
    trained_here = {each.name for each in bases if isinstance(each, ir.Name)}
    own = {name for name in trained_here if name in function.scope.bindings and function.param(name) is None}
    kept = {part.name for each in _kept_values(function) for part in _parts(each) if isinstance(part, ir.Name)}
    return bool(own) and own == trained_here and not own & kept


def _kept_values(function: ir.Function) -> Iterator[ir.Value | None]:
    """What a function returns, and what it stores in attributes and items."""
    yield from (each.value for each in returned(function))
    for statement in ir.walk_statements(function.body):
        if isinstance(statement, ir.Assign) and not all(isinstance(each, ir.Name) for each in statement.targets):
            yield statement.value


def _takes_time(module: Module, function: ir.Function) -> bool:
    """Whether a function reads clocks before and after something."""
    return sum(_reads_clock(module, each) for each in ir.calls_below(function.body)) > 1


def _reads_clock(module: Module, call: ir.Call) -> bool:
    """Whether a call reads a clock, itself or as a function of the project that does."""
    if module.names.of(call.func) & _CLOCKS:
        return True
    callee = module.once(CallGraph).run_by(call)
    return callee is not None and any(module.names.of(each.func) & _CLOCKS for each in ir.calls_below(callee.body))


def _counts(module: Module, value: ir.Value) -> bool:
    """Whether a loop is over numbers: `range(n)`, `tqdm(range(n))`."""
    calls = [each for each in ir.walk_values(value) if isinstance(each, ir.Call)]
    return any(module.names.of(each.func) <= _NUMBERS for each in calls)


def _makes_up(module: Module, value: ir.Value) -> bool:
    """Whether a loop is over a dataset of the file, or a loader of one, whose items are all random."""
    if not isinstance(value, ir.Call):
        return False
    if module.names.of(value.func) == {_LOADER} and value.positional:
        return _makes_up(module, held(module, value.positional[0]))
    cls = local_class(module, value.func)
    item = method(module, cls, "__getitem__") if cls is not None else None
    parts = [part for each in returned(item) for part in _parts(each.value)] if item is not None else []
    return bool(parts) and all(
        isinstance(each, ir.Call) and _are(_RANDOM, module.names.of(each.func)) for each in parts
    )


def _are(kind: re.Pattern[str], names: Collection[str]) -> bool:
    """Whether a value can stand for names of one kind only."""
    return bool(names) and all(map(kind.match, names))


def _parts(value: ir.Value | None) -> list[ir.Value | None]:
    return list(value.items) if isinstance(value, ir.Sequence) else [value]


def _is_made_up(module: Module, entered: Open) -> bool:
    """Whether all that a region computes with is random, or the same for ever."""
    if not isinstance(entered.at, ir.With):
        return False
    calls = [each for each in ir.calls_below(entered.at.body) if ir.last_name(each.func) not in _NO_INPUTS]
    sources = [each for call in calls for arg in call.args for each in _sources(module, arg.value, entered.at)]
    return True in sources and False not in sources


def _saves(module: Module) -> bool:
    return any(_KEEPS.search(ir.last_name(each.func)) for each in module.whole.near(_KEEPS).calls)


def _sources(module: Module, value: ir.Value, at: ir.With) -> tuple[bool | None, ...]:
    """Of what a value is made of: True for random data, False for what may be other data, None for what is no data."""
    return asked(module, _all_sources, value, (False,), at)


def _all_sources(module: Module, value: ir.Value, at: ir.With) -> tuple[bool | None, ...]:
    return tuple(_origins(module, value, at))


def _origins(module: Module, value: ir.Value, at: ir.With) -> Iterator[bool | None]:
    if isinstance(value, ir.Constant) or (isinstance(value, ir.Attribute) and value.attr in _PROPERTIES):
        yield None
    elif isinstance(value, ir.Call):
        yield from _called(module, value, at)
    elif isinstance(value, (ir.Name, ir.Attribute)):
        yield from _kept(module, value, at)
    elif isinstance(value, ir.Subscript):
        yield from _sources(module, value.base, at)
    else:
        for child in value.children():
            yield from _sources(module, child, at)


def _called(module: Module, call: ir.Call, at: ir.With) -> Iterator[bool | None]:
    names = module.names.of(call.func)
    if _are(_RANDOM, names):
        yield True
    elif _are(_NEUTRAL, names):
        yield None
    elif _are(_TAKES_OVER, names) and call.positional:
        yield from _sources(module, call.positional[0], at)
    elif _makes_up(module, call):
        yield True
    elif isinstance(call.func, ir.Attribute) and owner_class(call.func) is not None:
        if is_within(call, at) and module.once(CallGraph).find(call) is None:
            yield None  # a model; what it is given is asked for by itself
        else:
            yield from _followed(module, call, at)
    elif isinstance(call.func, ir.Attribute) and not names & {"builtins.next", "builtins.iter"}:
        yield from _sources(module, call.func.base, at)  # `x.to(device)`
    elif is_within(call, at):
        yield None
    else:
        yield from _followed(module, call, at)


def _kept(module: Module, value: ir.Value, at: ir.With) -> Iterator[bool | None]:
    names = module.names.of(value)
    if _are(_NEUTRAL, names) or _is_model(module, value):
        yield None
    else:
        yield from _followed(module, value, at)


def _followed(module: Module, value: ir.Value, at: ir.With) -> Iterator[bool | None]:
    for leaf in values_of(module, value).leaves:
        if leaf.value is not value and not leaf.is_open:
            yield from _sources(module, leaf.value, at)
            continue
        bindings = reaching(module.names, leaf.value) if isinstance(leaf.value, ir.Name) else []
        sources = [source for each in bindings if (source := unpacked_from(each)) is not None]
        for source in sources:
            yield from _sources(module, source, at)
        if not sources:
            yield False


def _is_model(module: Module, value: ir.Value) -> bool:
    """Whether a value is called somewhere, or owned by an optimizer: a model or a loss."""
    known = objects(module)
    key = known.key(value)
    if key is None:
        return False
    owned = {root for roots in known.owns.values() for root in roots}
    name = ir.last_name(value)
    return key in owned or any(known.key(each.func) == key for each in module.whole.called(name))
