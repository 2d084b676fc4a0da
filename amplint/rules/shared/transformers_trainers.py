"""The Trainers of transformers and TRL that a file creates, and what they are given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import names_of
from amplint.model.calls.external_calls import ancestors, local_class, method
from amplint.model.names.tables import put_at
from amplint.model.syntax import ir
from amplint.rules.shared.default_values import number_or_default
from amplint.rules.shared.framework_releases import is_class_of

if TYPE_CHECKING:
    from amplint.model import Module

FLOAT16 = "fp16"  # the argument that asks for it
_LIBRARIES, _TRL = ("transformers",), ("trl",)
_TRAINERS = ("Trainer", "Seq2SeqTrainer")
# The Trainers of TRL, and their arguments with the default learning rates of release 0.24; that of transformers.
_OF_TRL = ("DPOTrainer", "GRPOTrainer", "KTOTrainer", "RewardTrainer", "SFTTrainer")
_RATES = {"DPOConfig": 1e-6, "GRPOConfig": 1e-6, "KTOConfig": 1e-6, "RewardConfig": 1e-4, "SFTConfig": 2e-5}
_RATE = 5e-5


# What a class of the project's own replaces where it makes other arguments, optimizers or steps of them.
_STEPS = (
    "__init__", "train", "training_step", "_inner_training_loop", "create_optimizer", "create_optimizer_and_scheduler",
    "create_accelerator_and_postprocess", "get_optimizer_cls_and_kwargs", "_wrap_model",
)  # fmt: skip
# The methods that loop over the data, and clip (transformers/trainer.py).
_LOOPS = ("train", "_inner_training_loop")
_DEEP = 4
_ARGUMENTS = "TrainingArguments"
_CLASS = re.compile(r"(?m)^[ \t]*class[ \t]+\w+[ \t]*\(")


class Trainer(NamedTuple):
    """A construction of a Trainer, with its model and its TrainingArguments as far as they are written there."""

    call: ir.Call
    model: ir.Value | None
    args: ir.Value | None


def trainers(module: Module) -> Iterator[Trainer]:
    """The Trainers that a file creates, also of a class of the project that trains as transformers' does."""
    own = [name for cls in _classes(module) for name in names_of(module, cls)]
    words = module.words("transformers.*Trainer", *(f"trl.*{name}" for name in _OF_TRL))
    for call in module.own.near(*words, *own).calls:
        if _is_trainer(module, call.func):
            given = dict(zip(("model", "args"), call.positional, strict=False))
            model, args = (call.keyword(name) or given.get(name) for name in ("model", "args"))
            yield Trainer(call, model, args)


def _classes(module: Module) -> Iterator[ir.Class]:
    """The classes of the project in sight that inherit something, where a file sets a Trainer's arguments."""
    if module.own.near(_ARGUMENTS).calls:
        for each in module.whole.near(_CLASS).statements:
            if isinstance(each, ir.Class) and len(each.bases) == 1:
                yield each


def _is_trainer(module: Module, func: ir.Value, depth: int = _DEEP) -> bool:
    """Whether a class is a Trainer, or one of TRL's, or inherits one and replaces nothing of what trains."""
    if is_class_of(module, func, _LIBRARIES, *_TRAINERS) or is_class_of(module, func, _TRL, *_OF_TRL):
        return True
    cls = local_class(module, func) if depth else None
    if cls is None or len(cls.bases) != 1 or not _is_trainer(module, cls.bases[0].value, depth - 1):
        return False
    methods = {each.name for each in cls.body.statements if isinstance(each, ir.Function)}
    return not methods & set(_STEPS)


def is_in_trainer(module: Module, node: ir.Node) -> bool:
    """Whether code is in a method of a class that inherits transformers' Trainer, and that one's loop over the data.

    A class with a loop of its own clips for itself, or not at all.
    """
    function = ir.function_of(node)
    cls = function.cls if function is not None else None
    if cls is None or any(method(module, cls, each) is not None for each in _LOOPS):
        return False
    family = (cls, *ancestors(module, cls))
    bases = (base.value for each in family for base in each.bases)
    return any(is_class_of(module, base, _LIBRARIES, *_TRAINERS) for base in bases)


def makes_arguments(module: Module, call: ir.Call) -> bool:
    """Whether a call creates the arguments of a Trainer."""
    return is_class_of(module, call.func, _LIBRARIES, "TrainingArguments", "Seq2SeqTrainingArguments") or is_class_of(
        module, call.func, _TRL, *_RATES
    )


def argument_given(module: Module, made: ir.Call, name: str) -> ir.Value | None:
    """What a Trainer's arguments are given by a name, also in the one dict that the call unpacks."""
    given, tables = made.keyword(name), [arg.value for arg in made.args if arg.star == "**"]
    if given is not None or len(tables) != 1:
        return given
    put = put_at(module, tables[0], name)
    return put[0] if len(put) == 1 else None


def learning_rate(module: Module, made: ir.Call) -> float | None:
    """The learning rate that arguments set, or have by default; None where the code doesn't show it."""
    given = argument_given(module, made, "learning_rate")
    if given is None:
        return None if made.unpacks("**") else _RATES.get(ir.last_name(made.func), _RATE)
    return number_or_default(module, given)


def has_engine(module: Module, made: ir.Value) -> bool:
    """Whether a Trainer's arguments may give it DeepSpeed, which scales by itself and keeps float32 weights."""
    engine = argument_given(module, made, "deepspeed") if isinstance(made, ir.Call) else None
    return engine is not None and not ir.is_none(engine)
