"""Programs in which no file takes the state of a scaler, by the words in all of their files (AMP413)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.project.importers import has_words, surely_lack

if TYPE_CHECKING:
    from amplint.model import Module

# What takes a scaler's state, or that of whatever there is, or writes it by itself; and bfloat16, which needs none.
_TAKES = re.compile(
    rb"(?i)(scal|amp)\w*(\[[^\]\n]*\]|\([^()\n]*\))?\s*\.\s*(load_)?state_dict\b|hasattr\([^)\n]*state_dict|"
    rb"state_dict\(\)\s*(if\b[^\n]*)?\bfor\s|getattr\([^)\n]*\)\s*\.\s*(load_)?state_dict|"
    rb"(save|dump)\(\s*self\s*[,)]|(save|dump)\([^\n]*(__dict__|\bvars\()|"
    rb"(?-i:[\"'](\w*_)?scaler(_state\w*)?[\"'])|__getstate__|\b_scale\b|get_scale\(|"
    rb"bf16|bfloat16|\b(from|import)\s+(apex|accelerate|deepspeed|pytorch_lightning|lightning)\b"
)
_SCALES = re.compile(rb"(?i)scal\w*(\[[^\]\n]*\]|\([^()\n]*\))?\s*\.\s*scale\s*\(")
_HALF = re.compile(rb"autocast")


def is_saved_nowhere(module: Module) -> bool:
    """Whether the program scales losses in float16 regions, and none of its files takes the state of a scaler.

    What saves all that has a state, or all attributes of an object, takes it as well.
    """
    return module.once(_is_saved_nowhere)


def _is_saved_nowhere(module: Module) -> bool:
    if _has(module, _TAKES):
        return False
    return _has(module, _SCALES) and _has(module, _HALF)


def _has(module: Module, words: re.Pattern[bytes]) -> bool:
    """Whether a file of the programs that this one is a part of has some words, as far as can be told."""
    filename = module.source.filename
    return has_words(module.source.text.encode(), words) or not surely_lack(filename, words)
