"""Targets of classifiers that may be probabilities, which are float32, and no class indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.syntax.text_scan import code_of

if TYPE_CHECKING:
    from amplint.model import Module

_SOFT = ("mixup", "Mixup", "MixUp", "cutmix", "CutMix", "one_hot", "soft_target", "SoftTarget", "soft_label")


def has_soft_targets(module: Module) -> bool:
    """Whether the file's code, comments and strings aside, has a name of targets that are probabilities."""
    return module.once(_has_soft_targets)


def _has_soft_targets(module: Module) -> bool:
    code = code_of(module.source.text)
    return any(word in code for word in _SOFT)
