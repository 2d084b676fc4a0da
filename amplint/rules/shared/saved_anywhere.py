"""Programs in which no file takes the state of a scaler, by the words in all of their files (AMP413)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.project.importers import has_words, surely_lack, surely_run_without

if TYPE_CHECKING:
    from amplint.model import Module

# What takes a scaler's state, or that of whatever there is, or writes it by itself; and bfloat16, which needs none.
_TAKES = re.compile(
    rb"(?i)(scal|amp)\w*(\[[^\]\n]*\]|\([^()\n]*\))?\s*\.\s*(load_)?state_dict\b|"
    rb"hasattr\((?!\s*\w*(model|net|module|optim|sched|ema)\w*\s*,)[^)\n]*state_dict|"
    rb"state_dict\(\)\s*(if\b[^\n]*)?\bfor\s[^\n]*[^:\s][ \t]*(\n|$)|getattr\([^)\n]*\)\s*\.\s*(load_)?state_dict|"
    rb"(?<!def )(?<!\w)(save|dump)\(\s*self\s*[,)]|(save|dump)\([^\n]*(__dict__|\bvars\()|"
    rb"(?-i:[\"'](\w*_)?scaler(_state\w*)?[\"'])|__getstate__|\b_scale\b|"
    rb"\b(from|import)\s+(apex|accelerate|deepspeed|pytorch_lightning|lightning)\b"
)
_SCALE = re.compile(rb"get_scale\(")  # to save it, or to log it
_BFLOAT16 = re.compile(rb"bf16|bfloat16")
_SCALES = re.compile(rb"(?i)scal\w*(\[[^\]\n]*\]|\([^()\n]*\))?\s*\.\s*scale\s*\(")
_HALF = re.compile(rb"autocast")


def is_saved_nowhere(module: Module) -> bool:
    """Whether the program scales losses in float16 regions, and none of its files takes the state of a scaler.

    What saves all that has a state, or all attributes of an object, takes it as well. A program that knows bfloat16 may
    need no state.
    """
    return is_taken_nowhere(module) and not _has(module, _BFLOAT16) and not _has(module, _SCALE)


def is_taken_nowhere(module: Module) -> bool:
    """The same, whatever half dtypes the program knows."""
    return module.once(_is_taken_nowhere)


def _is_taken_nowhere(module: Module) -> bool:
    own, filename = next(iter(module.texts)), module.source.filename
    return surely_run_without(filename, own, _TAKES) and _has(module, _SCALES) and _has(module, _HALF)


def _has(module: Module, words: re.Pattern[bytes]) -> bool:
    """Whether a file of the programs that this one is a part of has some words, as far as can be told."""
    filename = module.source.filename
    return has_words(module.source.text.encode(), words) or not surely_lack(filename, words)
