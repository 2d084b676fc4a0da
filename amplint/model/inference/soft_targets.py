"""Targets of classifiers that may be probabilities, which are float32, and no class indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.syntax.text_scan import code_of

if TYPE_CHECKING:
    from amplint.model import Module

_SOFT = ("mixup", "Mixup", "MixUp", "cutmix", "CutMix", "one_hot", "soft_target", "SoftTarget", "soft_label")
_FORWARD = "def forward("


def has_soft_targets(module: Module) -> bool:
    """Whether code, comments and strings aside, has a name of targets that are probabilities.

    The code is the file's, and what is taken from others, but not how their modules compute: a loss or a model that
    takes indices apart makes no targets.
    """
    return module.once(_has_soft_targets)


def _has_soft_targets(module: Module) -> bool:
    own, *taken = module.texts
    code = "\n".join(
        code_of(each) for each in (own, *(each for each in taken if not each.lstrip().startswith(_FORWARD)))
    )
    return any(word in code for word in _SOFT)
