"""Programs in which nothing computes in half precision, by the words in all of their files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.calls.gradients_off import never_has_gradients
from amplint.model.objects.autocast_objects import regions
from amplint.model.project.importers import has_words, surely_lack_around

if TYPE_CHECKING:
    from amplint.model import Module

# Without these nothing computes in half precision. A flag that is only named for it, and a comparison of a dtype, make
# nothing half; nor does what numpy stores.
_HALF = re.compile(
    rb"(?i)set_autocast|autocast(?!_(enabled|dtype)\b)|\.half\b|"
    rb"(?<!np\.)(?<!numpy\.)(?<![=!]= )(?<![=!]= torch\.)\bb?float16|"
    rb"[\"'](?:fp|bf)16[\"'](?!\s*\])|[(,]\s*(?:use_)?(?:fp|bf)16\s*=(?!=)|\bMixedPrecision\b|\bapex\b|"
    rb"(?:\b|mixed_|half_|param_|compute_)precision\s*=(?!\s*[\"']?(?:32|64)\b)|\.precision\b|accelerat|deepspeed|lightning|"
    rb"dtype\s*=\s*[\"']auto|\btinycudann\b"
)


def is_float32(module: Module) -> bool:
    """Whether nothing in the programs that the file is a part of computes the file's losses in half precision, by the
    words in them.
    """
    return not regions(module) and trains_in_float32(module)


def trains_in_float32(module: Module) -> bool:
    """The same, whatever the file computes in regions without gradients, as where it evaluates."""
    return module.once(_trains_in_float32)


def _trains_in_float32(module: Module) -> bool:
    text = module.source.text
    for region in regions(module):
        if not module.is_own(region.call) or not never_has_gradients(module, region.call):
            return False
        start, end = module.span(region.call)
        text = text[:start] + " " * (end - start) + text[end:]
    return not has_words(text.encode(), _HALF) and surely_lack_around(module.source.filename, _HALF)
