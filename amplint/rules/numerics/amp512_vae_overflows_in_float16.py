"""The VAE of Stable Diffusion XL encodes or decodes in float16.

## What it does
Finds `vae.encode(...)` and `vae.decode(...)` of an `AutoencoderKL`, or of the `vae` of a pipeline of diffusers, if

- it is the VAE of Stable Diffusion XL: the checkpoint, or the default of its option, has "sdxl" or
  "stable-diffusion-xl" in its name, or the code uses a class `StableDiffusionXL...`, or loads a `text_encoder_2` next
  to a `UNet2DConditionModel`;
- its weights are float16: it was loaded with `torch_dtype=torch.float16`, or cast by `.half()` or `.to(...)`.

The first such call is reported for each VAE. If an option of the whole pipeline, or a condition, chooses the
dtype or the checkpoint, the finding is `likely`.

amplint reports nothing if:

- the VAE is cast to float32 or bfloat16 somewhere, or to a dtype that amplint can't see;
- the code reads `force_upcast`, or calls `upcast_vae`;
- the checkpoint is one that was made for float16 ("fp16-fix" is in its name);
- an option for the VAE alone chooses its checkpoint or its dtype (`args.pretrained_vae`);
- the checkpoint is another model, such as a fine-tuned one: its VAE may have been made for float16.

## Why is this bad?
The activations of this VAE pass 65,504, the largest float16, so latents or images become NaN. Its configuration says so
(`force_upcast`), and the pipelines of diffusers cast it to float32 before they use it. A direct call of `encode` or
`decode` doesn't. In training all losses are then NaN, and a GradScaler skips each step.

## Example
```python
pipe = StableDiffusionXLPipeline.from_pretrained(
    "stabilityai/stable-diffusion-xl-base-1.0", torch_dtype=torch.float16
).to("cuda")
latents = pipe.vae.encode(images.half()).latent_dist.sample()
```

## Use instead
```python
pipe = StableDiffusionXLPipeline.from_pretrained(
    "stabilityai/stable-diffusion-xl-base-1.0", torch_dtype=torch.float16
).to("cuda")
pipe.vae.to(dtype=torch.float32)
latents = pipe.vae.encode(images.float()).latent_dist.sample().half()
```

Or load "madebyollin/sdxl-vae-fp16-fix" as the VAE, which was trained for float16.

## Fix safety
There is no fix: what the VAE gets has to become float32 too, and what it returns float16 again, often elsewhere.

## Proof
The test programs use a small replacement for diffusers, whose VAE has activations above 65,504. In the wrong programs
the loss becomes NaN; the corrected programs train.

## References
- [sdxl-vae-fp16-fix](https://huggingface.co/madebyollin/sdxl-vae-fp16-fix): why the VAE gives NaN in float16
- [train_text_to_image_lora_sdxl.py](https://github.com/huggingface/diffusers/blob/main/examples/text_to_image/train_text_to_image_lora_sdxl.py):
  the VAE stays in float32
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.calls.call_sites import also_as
from amplint.model.inference.dtypes import Dtype, dtypes, region_dtypes
from amplint.model.inference.values import Doubt, Follower, Leaf, values_of
from amplint.model.names.tables import items_at
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.key_parts import attribute_of
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.text_scan import code_of
from amplint.model.torch_facts.modules import RETURNS_ITSELF
from amplint.model.usage.mentions_of import near_kept
from amplint.model.usage.module_casts import cast_to, casts, dtype_of
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=("vae & from_pretrained & float16", "vae & from_pretrained & .half("),
    not_shown="verify uses a small model of its own instead of yours",
)

_USES = ("encode", "decode")
_LOADS = ("from_pretrained", "from_single_file")
_VAE = "AutoencoderKL"
_PIPELINE = "StableDiffusionXL"
# Pipelines that become what their checkpoint is.
_ANY_PIPELINE = re.compile(r"DiffusionPipeline|AutoPipelineFor\w+")
_XL = re.compile(r"(?i)sdxl|sd[_-]xl|stable[_-]diffusion[_-]xl")
_FOR_FLOAT16 = re.compile(r"(?i)fp16[-_ ]?fix")
# Code that asks whether the VAE needs float32, or casts it.
_UPCASTS = re.compile(r"force_upcast|upcast_vae|no_half_vae")
_OTHER_PIPELINES = re.compile(r"\bStableDiffusion(?!XL)\w*Pipeline")
_ABOUT_VAES = re.compile(r"(?i)vae|autoencoder")
# What gives the model that it gets.
_GIVES_BACK = ("prepare", "unwrap_model", "compile")
_HALF = "float16"
_WIDE = ("float32", "float64", "bfloat16")
_DEEP = 6
_MANY = 50
_LONGEST = 200


class _Load(NamedTuple):
    """A call that loads a VAE or the pipeline that has it; `keys`: where the VAE is kept. `sure`: nothing is chosen."""

    call: ir.Call
    keys: frozenset[str]
    sure: bool


class _Half(NamedTuple):
    """A call that makes a VAE float16, and where a dtype is chosen, the choice."""

    call: ir.Call
    chosen: Dtype | None
    sure: bool


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The first use of each VAE of Stable Diffusion XL in float16."""
    if any(_UPCASTS.search(code_of(text)) for text in module.texts):
        return
    done = set[int]()
    for call in module.own.near(*_USES).calls:
        vae = ir.called_on(call, *_USES)
        load = _loaded(module, vae) if vae is not None else None
        half = _half(module, load, call) if load is not None else None
        if vae is None or load is None or half is None or half.call.id in done or _runs_in_bfloat16(module, call):
            continue
        done.add(half.call.id)
        sure = load.sure and half.sure
        yield rule.finding(
            module.span(call),
            _message(module, vae, half, "latents" if ir.last_name(call.func) == "encode" else "images"),
            confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        )


def _message(module: Module, vae: ir.Value, half: _Half, what: str) -> str:
    """What a finding says of a VAE, `what` being what it makes; with the condition, where there is room."""
    test = next(iter(half.chosen.leaf.tests), None) if half.chosen is not None else None
    condition = f" if `{module.on_one_line(test.value)}`" if test is not None and test.truth is True else ""
    happens = f"the VAE overflows, and the {what} become NaN; keep the VAE and its input in float32"
    it = f"`{module.on_one_line(vae)}` (the VAE of Stable Diffusion XL)"
    with_condition, without = (
        f"the call on {module.line(half.call)} {casts} {it} to float16{when}: {happens}"
        for casts, when in (("casts", condition), ("casts" if half.sure else "can cast", ""))
    )
    return with_condition if condition and len(with_condition) <= _LONGEST else without


# --- which VAE it is --------------------------------------------------------------------------------------------------


def _loaded(module: Module, vae: ir.Value) -> _Load | None:
    """What loads the VAE of Stable Diffusion XL that a value is; None if it may be another one."""
    keys, loads = set[str](), list[ir.Call | None]()
    for load in _origins(module, vae, keys, _DEEP):
        loads.append(load)
    found = [each for each in loads if each is not None]
    surely = [_is_xl(module, each) for each in found]
    if not found or None in surely:
        return None
    if any(_asks_about_vaes(module, each) for each in found):
        return None
    half = next((each for each in found if _of_load(module, each) is not None), found[0])
    return _Load(half, _with_others(module, keys), all(surely) and len(loads) == len(found) == 1)


def _origins(module: Module, value: ir.Value, keys: set[str], depth: int) -> Iterator[ir.Call | None]:
    """The calls that load what a value can be, None for what is out of sight; `keys` gets all where that is kept."""
    keys |= _on_the_way(module, value)
    if not depth:
        yield None
        return
    for leaf in values_of(module, value).leaves:
        origin = ir.before_calls(leaf.value, *RETURNS_ITSELF) or leaf.value
        keys |= _on_the_way(module, origin)
        if isinstance(origin, ir.Call) and _is_load(origin):
            keys.update(_kept(module, origin))
            yield origin
        elif isinstance(origin, ir.Attribute) and origin.attr == "vae":
            yield from _of_pipeline(module, origin, keys, depth)
        elif isinstance(origin, ir.Call) and ir.last_name(origin.func) in _GIVES_BACK and origin.positional:
            yield from _origins(module, origin.positional[0], keys, depth - 1)
        elif origin is not value and isinstance(origin, (ir.Name, ir.Attribute)):
            yield from _origins(module, origin, keys, depth - 1)
        else:
            yield None


def _on_the_way(module: Module, value: ir.Value) -> set[str]:
    """The keys of what a value is, step by step: a variable, what callers give for it, what an object keeps of that."""
    known, follower = objects(module), module.once(Follower)
    keys, seen, left = set[str](), set[int](), [value]
    while left and len(seen) < _MANY:
        each = left.pop()
        each = ir.before_calls(each, *RETURNS_ITSELF) or each
        if each.id in seen:
            continue
        seen.add(each.id)
        keys.update(key for key in [known.key(each)] if key is not None)
        step = follower.step(each)
        left += [source.value for source in step.sources if not source.is_open] if step is not None else ()
    return keys


def _with_others(module: Module, keys: set[str]) -> frozenset[str]:
    """The keys of something, with those of variables and attributes that are set to it: `vae = pipe.vae`."""
    known, found = objects(module), set(keys)
    for statement in near_kept(module, keys).statements:
        value = statement.value if isinstance(statement, ir.Assign) else None
        if isinstance(statement, ir.Assign) and value is not None:
            if known.key(ir.before_calls(value, *RETURNS_ITSELF) or value) in found:
                found.update(key for each in statement.targets if (key := known.key(each)) is not None)
    return frozenset(found)


def _of_pipeline(module: Module, vae: ir.Attribute, keys: set[str], depth: int) -> Iterator[ir.Call | None]:
    """The calls that load the VAE of a pipeline: with it, or for it (`vae=vae`, `pipe.vae = vae`)."""
    owners = set[str]()
    for load in _origins(module, vae.base, owners, depth - 1):
        given = load.keyword("vae") if load is not None else None
        if given is not None:
            yield from _origins(module, given, keys, depth - 1)
        else:
            yield load
    attributes = {attribute_of(each, "vae") for each in owners}
    known = objects(module)
    for statement in near_kept(module, attributes).statements:
        value = statement.value if isinstance(statement, ir.Assign) else None
        if isinstance(statement, ir.Assign) and value is not None:
            other = known.key(ir.before_calls(value, *RETURNS_ITSELF) or value) not in attributes
            if other and any(known.key(each) in attributes for each in statement.targets):
                yield from _origins(module, value, keys, depth - 1)
    keys |= owners | attributes


def _is_load(call: ir.Call) -> bool:
    base = ir.called_on(call, *_LOADS)
    name = ir.last_name(base) if base is not None else ""
    return name == _VAE or name.startswith(_PIPELINE) or _ANY_PIPELINE.fullmatch(name) is not None


def _kept(module: Module, load: ir.Call) -> Iterator[str]:
    """Where what a call loads is kept, also if methods are called on it first."""
    made: ir.Value = load
    while isinstance(made.parent, ir.Attribute) and isinstance(made.parent.parent, ir.Call):
        made = made.parent.parent
    statement = made.parent
    for each in statement.targets if isinstance(statement, ir.Assign) else ():
        key = objects(module).key(each)
        if key is not None:
            yield key


def _is_xl(module: Module, load: ir.Call) -> bool | None:
    """Whether a call surely loads Stable Diffusion XL; None: it may load something else."""
    base = ir.called_on(load, *_LOADS)
    name = ir.last_name(base) if base is not None else ""
    given = load.keyword("pretrained_model_name_or_path") or next(iter(load.positional), None)
    if given is None:
        return None
    leaves = values_of(module, given).leaves
    texts = [each.value.value for each in leaves if isinstance(each.value, ir.Constant)]
    if any(not _is_name_of_xl(each) for each in texts if each is not None):
        return None
    closed = all(isinstance(each.value, ir.Constant) and each.doubt is Doubt.NONE for each in leaves)
    named = any(isinstance(each, str) for each in texts)
    if name == _VAE and not named and any(_ABOUT_VAES.search(module.text(each)) for each in _read(given, *leaves)):
        return None  # a checkpoint of its own
    if named or name.startswith(_PIPELINE):
        return named and closed
    return False if name == _VAE and module.once(_uses_xl) else None


def _is_name_of_xl(checkpoint: object) -> bool:
    """Whether a checkpoint has the VAE that overflows, by its name."""
    return isinstance(checkpoint, str) and bool(_XL.search(checkpoint)) and not _FOR_FLOAT16.search(checkpoint)


def _read(given: ir.Value, *leaves: Leaf) -> Iterator[ir.Value]:
    yield given
    for leaf in leaves:
        yield leaf.value
        yield from (each.value for each in leaf.tests)


def _uses_xl(module: Module) -> bool:
    """Whether the code is for Stable Diffusion XL: by the classes that it calls, or by the parts that it loads."""
    texts = [code_of(text) for text in module.texts]
    if any("UNet2DConditionModel" in text for text in texts):
        for call in module.whole.near("text_encoder_2").calls:
            given = call.keyword("subfolder")
            if isinstance(given, ir.Constant) and given.value == "text_encoder_2":
                return True
    if any(_OTHER_PIPELINES.search(text) for text in texts):
        return False
    roots = (ir.dotted(each.func) for each in module.whole.near(re.compile(rf"\b{_PIPELINE}")).calls)
    return any(part.startswith(_PIPELINE) for root in roots for part in root.split("."))


# --- which dtype it has -----------------------------------------------------------------------------------------------


def _half(module: Module, load: _Load, use: ir.Call) -> _Half | None:
    """What makes a VAE float16 before it is used; None if it may have another dtype."""
    found = _of_load(module, load.call)
    function = ir.function_of(use)
    for each in casts(module):
        if ir.last_name(each.call.func) in _LOADS:
            continue
        dtype = cast_to(module, each.call)
        if each.key not in load.keys:
            if dtype in _WIDE and not also_as(module, each.key).isdisjoint(load.keys):
                return None
            continue
        given = dtype_of(module, each.call)
        half = _Half(each.call, None, sure=True) if dtype == _HALF else None
        if half is None and dtype not in _WIDE and given is not None:
            half = _chosen(module, each.call, given)
        if half is None:
            return None
        if ir.function_of(each.call) is function and each.call.id > use.id:
            continue
        if _asks_about_vaes(module, each.call):
            return None
        found = half._replace(sure=half.sure and not conditions_round(each.call))
    return found


def _asks_about_vaes(module: Module, call: ir.Call) -> bool:
    """Whether it hangs on a VAE, or on an option about one, that a call is made."""
    return any(_ABOUT_VAES.search(module.text(test)) for test, _ in conditions_round(call))


def _of_load(module: Module, load: ir.Call) -> _Half | None:
    """The load of a VAE, if it gives it float16."""
    given = [each for name in ("torch_dtype", "dtype") if (each := load.keyword(name)) is not None]
    for arg in load.args:
        if arg.star == "**":
            given += [each for name in ("torch_dtype", "dtype") for each in items_at(module, arg.value, name)]
    return _chosen(module, load, given[0]) if given else None


def _chosen(module: Module, call: ir.Call, given: ir.Value) -> _Half | None:
    """A call that makes something float16 by its dtype, or can do so, unless an option about VAEs decides it."""
    every = dtypes(module, given)
    halves = [each for each in every if each.name == _HALF]
    tests = (test.value for each in every for test in each.leaf.tests)
    if not halves or any(_ABOUT_VAES.search(module.text(each)) for each in (given, *tests)):
        return None
    only = len(halves) == len(every)
    return _Half(call, None if only else halves[0], only)


def _runs_in_bfloat16(module: Module, call: ir.Call) -> bool:
    """Whether the innermost region round a call, in its function, computes in bfloat16."""
    up = call.parent
    while up is not None and not isinstance(up, (ir.Function, ir.Class)):
        for item in reversed(up.items) if isinstance(up, ir.With) else ():
            region = region_of(module, item.context) if isinstance(item.context, ir.Call) else None
            if region is not None:
                return all(each.name == "bfloat16" for each in region_dtypes(module, region))
        up = up.parent
    return False
