"""A precision option, or a condition on it, has no effect or selects another precision than it names.

## What it does
Finds, with certainty:

- an option that is always on: `action="store_true"` with `default=True`;
- a `--no-amp` with `action="store_false"`, if the code reads `not args.no_amp`: giving the option enables AMP;
- a comparison that is never true: of a `torch.dtype` with a string, or of a `torch.device` with a string
  (`device == "cuda"`) on which AMP depends;
- two strings joined by `or` or `and`: `precision == "fp16" or "bf16"` is always true;
- a condition for bfloat16 that selects `torch.float16`, or swapped dtypes
  (`torch.bfloat16 if fp16 else torch.float16`);
- `accelerator.native_amp = amp`: if `amp` is false, it disables the autocast of an Accelerator, but not the scaler
  that `mixed_precision="fp16"` creates.

Finds, as *likely*:

- an option of mixed precision that no code uses, or only a function that the program never calls;
- a choice of an option that has no effect: with `choices=["fp32", "amp", "bf16"]`, the code compares the option only
  with `"amp"`;
- an option that disables autocast only in training, while the evaluation in the same file always runs under autocast;
- a parameter such as `use_amp` that a training function, or the class of a trainer, never reads, while calls pass it;
- a field such as `use_amp` of a configuration, or a constant such as `USE_AMP`, that no code of a training program
  reads;
- a setting such as `self.use_amp = config.get("use_amp")` that a program without autocast only prints or logs;
- a setting that the code reads at the top level of a configuration (`config.get("use_amp")`), while the file keeps it
  in a section (`{"training": {"use_amp": False}}`).

amplint reports nothing:

- about an option, a choice or a field whose name another file of the program contains;
- about an option or a field that is passed on with all others to code that amplint can't see
  (`Trainer(**vars(args))`);
- about a choice, if the code uses the option in another way than to compare it with strings;
- about a parameter that other code may require: of a method of a derived class, of a function with a decorator, or of
  a function that is passed to other code.

## Why is this bad?
Nothing raises. A run that should be in half precision trains in float32, slower and with more memory. A run that should
be in bfloat16 trains in float16, without a scaler. Whoever compares two precisions may compare a run with itself.

If `accelerator.native_amp` is false, the loss is still scaled, but the forward pass runs in float32, and
`accelerator.clip_grad_norm_` doesn't unscale the gradients: it clips them while they are multiplied by the loss scale.

## Example
```python
parser.add_argument("--precision", choices=["fp32", "amp", "bf16"], default="amp")
args = parser.parse_args()
use_amp = args.precision == "amp"
with torch.autocast("cuda", enabled=use_amp):
    loss = criterion(model(batch), target)
```

## Use instead
```python
parser.add_argument("--precision", choices=["fp32", "amp", "bf16"], default="amp")
args = parser.parse_args()
dtype = torch.bfloat16 if args.precision == "bf16" else torch.float16  # float16 needs a GradScaler
with torch.autocast("cuda", dtype=dtype, enabled=args.precision != "fp32"):
    loss = criterion(model(batch), target)
```

## Fix safety
Unsafe, because the program then trains in another precision than before. The fix depends on the finding:

- for a device that is compared with a string, the fix compares `device.type`;
- for two strings joined by `or` or `and`, the fix lists both strings;
- for a condition that selects the wrong dtype, the fix writes the dtype that the condition asks for.

There is no fix for the other findings: amplint can't tell what an option or a comparison should do.

## Proof
The test programs are not executed (`shows=none`): a program that trains in another precision than its option names
shows no error by itself. A test of amplint evaluates the comparisons, and the strings joined by `or` or `and`, in
Python: they give the wrong answer that the message states.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
- [Python: Boolean operations](https://docs.python.org/3/reference/expressions.html#boolean-operations)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.model.inference.declared_settings import Options, option_named
from amplint.model.inference.formulas import negated, possible
from amplint.model.inference.python_types import DTYPE, kinds
from amplint.model.inference.value_sets import decided
from amplint.model.names.grad_mode import without_gradients
from amplint.model.objects.autocast_objects import regions
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round, parts_that_hold
from amplint.model.syntax.text_scan import code_of
from amplint.model.usage.accelerators import accelerators
from amplint.registry.rule import Rule
from amplint.rules.shared.device_tests import device_tests
from amplint.rules.shared.misread_settings import announced, read_beside
from amplint.rules.shared.option_reads import are_given_away, is_unread, texts_asked
from amplint.rules.shared.precision_tests import (
    BFLOAT16,
    FLOAT16,
    asked_dtype,
    half_dtype,
    names_full,
    names_half,
    names_switch,
)
from amplint.rules.shared.unread_settings import unread_fields, unread_parameters

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.positions import Span

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "add_argument & fp16",
        "add_argument & bf16",
        "add_argument & mixed_precision",
        "add_argument & use_amp",
        "add_argument & --amp",
        "add_argument & loss_scale",
        "add_argument & opt_level",
        "store_false & amp",
        "use_amp & =",
        "use_fp16 & =",
        "use_bf16 & =",
        "mixed_precision & =",
        "USE_AMP",
        "USE_FP16",
        "USE_BF16",
        "MIXED_PRECISION",
        "fp16: bool",
        "bf16: bool",
        "amp: bool",
        "autocast & enabled & __init__",
        "autocast & amp & def",
        "choices & bf16",
        "choices & fp16",
        "choices & float16",
        "choices & amp",
        "choices & mixed",
        "precision & fp16 & torch",
        "precision & bf16 & torch",
        "autocast & float16 & =",
        "autocast & enabled & no_grad",
        "autocast & enabled & inference_mode",
        "bf16 & torch.float16",
        "fp16 & torch.bfloat16",
        "bf16 & torch.half",
        "fp16 & torch.float16 & ==",
        "device & autocast & cuda",
        "device & GradScaler & cuda",
        "device & torch.float16 & cuda",
        "_amp & torch.device",
        "native_amp",
    ),
    not_shown="a step in another precision than the option names is usually right by itself",
)

_CHOICE = "amplint can't tell what the choice should do"
_MEANING = "amplint can't tell what the option should do"
_LIKELY = Confidence.LIKELY
# What may read any of the parsed arguments, by names that are not written, or in code out of sight; strings are taken
# out, so that `getattr(args, "fp16")` has none of its second argument.
_TAKES_ALL = re.compile(
    r"\*\*\s*(?:vars\(|args\b|opts?\b|options\b|flags\b|hparams\b)|\*\*\s*[\w.]+\.__dict__|from_argparse_args|setattr\("
    r"|\b(?:args|opts?|options|flags|hparams|config|cfg|params)\.__dict__|update\(\s*vars\("
    r"|parse_args_into_dataclasses|getattr\(\s*\w+\s*,\s*[^'\"\s,)]"
    r"|\b(?:deepspeed|fairseq|megatron|detectron2)\b"
)
# What starts another program, which may be given the same command line.
_STARTS = re.compile(r"\b(?:subprocess|os\.system|execv\w*)\b")
_NO = re.compile(r"(?i)no_|disable_")
_RETIRED = re.compile(r"(?i)deprecat|ignored|unused|not (?:used|supported|implemented)|legacy|no effect|todo|compatib")


# Options that only matter while mixed precision is on.
_TUNING = re.compile(
    r"(?i)(?:(?:fp16|amp|apex)_)?(?:opt_level|(?:(?:static|dynamic|init(?:ial)?)_)?loss_scale|init_scale)"
)


class _Ignored(NamedTuple):
    """What is to be reported: the place, the message, and the text that corrects the place, or why there is none."""

    node: ir.Value | Span
    message: str
    corrected: str | None = None
    withheld: str | None = None
    confidence: Confidence | None = None


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Choices that nothing asks for, tests that are never or always true, and dtypes that are not what is asked."""
    for each in (
        *_unread(module),
        *_unread_elsewhere(module),
        *_misread(module),
        *_always_on(module),
        *_inverted(module),
        *_on_in_evaluation(module),
        *_same_as_full(module),
        *_never_true(module),
        *_of_device(module),
        *_overridden(module),
        *_joined(module),
        *_other_dtype(module),
    ):
        fix = None
        if each.corrected is not None:
            assert isinstance(each.node, ir.Node)
            edit = Edit(*module.layout.outer(each.node), each.corrected)
            fix = Fix(Applicability.UNSAFE, f"Replace with `{each.corrected}`", (edit,))
        span = module.span(each.node) if isinstance(each.node, ir.Node) else each.node
        yield rule.finding(span, each.message, fix=fix, withheld=each.withheld, confidence=each.confidence)


def _unread(module: Module) -> Iterator[_Ignored]:
    """Each option of mixed precision that the program declares, and does not read but to log it."""
    declared, unread = module.once(Options).declared, False
    switches = list(filter(names_switch, declared))
    if not switches or module.once(_may_read_all) or are_given_away(module):
        return
    tuning = list(filter(_TUNING.fullmatch, declared))
    for attr in (*switches, *tuning):
        call = declared[attr][0]
        name = call.positional[0]
        if len(declared[attr]) > 1 or not module.is_own(call) or _is_retired(call):
            continue
        if (unread and attr in tuning) or not is_unread(module, attr, call):
            continue
        unread = True
        flag = module.text(name).strip("\"'")
        said = f"`{flag}` has no effect: no code of this program uses `{attr}`; use the option, or remove it"
        yield _Ignored(name, said, withheld=_MEANING, confidence=_LIKELY)


def _may_read_all(module: Module) -> bool:
    """Whether code of the file may read settings by names that are not written."""
    code = code_of(module.source.text)
    return _TAKES_ALL.search(code) is not None or ("sys.argv" in code and _STARTS.search(code) is not None)


def _unread_elsewhere(module: Module) -> Iterator[_Ignored]:
    """Each parameter for AMP that a function gets and doesn't read, and each such field of a configuration."""
    for each in unread_parameters(module):
        assert each.function is not None
        what = each.function.cls.name if each.function.cls is not None and each.function.name == "__init__" else ""
        said = f"`{each.name}` has no effect: `{what or each.function.name}` never reads this parameter"
        if each.region is not None:
            said += f", and the autocast region on {module.line(each.region.call)} does not depend on it"
        yield _Ignored(each.span, f"{said}; use the parameter, or remove it", withheld=_MEANING, confidence=_LIKELY)
    for each in unread_fields(module) if not module.once(_may_read_all) else ():
        said = f"`{each.name}` has no effect: no code of this program reads this setting; use the setting, or remove it"
        yield _Ignored(each.span, said, withheld=_MEANING, confidence=_LIKELY)


def _misread(module: Module) -> Iterator[_Ignored]:
    """Each setting that is read only to say that it is on, or that is looked for in the wrong place."""
    for each in announced(module):
        said = (
            f"`{each.name}` has no effect: this program only says that it is on, and trains without autocast; use the "
            "setting, or remove it"
        )
        yield _Ignored(each.read, said, withheld=_MEANING, confidence=_LIKELY)
    for one in read_beside(module):
        read, place = module.on_one_line(one.read), module.line(one.written)
        said = (
            f'`{read}` looks for `{one.key}` outside of "{one.section}", but the configuration on {place} has '
            f"`{one.key}` in that section: the setting has no effect; read the setting from that section"
        )
        yield _Ignored(
            one.read, said, withheld="amplint can't tell which other configurations there are", confidence=_LIKELY
        )


def _always_on(module: Module) -> Iterator[_Ignored]:
    """Each switch of mixed precision that is on whether or not the command line has it."""
    for attr, calls in module.once(Options).declared.items():
        option = option_named(module, attr)
        default = calls[0].keyword("default")
        if option is None or default is None or not module.is_own(calls[0]) or not names_switch(attr):
            continue
        if (
            option.stores
            and option.is_fixed
            and not option.unset
            and not option.changed
            and isinstance(name := calls[0].positional[0], ir.Constant)
            and _is_read(module, attr)
        ):
            message = (
                f'`{name.value}` is always on: with `default=True`, "store_true" changes nothing; use '
                "`action=argparse.BooleanOptionalAction`"
            )
            yield _Ignored(default, message, withheld="amplint can't tell whether the default or the action is meant")


def _inverted(module: Module) -> Iterator[_Ignored]:
    """Each `--no-amp` that is true unless it is on the command line, where the code negates it."""
    for attr, calls in module.once(Options).declared.items():
        option = option_named(module, attr)
        if option is None or not module.is_own(option.call) or not _NO.match(attr) or not names_switch(attr):
            continue
        is_on = option.default is None or (isinstance(option.default, ir.Constant) and option.default.value is True)
        if option.stores is not False or not is_on or option.changed or option.call.keyword("dest") is not None:
            continue
        reads = [each for each in module.whole.near(attr).values if ir.last_name(each) == attr]
        reads = [each for each in reads if not getattr(each, "bound", False) and not _is_passed_on(each, attr)]
        action = calls[0].keyword("action")
        if reads and action is not None and all(isinstance(each.parent, ir.Unary) for each in reads):
            flag = module.text(option.call.positional[0]).strip("\"'")
            message = (
                f'giving `{flag}` enables what it should disable: "store_false" makes `{attr}` false, and '
                f'{module.line(reads[0])} negates it; use `action="store_true"`'
            )
            yield _Ignored(action, message, withheld="users may rely on what the option does now")


def _is_passed_on(value: ir.Value, attr: str) -> bool:
    """Whether what is read is given for a parameter of the same name, which is read in its place, or kept so."""
    up = value.parent
    if isinstance(up, ir.Assign):
        return value in up.targets or all(ir.last_name(each) == attr for each in up.targets)
    return isinstance(up, ir.Call) and any(arg.value is value and arg.keyword == attr for arg in up.args)


def _is_read(module: Module, attr: str) -> bool:
    """Whether code that this program runs reads an option: else it is idle, on or off."""
    return any(
        (isinstance(each, ir.Attribute) and each.attr == attr)
        or (isinstance(each, ir.Constant) and each.value == attr and isinstance(each.parent, (ir.Subscript, ir.Call)))
        for each in module.whole.near(attr).values
    )


def _on_in_evaluation(module: Module) -> Iterator[_Ignored]:
    """The first region of each function that evaluates in half precision, though an option can switch training to
    float32.
    """
    switched = [each for each in regions(module) if each.enabled is not None and _asks_for_amp(module, each.enabled)]
    trains = [each for each in switched if not without_gradients(module, each.call)]
    done = set[ir.Function | None]()
    for each in regions(module) if trains else ():
        function = ir.function_of(each.call)
        if each.enabled is not None or each.opaque or function in done or not module.is_own(each.call):
            continue
        if not without_gradients(module, each.call) or any(ir.function_of(one.call) is function for one in switched):
            continue
        asked = [*(test for test, _ in conditions_round(each.call)), *(arg.value for arg in each.call.args)]
        if any(_asks_for_amp(module, one) for one in asked):
            continue
        done.add(function)
        condition = trains[0].enabled
        assert condition is not None
        switch = f"`enabled={module.on_one_line(condition)}` on {module.line(condition)} disables"
        message = f"evaluation always runs under autocast: {switch} only the region of training"
        if len(trains) < len(switched):  # other evaluations depend on it: this may be a check of its own
            message = f"this region always runs under autocast: {switch} only other regions"
        yield _Ignored(
            each.call,
            f"{message}; pass the same condition to this region",
            withheld="amplint can't tell whether this function can use the condition",
            confidence=Confidence.LIKELY if len(trains) == len(switched) else Confidence.SUSPICION,
        )


def _asks_for_amp(module: Module, value: ir.Value) -> bool:
    """Whether a value reads a setting that is called as what switches mixed precision: not `torch.bfloat16`."""
    read = [each for each in ir.walk_values(value) if isinstance(each, (ir.Name, ir.Attribute))]
    return any(
        names_switch(ir.last_name(each)) and not any(name.startswith("torch.") for name in module.names.of(each))
        for each in read
    )


def _is_retired(call: ir.Call) -> bool:
    """Whether the help of an option says that it does nothing, or there is none to be shown."""
    text = call.keyword("help")
    shown = text.value if isinstance(text, ir.Constant) else ""
    return _RETIRED.search(str(shown)) is not None or isinstance(text, ir.Attribute)  # argparse.SUPPRESS


def _same_as_full(module: Module) -> Iterator[_Ignored]:
    """Each half choice of an option that the program can't tell from full precision, while it asks for another one."""
    for attr in module.once(Options).declared:
        option = option_named(module, attr)
        if option is None or not option.choices or not module.is_own(option.call):
            continue
        texts = [each.value for each in option.choices if isinstance(each.value, str)]
        full, half = list(filter(names_full, texts)), list(filter(names_half, texts))
        if len(texts) < len(option.choices) or not full or len(half) < 2:
            continue
        asked = texts_asked(module, attr, option.call)
        if asked is None or not asked.intersection(half) or asked.intersection(full):
            continue
        for choice in option.choices:
            if choice.value in half and choice.value not in asked:
                message = (
                    f'the choice "{choice.value}" has no effect: no code compares `{attr}` with "{choice.value}", and '
                    f'training is in full precision, as with "{full[0]}"; implement the choice, or remove it'
                )
                yield _Ignored(choice, message, withheld=_CHOICE, confidence=Confidence.LIKELY)


def _never_true(module: Module) -> Iterator[_Ignored]:
    """Each comparison of a dtype with the text that names one."""
    for test in module.own.near("fp16", "bf16", "float16", "bfloat16", "half").values:
        if not isinstance(test, ir.Compare) or test.ops not in (("Equal",), ("Is",)):
            continue
        for value, other in ((test.left, test.rights[0]), (test.rights[0], test.left)):
            text = other.value if isinstance(other, ir.Constant) else None
            if isinstance(text, str) and names_half(text) and kinds(module, value) == {DTYPE}:
                what = f'`{module.on_one_line(value)}` is a torch.dtype, which never equals the string "{text}"'
                dtype = _with_dtype(module.on_one_line(value), text)
                to_do = f'compare {dtype}the option that selects the dtype with "{text}"'
            elif (
                not isinstance(value, ir.Constant)
                and half_dtype(module, other) is not None
                and kinds(module, value) == {"str"}
            ):
                right = module.on_one_line(other)
                what = f"`{module.on_one_line(value)}` is a string, which never equals the torch.dtype `{right}`"
                to_do = f'compare with a string such as "{right.rpartition(".")[2]}", or compare a dtype'
            else:
                continue
            said = f"{what}: this condition is always false; {to_do}"
            yield _Ignored(test, said, withheld="amplint can't tell which side of the comparison is wrong")
            break


def _of_device(module: Module) -> Iterator[_Ignored]:
    """Each comparison of a torch.device with the name of an accelerator, that AMP hangs on."""
    for test, device in device_tests(module):
        text = module.on_one_line(device)
        said = (
            f"`{text}` is a torch.device, which never equals a string: this condition is always "
            f"{'true' if test.ops[0] in ('NotEqual', 'NotIn') else 'false'}, also on a GPU; compare `{text}.type`"
        )
        fix = device if isinstance(device, (ir.Name, ir.Attribute)) else None
        yield _Ignored(
            fix or test,
            said,
            f"{module.text(device)}.type" if fix is not None and _is_type_alone(test) else None,
            None if fix is not None and _is_type_alone(test) else "amplint can't tell whether the index matters",
        )


def _overridden(module: Module) -> Iterator[_Ignored]:
    """Each `accelerator.native_amp = ...` that doesn't follow the precision that the Accelerator was made with.

    accelerate asks this attribute for autocast and for `unscale_gradients`, but not for the scaler.
    """
    known, makers = decided(module), accelerators(module)
    for statement in module.own.near("native_amp").statements:
        target = statement.targets[0] if isinstance(statement, ir.Assign) and len(statement.targets) == 1 else None
        value = statement.value if isinstance(statement, ir.Assign) else None
        if not isinstance(target, ir.Attribute) or target.attr != "native_amp" or value is None:
            continue
        if conditions_round(statement) or not makers.owns(target.base):
            continue  # a device without autocast
        given = [call.keyword("mixed_precision") for call in makers.made(target.base)]
        off = any(
            each is not None and possible(known.equals(each, "fp16"), negated(known.of(value))) is not None
            for each in given
        )
        if off:
            said = (
                f'this line overrides `mixed_precision`: if `{module.on_one_line(value)}` is false, "fp16" scales the '
                "loss without autocast, and clips see scaled gradients; remove this line, and set `mixed_precision`"
            )
            yield _Ignored(target, said, withheld="amplint can't tell which precision is meant")


def _is_type_alone(test: ir.Compare) -> bool:
    """Whether what a device is compared with has no index, as its `type` has none."""
    return not any(isinstance(each, ir.Constant) and ":" in str(each.value) for each in ir.walk_values(test))


def _with_dtype(value: str, text: str) -> str:
    """The dtype that a text names, as what a dtype is to be compared with instead; "" where it names none."""
    if "16" not in text and text.lower() != "half":
        return ""
    return f"`{value}` with `torch.{BFLOAT16 if text.lower().startswith('b') else FLOAT16}`, or "


def _joined(module: Module) -> Iterator[_Ignored]:
    """Each `or` or `and` of two texts of precisions, or of a test and such a text."""
    for value in module.own.near("fp16", "bf16", "float16", "bfloat16", "half", "mixed").values:
        right = value.right if isinstance(value, ir.Bool) else None
        if not isinstance(value, ir.Bool) or not isinstance(right, ir.Constant) or not _is_half(right):
            continue
        last = module.text(right)
        if isinstance(value.left, ir.Constant) and _is_half(value.left):
            first = module.text(value.left)
            kept, lost = (first, last) if value.op == "or" else (last, first)
            listed = isinstance(value.parent, ir.Sequence)
            to_do = f"write `{first}, {last}`" if listed else "compare with both strings"
            message = f"`{module.on_one_line(value)}` is always {kept}, and {lost} is ignored; {to_do}"
            why = None if listed else "amplint can't tell what to compare with both strings"
            yield _Ignored(value, message, f"{first}, {last}" if listed else None, why)
        elif isinstance(value.left, ir.Compare) and value.op == "or":
            test, first = module.text(value.left.left), module.text(value.left.rights[0])
            plain = value.left.ops == ("Equal",) and isinstance(value.left.rights[0], ir.Constant)
            plain = plain and not isinstance(value.parent, ir.Bool)
            yield _Ignored(
                value,
                f"this condition is always true, because the string {last} is true by itself; compare `{test}` with "
                "both strings",
                f"{test} in ({first}, {last})" if plain else None,
                None if plain else "amplint can't tell how the condition continues",
            )


def _is_half(value: ir.Constant) -> bool:
    return isinstance(value.value, str) and names_half(value.value)


def _other_dtype(module: Module) -> Iterator[_Ignored]:
    """Each half type that is selected by a condition that asks for the other one."""
    for value in module.own.near("float16", "half", "bfloat16").values:
        if not isinstance(value, (ir.Attribute, ir.Name)) or value.parent is None:
            continue
        dtype = half_dtype(module, value)
        if dtype is None or not isinstance(value.parent, (ir.Conditional, ir.Assign, ir.Return)):
            continue
        test, asked = _innermost(module, value) or (None, dtype)
        if test is None or asked == dtype:
            continue
        if dtype == FLOAT16 or _is_swapped(module, value):
            other = BFLOAT16 if dtype == FLOAT16 else FLOAT16
            said = (
                f"the condition `{module.on_one_line(test)}` is for {other}, but selects {dtype}; use `torch.{other}`"
            )
            corrected = _renamed(module, value, other)
            yield _Ignored(
                value,
                said,
                corrected,
                None if corrected else f"the file imports the dtype by its name; import `{other}` too",
            )


def _renamed(module: Module, value: ir.Value, dtype: str) -> str | None:
    """The text for another dtype of the same module: `torch.bfloat16` for `torch.half`."""
    return f"{module.text(value.base)}.{dtype}" if isinstance(value, ir.Attribute) else None


def _innermost(module: Module, value: ir.Value) -> tuple[ir.Value, str] | None:
    """The part of the test that selects a value, and the dtype that it asks for; each of its parts asks for that, or is
    a plain setting: `"bf16" in config and config["bf16"]["enabled"]`.
    """
    tests = conditions_round(value)
    parts = list(parts_that_hold(*tests[0])) if tests else []
    asked = [(part, asked_dtype(module, part) if holds else None) for part, holds in parts]
    if not all(holds and (dtype or _is_setting(part)) for (part, dtype), (_, holds) in zip(asked, parts, strict=True)):
        return None
    found = [(part, dtype) for part, dtype in asked if dtype is not None]
    return found[-1] if len({dtype for _, dtype in found}) == 1 else None


def _is_setting(part: ir.Value) -> bool:
    """Whether a part of a test reads an attribute that has nothing to do with what a device supports."""
    return isinstance(part, ir.Attribute) and "support" not in part.attr


def _is_swapped(module: Module, value: ir.Value) -> bool:
    """Whether the other arm of the conditional that a bfloat16 is in is float16."""
    up = value.parent
    return isinstance(up, ir.Conditional) and up.then is value and half_dtype(module, up.other) == FLOAT16
