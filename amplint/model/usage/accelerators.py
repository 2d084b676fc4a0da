"""Accelerators of the accelerate library: which values are one, what their methods do, how they were made.

What `accelerate` does is as of its release 1.15 (accelerate/accelerator.py, accelerate/optimizer.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.external_calls import local_class
from amplint.model.inference.declared_choices import option_of
from amplint.model.inference.declared_settings import Option
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.values import Doubt, held, option_read, values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.torch_facts.names import ACCELERATE

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.objects.event import EventKind

LIBRARY, _NAME = "accelerate", "accelerator"
SCALES = "fp16"  # the precision in which an Accelerator has a scaler
_METHODS: dict[str, EventKind] = {
    "backward": "backward",
    "clip_grad_norm_": "clip",
    "clip_grad_value_": "clip",
    "unscale_gradients": "unscale_",
}
# Plugins of engines that scale, unscale and clip by themselves.
_ENGINES = ("deepspeed_plugin", "deepspeed_plugins", "megatron_lm_plugin")
_PLUGIN = _ENGINES[0]
PERIOD = "gradient_accumulation_steps"
# A plugin that has the period in place of the argument, and what it is called there (accelerate/utils/dataclasses.py).
_ACCUMULATES, _STEPS = "gradient_accumulation_plugin", "num_steps"
_SKIPPED, _PRECISION = "optimizer_step_was_skipped", "mixed_precision"
# Libraries whose trainers and models hold and take Accelerators.
_BUILT_ON_IT = ("transformers", "diffusers", "trl", "peft")
# What only an Accelerator has beside its `backward`: by these it is known where another file makes it.
_TELLING = ("prepare", "accumulate", "unwrap_model", "wait_for_everyone", "gather_for_metrics", "clip_grad_norm_")


class Scaling(NamedTuple):
    """How far an Accelerator that may be for float16 is.

    `is_sure`: it is for nothing else; `by_default`: it is, or an option is whose default is float16; `is_chosen`: the
    code writes float16 down as one of its choices, `"fp16" if half else "no"`, or an option of the file may be that.
    """

    is_sure: bool
    by_default: bool
    is_chosen: bool

    @property
    def is_asked_for(self) -> bool:
        """Whether the file itself asks for float16, and not only accelerate's own configuration may."""
        return self.by_default or self.is_chosen


class ScaledBackward(NamedTuple):
    """A backward pass of an Accelerator, which may scale the loss; `how`: how far it does."""

    call: ir.Call
    accelerator: ir.Value
    how: Scaling


class UnscaledBackward(NamedTuple):
    """A backward pass of an Accelerator that is made without a scaler.

    `is_sure`: the file chooses its precision; else accelerate's own configuration may choose float16.
    """

    call: ir.Call
    accelerator: ir.Value
    is_sure: bool


class Accelerators:
    """Recognises the Accelerators of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.imported = self._imports(LIBRARY)
        self.is_used = self.imported or self._is_handed_in()

    def owns(self, value: ir.Value) -> bool:
        """Whether a value is an Accelerator, by how it is made or called in a file that uses accelerate."""
        if not self.is_used:
            return False
        return self._is_called_so(value) or bool(self._makers(value))

    def kind(self, call: ir.Call) -> EventKind | None:
        """What a call of an Accelerator's method is to gradients: "backward", "clip" or "unscale_"."""
        func = call.func
        if not isinstance(func, ir.Attribute) or func.attr not in _METHODS or not self.owns(func.base):
            return None
        return _METHODS[func.attr] if call.args or func.attr == "unscale_gradients" else None

    def made(self, value: ir.Value) -> list[ir.Call]:
        """The constructions that an Accelerator can come from; where its own isn't in sight, all of the file."""
        found = self._makers(value)
        return found or self._module.calls_of(*ACCELERATE)

    def period(self, made: ir.Call) -> ir.Value | None:
        """The number of micro steps that an Accelerator is made with, by itself or in a plugin; None: one."""
        plugin = made.keyword(_ACCUMULATES)
        for leaf in values_of(self._module, plugin).leaves if plugin is not None else ():
            if isinstance(leaf.value, ir.Call) and ir.last_name(leaf.value.func) == "GradientAccumulationPlugin":
                given = leaf.value.keyword(_STEPS)
                return given if given is not None else next(iter(leaf.value.positional), None)
        return made.keyword(PERIOD)

    def precisions(self, value: ir.Value) -> set[str | None]:
        """What its `mixed_precision` can be; None among them where it is decided elsewhere."""
        found: set[str | None] = set()
        for call in self.made(value):
            given, old = call.keyword("mixed_precision"), call.keyword(SCALES)
            if given is None:  # releases before 0.9 had a flag for float16
                found.add(SCALES if isinstance(old, ir.Constant) and old.value is True else None)
            else:
                found |= {each.name if each.kind == "str" else None for each in dtypes(self._module, given)}
        return found or {None}

    def _scales_by_default(self, value: ir.Value) -> bool:
        """Whether the precision of all Accelerators that a value can be is an option whose default is float16."""
        given = [call.keyword("mixed_precision") for call in self.made(value)]
        read = [held(self._module, each) if each is not None else None for each in given]
        options = [option_read(self._module, each) if isinstance(each, ir.Attribute) else None for each in read]
        defaults = [each.default if each is not None else None for each in options]
        return bool(defaults) and all(isinstance(each, ir.Constant) and each.value == SCALES for each in defaults)

    def _can_choose_scaling(self, value: ir.Value) -> bool:
        """Whether the code chooses float16 for an Accelerator in one of its branches, or has an option for it."""
        given = [each for call in self.made(value) if (each := call.keyword("mixed_precision")) is not None]
        read = [held(self._module, each) for each in given]
        options = [option_of(self._module, each) if isinstance(each, ir.Attribute) else None for each in read]
        if any(each is not None and _offers_scaling(each) for each in options):
            return True
        leaves = [leaf for each in given for leaf in values_of(self._module, each).leaves]
        return any(
            leaf.doubt is Doubt.NONE and isinstance(leaf.value, ir.Constant) and leaf.value.value == SCALES
            for leaf in leaves
        )

    @cached_property
    def is_reckoned_with(self) -> bool:
        """Whether the file reckons with float16, whoever chooses an Accelerator's precision: it asks whether the scaler
        has skipped a step, or compares the precision with float16, or looks it up in a table that has that.
        """
        asked = self._module.own.near(_SKIPPED, _PRECISION).values
        return any(
            isinstance(each, ir.Attribute)
            and (each.attr == _SKIPPED or (each.attr == _PRECISION and self._is_asked_for_scaling(each)))
            and self.owns(each.base)
            for each in asked
        )

    def _is_asked_for_scaling(self, precision: ir.Attribute) -> bool:
        """Whether a precision is compared with float16, or looked up in a table that has it."""
        up = precision.parent
        if isinstance(up, ir.Compare):
            among = ir.walk_values(up)
        elif isinstance(up, ir.Subscript) and up.index is precision:
            table = held(self._module, up.base)
            among = iter([key for key, _ in table.items if key is not None] if isinstance(table, ir.Mapping) else [])
        else:
            return False
        return any(isinstance(each, ir.Constant) and each.value == SCALES for each in among)

    def has_no_scaler(self, value: ir.Value) -> bool:
        """Whether an Accelerator has no scaler of its own, whatever the precision: for an engine, or on the CPU."""
        made = self.made(value)
        on_cpu = (call.keyword("cpu") for call in made)
        return (
            any(call.keyword(each) is not None for call in made for each in _ENGINES)
            or any(isinstance(each, ir.Constant) and each.value is True for each in on_cpu)
            or needs_engine(self._module)
        )

    def prepared(self) -> Iterator[ir.Call]:
        """The calls of `prepare` of Accelerators."""
        for call in self._module.whole.called("prepare") if self.is_used else ():
            base = ir.called_on(call, "prepare")
            if base is not None and self.owns(base):
                yield call

    def scaled_backwards(self) -> Iterator[ScaledBackward]:
        """The backward passes in the file of Accelerators that may be for float16."""
        for call in self._module.own.called("backward") if self.is_used else ():
            base = ir.called_on(call, "backward")
            if base is not None and self.kind(call) == "backward" and (how := self.scaling(base)) is not None:
                yield ScaledBackward(call, base, how)

    def scaling(self, value: ir.Value) -> Scaling | None:
        """How far an Accelerator is for float16; None where it can't be."""
        precisions = self.precisions(value)
        if not precisions & {SCALES, None}:
            return None
        is_sure = precisions == {SCALES}
        return Scaling(is_sure, is_sure or self._scales_by_default(value), self._can_choose_scaling(value))

    def unscaled_backwards(self) -> Iterator[UnscaledBackward]:
        """The backward passes in the file of Accelerators that are made in sight, and not for float16."""
        for call in self._module.own.called("backward") if self.is_used else ():
            base = ir.called_on(call, "backward")
            made = self._makers(base) if base is not None and self.kind(call) == "backward" else []
            if base is None or not made or any(each.unpacks() for each in made) or self.has_no_scaler(base):
                continue
            given = [each.keyword("mixed_precision") for each in made]
            chosen = self.precisions(base) - {None} if None in given else self.precisions(base)
            if not chosen & {SCALES, None} and (None not in given or not any(given)):
                yield UnscaledBackward(call, base, None not in given)

    def _imports(self, *libraries: str) -> bool:
        """Whether the file imports one of some libraries, or from it."""
        return any(
            name.partition(".")[0] in libraries
            for each in self._module.whole.near(*libraries).imports
            for name in ([each.module] if each.module else [alias.name for alias in each.aliases])
        )

    def _is_handed_in(self) -> bool:
        """Whether the file uses what is called an accelerator as one of accelerate's, which another file makes."""
        backwards = (ir.called_on(each, "backward") for each in self._module.whole.called("backward"))
        if not any(map(self._is_called_so, backwards)):
            return False
        others = (ir.called_on(each, *_TELLING) for each in self._module.whole.called(*_TELLING))
        return any(map(self._is_called_so, others)) or self._imports(*_BUILT_ON_IT)

    def _is_called_so(self, value: ir.Value | None) -> bool:
        return value is not None and ir.last_name(value).lower().lstrip("_") == _NAME and not self._is_another(value)

    def _makers(self, value: ir.Value) -> list[ir.Call]:
        """The constructions that a variable or attribute holds, where it holds nothing else."""
        if not isinstance(value, (ir.Name, ir.Attribute)):
            return []
        sources = list(objects(self._module).sources(value))
        makers = [each for each in sources if isinstance(each, ir.Call) and self._is_maker(each)]
        return makers if len(makers) == len(sources) else []

    def _is_another(self, value: ir.Value) -> bool:
        """Whether what is called an accelerator is made by a class of the project or of another library alone."""
        sources = objects(self._module).sources(value) if isinstance(value, (ir.Name, ir.Attribute)) else ()
        return bool(sources) and all(isinstance(each, ir.Call) and self._makes_another(each.func) for each in sources)

    def _makes_another(self, func: ir.Value) -> bool:
        if local_class(self._module, func) is not None:
            return True
        name = self._module.names.only(func) or ""
        library, _, cls = name.partition(".")
        return bool(library) and library[0].isalpha() and library != LIBRARY and cls.rpartition(".")[2][:1].isupper()

    def _is_maker(self, call: ir.Call) -> bool:
        return bool(self._module.names.of(call.func) & ACCELERATE)


def accelerators(module: Module) -> Accelerators:
    """The module's Accelerators."""
    return module.once(Accelerators)


def needs_engine(module: Module) -> bool:
    """Whether a program of accelerate raises without DeepSpeed, which makes no scaler: it reads an attribute of the
    `deepspeed_plugin`, which is None else, where it prepares or trains, and asks nowhere whether there is one.
    """
    return module.once(_needs_engine)


def _needs_engine(module: Module) -> bool:
    reads = [each for each in module.own.near(_PLUGIN).values if isinstance(each, ir.Attribute)]
    reads = [each for each in reads if isinstance(each.base, ir.Attribute) and each.base.attr == _PLUGIN]
    trains = {ir.function_of(each) for each in module.own.called("prepare", "backward")} if reads else set()
    return any(
        ir.function_of(each) in trains and not any(True for _ in conditions_round(each)) for each in reads
    ) and not any(_asks_for_engine(module, each) for each in module.own.statements)


def _asks_for_engine(module: Module, statement: ir.Statement) -> bool:
    """Whether a statement asks whether DeepSpeed is used, or catches what its absence raises."""
    test = statement.test if isinstance(statement, (ir.If, ir.Assert)) else None
    return isinstance(statement, ir.Try) or (test is not None and "deepspeed" in module.text(test).lower())


def _offers_scaling(option: Option) -> bool:
    """Whether an option that is off by default may be float16: one of its choices is, or it has none."""
    choices, default = option.call.keyword("choices"), option.default
    is_off = default is None or (isinstance(default, ir.Constant) and default.value in (None, "no"))
    return is_off and not option.is_fixed and (choices is None or any(each.value == SCALES for each in option.choices))
