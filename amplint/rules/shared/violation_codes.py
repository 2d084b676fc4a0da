"""Which rule reports which violations of the scaler's protocol."""

from __future__ import annotations

from amplint.model.flow.violations import ViolationKind as Kind

VIOLATIONS: dict[str, frozenset[Kind]] = {
    "AMP401": frozenset(
        (
            Kind.CLIP_OF_SCALED,
            Kind.CLIP_OF_SCALED_AGAIN,
            Kind.CLIP_OF_CALLERS_GRADIENTS,
            Kind.CLIP_BEFORE_UNSCALE,
        )
    ),
    "AMP402": frozenset(
        (
            Kind.DIRECT_STEP_OF_SCALED,
            Kind.DIRECT_STEP_AGAIN,
            Kind.DIRECT_STEP_FIRST,
            Kind.DIRECT_STEP_UNCHECKED,
        )
    ),
    "AMP403": frozenset((Kind.BACKWARD_WITHOUT_SCALE,)),
    "AMP404": frozenset((Kind.STEP_WITHOUT_UPDATE,)),
    "AMP405": frozenset((Kind.UNSCALE_TWICE,)),
    "AMP406": frozenset((Kind.CALL_AFTER_STEP, Kind.UNSCALE_AFTER_STEP_AND_UPDATE)),
    "AMP407": frozenset((Kind.STEP_OF_LOST_GRADIENTS, Kind.USE_OF_NO_GRADIENTS, Kind.STEP_WITHOUT_CHECK)),
    "AMP409": frozenset((Kind.READ_OF_SCALED, Kind.READ_OF_CALLERS_GRADIENTS, Kind.READ_BEFORE_UNSCALE)),
    "AMP410": frozenset((Kind.UPDATE_BEFORE_USE, Kind.UPDATE_WITHOUT_CHECK)),
    "AMP411": frozenset((Kind.BACKWARD_ON_UNSCALED, Kind.BACKWARD_BEHIND_UNSCALE)),
    "AMP418": frozenset((Kind.CALL_BEFORE_SCALE,)),
    "AMP419": frozenset((Kind.CLIP_AFTER_STEP,)),
}

# Those that have to do with the scaler's own state for each optimizer, whatever the gradients are.
OF_ORDER = VIOLATIONS["AMP404"] | VIOLATIONS["AMP405"] | VIOLATIONS["AMP406"] | VIOLATIONS["AMP418"]
OF_ORDER |= {Kind.UPDATE_WITHOUT_CHECK}


def code_of(kind: Kind) -> str:
    """The code of the rule that reports violations of a kind."""
    return next(code for code, kinds in VIOLATIONS.items() if kind in kinds)


def same_rules(kind: Kind) -> frozenset[Kind]:
    """The kinds that the rule reports which reports this one."""
    return VIOLATIONS[code_of(kind)]
