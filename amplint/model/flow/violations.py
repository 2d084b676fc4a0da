"""The misuse that a path shows, named for what happens on it; what a rule calls it is the rule's to say."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from amplint.model.flow.gradients import GradientKind


class ViolationKind(Enum):
    """What happens on the path. Of violations that agree in all else, those of the first kinds come first."""

    # A clip of gradients that are scaled: that another clip has met already, which may turn out to be right; that an
    # unscale_ further down finds scaled; that the caller left, or what scales them is in sight.
    CLIP_OF_SCALED_AGAIN = auto()
    CLIP_BEFORE_UNSCALE = auto()
    CLIP_OF_CALLERS_GRADIENTS = auto()
    CLIP_OF_SCALED = auto()
    # A clip of gradients that the scaler has stepped with.
    CLIP_AFTER_STEP = auto()
    # Scaled gradients read for their size, or changed by what has no scale; of which ones, as above.
    READ_BEFORE_UNSCALE = auto()
    READ_OF_CALLERS_GRADIENTS = auto()
    READ_OF_SCALED = auto()
    # An optimizer's own step, where its gradients belong to the scaler: used before, used by the scaler's step next,
    # scaled still, or unscaled without a look for inf that could skip it.
    DIRECT_STEP_AGAIN = auto()
    DIRECT_STEP_FIRST = auto()
    DIRECT_STEP_OF_SCALED = auto()
    DIRECT_STEP_UNCHECKED = auto()
    # The scaler takes gradients of a loss that it has not scaled. The finding stands at the backward.
    BACKWARD_WITHOUT_SCALE = auto()
    # No update came between two iterations. The finding stands at the step.
    STEP_WITHOUT_UPDATE = auto()
    UNSCALE_TWICE = auto()
    # `unscale_` or `step` of what the scaler has stepped: it raises; or an update came between, so that it doesn't.
    CALL_AFTER_STEP = auto()
    UNSCALE_AFTER_STEP_AND_UPDATE = auto()
    # The scaler meets no gradients: cleared since they were unscaled; none, or zeros; none, which raises.
    STEP_OF_LOST_GRADIENTS = auto()
    USE_OF_NO_GRADIENTS = auto()
    STEP_WITHOUT_CHECK = auto()
    # A method of a scaler that has not scaled anything yet.
    CALL_BEFORE_SCALE = auto()
    # An update between a backward and what uses its gradients; or one with nothing checked since the last.
    UPDATE_BEFORE_USE = auto()
    UPDATE_WITHOUT_CHECK = auto()
    # Scaled gradients come on top of unscaled ones. The finding stands at what unscaled them. Behind an `unscale_` that
    # found none, nothing divides them any more.
    BACKWARD_ON_UNSCALED = auto()
    BACKWARD_BEHIND_UNSCALE = auto()


OF_CALLERS_GRADIENTS = frozenset((ViolationKind.CLIP_OF_CALLERS_GRADIENTS, ViolationKind.READ_OF_CALLERS_GRADIENTS))


class Violation(NamedTuple):
    """A misuse that a path shows.

    `at`: the call that the finding stands at; `cause`: the other call that takes part (0: none); `meets`: the call in
    which it shows; `gradients`: what those are that it is about, None where they may be others, or it doesn't matter;
    `carried`: the cause is of an earlier iteration; `site`: for a clip the call of the helper that it is in (0: none).
    """

    kind: ViolationKind
    at: int
    cause: int
    meets: int
    scaler: str
    optimizer: str
    gradients: GradientKind | None = None
    carried: bool = False
    site: int = 0

    @property
    def order(self) -> tuple[int, int, int, str, str, int, bool, str, bool, int]:
        """What violations are sorted by: the order of the text."""
        gradients = self.gradients is None, self.gradients or ""
        kind = self.kind.value
        return (
            self.at, self.cause, self.meets, self.scaler, self.optimizer, kind, *gradients, self.carried, self.site,
        )  # fmt: skip
