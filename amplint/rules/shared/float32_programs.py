"""Programs in which nothing computes in half precision, by the words in all of their files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.objects.autocast_objects import regions
from amplint.model.project.importers import has_words, surely_lack_around

if TYPE_CHECKING:
    from amplint.model import Module

# Without these nothing computes in half precision. A flag that is only named for it, and a comparison of a dtype, make
# nothing half; nor does what numpy stores.
_HALF = re.compile(
    rb"(?i)autocast|\.half\b|(?<!np\.)(?<!numpy\.)(?<![=!]= )(?<![=!]= torch\.)\bb?float16|"
    rb"[\"'](?:fp|bf)16[\"'](?!\s*\])|[(,]\s*(?:use_)?(?:fp|bf)16\s*=(?!=)|\bMixedPrecision\b|\bapex\b|"
    rb"precision\s*=(?!\s*[\"']?(?:32|64)\b)|\.precision\b|accelerat|deepspeed|lightning|dtype\s*=\s*[\"']auto|"
    rb"\btinycudann\b"
)


def is_float32(module: Module) -> bool:
    """Whether nothing in the programs that the file is a part of computes the file's losses in half precision, by the
    words in them.
    """
    return module.once(_is_float32)


def _is_float32(module: Module) -> bool:
    text = module.source.text.encode()
    return not regions(module) and not has_words(text, _HALF) and surely_lack_around(module.source.filename, _HALF)
