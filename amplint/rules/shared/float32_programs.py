"""Programs in which nothing computes in half precision, by the words in all of their files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.objects.autocast_objects import regions
from amplint.model.project.importers import has_words, surely_lack

if TYPE_CHECKING:
    from amplint.model import Module

# Without these nothing computes in half precision.
_HALF = re.compile(
    rb"(?i)autocast|\.half\b|float16|fp16|bf16|\bapex\b|mixed_?precision|precision\s*=|\.precision\b|accelerat|deepspeed|"
    rb"lightning|dtype\s*=\s*[\"']auto|\btinycudann\b"
)


def is_float32(module: Module) -> bool:
    """Whether nothing in the programs that the file is a part of computes in half precision, by the words in them."""
    return module.once(_is_float32)


def _is_float32(module: Module) -> bool:
    text = module.source.text.encode()
    return not regions(module) and not has_words(text, _HALF) and surely_lack(module.source.filename, _HALF)
