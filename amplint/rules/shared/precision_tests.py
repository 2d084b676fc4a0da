"""Tests that ask for a precision, `if args.bf16:` and `if precision == "fp16":`, and the texts that name one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

BFLOAT16, FLOAT16 = "bfloat16", "float16"
_DTYPES = {"torch.bfloat16": BFLOAT16, "torch.float16": FLOAT16, "torch.half": FLOAT16}
_EQUAL = (("Equal",), ("Is",), ("NotEqual",), ("IsNot",))
_BFLOAT16 = re.compile(r"(?i)bf_?16|bfloat16")
_FLOAT16 = re.compile(r"(?i)(?<![a-z])fp_?16|float16|half")
_EITHER = re.compile(rf"{_FLOAT16.pattern}|auto")
# As words of an option's name: `--use_amp`, `--no-fp16`; not `--sample`.
_OF_AMP = re.compile(r"(?i)(?<![a-z])(?:use|no)?(?:amp|b?fp?16|b?float16|half|autocast|mixed_?precision)(?![a-z])")
_SWITCH = re.compile(
    r"(?i)(?:use|no|enable|with)?_?(?:torch|native|cuda)?_?(?:amp|b?fp?16|b?float16|half|autocast|mixed_?precision)"
    r"(?:_?(?:training|mode|dtype|type|precision))?"
)
# What a precision is called that is half, and one that is not; the whole text.
_HALF_TEXT = re.compile(
    r"(?i)(?:torch\.)?(?:b?fp?_?16|b?float_?16|half|(?:b?fp?)?16-(?:mixed|true)|mixed(?:_(?:b?fp?|b?float)16)?|amp(?:_\w+)?)"
)
_FULL_TEXT = re.compile(r"(?i)(?:torch\.)?(?:f(?:p|loat)?_?32|32(?:-true)?|float|full|single|no|none|off|false)")


def names_amp(option: str) -> bool:
    """Whether the name of an option speaks of mixed precision: `--use-amp`, `fp16`."""
    return _OF_AMP.search(option.replace("-", "_")) is not None


def names_switch(option: str) -> bool:
    """Whether an option is called as what turns mixed precision on: `--use-amp`, not `--amp-init-scale`."""
    return _SWITCH.fullmatch(option.replace("-", "_")) is not None


def names_half(text: str) -> bool:
    """Whether a text is the name of a half precision, or of a mixed one: `fp16`, `bf16-mixed`, `amp`."""
    return _HALF_TEXT.fullmatch(text) is not None


def names_full(text: str) -> bool:
    """Whether a text is the name of full precision, or says that there is no other: `fp32`, `no`."""
    return _FULL_TEXT.fullmatch(text) is not None


def names_float16(text: str) -> bool:
    """Whether a name speaks of float16, and not only of bfloat16."""
    return _FLOAT16.search(_BFLOAT16.sub("", text)) is not None


def speaks_of_bfloat16(name: str) -> bool:
    """Whether a name has bfloat16 in it: `make_bf16_region`."""
    return _BFLOAT16.search(name) is not None


def names_bfloat16(text: str) -> bool:
    """Whether a text begins with bfloat16's name: `bf16`, `torch.bfloat16`."""
    return _BFLOAT16.match(text.removeprefix("torch.")) is not None


def asked_dtype(module: Module, test: ir.Value) -> str | None:
    """The half type that a part of a test (`parts_that_hold`) asks for: a flag called so, a comparison with its name.

    None for a test that asks for neither, for both, or whether the device supports it.
    """
    if isinstance(test, ir.Compare) and test.ops == ("In",):
        # `"bf16" in config`; "float16" is in "bfloat16", too
        named = test.left.value if isinstance(test.left, ir.Constant) else None
        return _compared_dtype(module, test.left) if named != FLOAT16 else None
    if isinstance(test, ir.Compare):
        return _compared_dtype(module, test.rights[0]) if test.ops in _EQUAL else None
    if not isinstance(test, (ir.Name, ir.Attribute, ir.Subscript)):
        return None  # a call asks whether the device can do it
    name = ir.last_name(test) or _key(test)
    if name == "enabled":
        base = test.base if isinstance(test, (ir.Attribute, ir.Subscript)) else test
        name = ir.last_name(base) or _key(base)  # `config["bf16"]["enabled"]`
    if "support" in name:
        return None
    if _BFLOAT16.search(name):
        return BFLOAT16 if not _EITHER.search(_BFLOAT16.sub("", name)) else None
    return FLOAT16 if _FLOAT16.search(name) else None


def _key(value: ir.Value) -> str:
    """The literal key of a subscript, as text."""
    return str(value.index.value) if isinstance(value, ir.Subscript) and isinstance(value.index, ir.Constant) else ""


def _compared_dtype(module: Module, value: ir.Value) -> str | None:
    if isinstance(value, ir.Constant):
        text = value.value if isinstance(value.value, str) else ""
        if names_bfloat16(text):
            return BFLOAT16
        return FLOAT16 if _FLOAT16.match(text.removeprefix("torch.")) else None
    return half_dtype(module, value)


def half_dtype(module: Module, value: ir.Value) -> str | None:
    """The half type that a value is, as torch names it: `torch.half` is float16."""
    return _DTYPES.get(module.names.only(value) or "")
