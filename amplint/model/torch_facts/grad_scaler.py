"""GradScaler's state machine, as torch/amp/grad_scaler.py (torch 2.13) has it: one table, and what guards it.

A scaler has a state for each optimizer: a stage, and whether a check for inf was recorded. Only `update()` clears them.
What misuse does to gradients and updates was measured: docs/amp-facts.md, "GradScaler (AMP401 to AMP424)".
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Stage(str, Enum):
    """What was done to an optimizer's gradients since the last `update()`."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"


class Gradients(str, Enum):
    """What a call finds in the `grad`s of an optimizer's parameters."""

    FLOAT = "float"
    HALF = "half"  # float16, in at least one
    NONE = "none"  # in all of them
    NO_TENSORS = "no tensors"  # what the groups hold are no parameters


class Kind(str, Enum):
    """How an optimizer takes part in unscaling."""

    PLAIN = "plain"
    FUSED = "fused"  # `_step_supports_amp_scaling`: its kernel divides, and skips on inf
    OWN = "own"  # likewise, and its step() takes the scaler as `grad_scaler`


class Error(NamedTuple):
    """An exception: its class and message."""

    kind: str
    message: str


class Call(NamedTuple):
    """A call of one of the scaler's methods, and what it meets.

    `argument`: "closure" (step, by keyword), "float", "int" or "tensor" (update), "empty" (load_state_dict),
    "number" (scale, of something that is no tensor).
    """

    name: str
    optimizer: str = ""
    gradients: Gradients = Gradients.FLOAT
    kind: Kind = Kind.PLAIN
    argument: str = ""


class OptimizerState(NamedTuple):
    """What a scaler keeps of an optimizer."""

    stage: Stage = Stage.READY
    checked: bool = False  # its gradients were looked through for inf


# The stage after `unscale_` and `step`, or what they raise.
TABLE: dict[tuple[str, Stage], Stage | Error] = {
    ("unscale_", Stage.READY): Stage.UNSCALED,
    ("unscale_", Stage.UNSCALED): Error(
        "RuntimeError", "unscale_() has already been called on this optimizer since the last update()."
    ),
    ("unscale_", Stage.STEPPED): Error("RuntimeError", "unscale_() is being called after step()."),
    ("step", Stage.READY): Stage.STEPPED,
    ("step", Stage.UNSCALED): Stage.STEPPED,
    ("step", Stage.STEPPED): Error("RuntimeError", "step() has already been called since the last update()."),
}

_CLOSURE = Error("RuntimeError", "Closure use is not currently supported if GradScaler is enabled.")
_NOT_TENSORS = Error("AssertionError", "expected param to be torch.Tensor")
_HALF = Error("ValueError", "Attempting to unscale FP16 gradients.")
_NOT_CHECKED = Error("AssertionError", "No inf checks were recorded for this optimizer.")
_NOTHING_CHECKED = Error("AssertionError", "No inf checks were recorded prior to update.")
_EMPTY = Error("RuntimeError", "The source state dict is empty")
_IN_BETWEEN = Error("AssertionError", "A GradScaler instance may only be pickled at the beginning of an iteration")
_INT = Error("AttributeError", "'int' object has no attribute 'device'")
_NUMBER = Error("ValueError", "outputs must be a Tensor or an iterable of Tensors")
_NO_FACTOR = Error("AttributeError", "'GradScaler' object has no attribute '_growth_factor'")


def _never_scaled(name: str) -> Error:
    return Error("AssertionError", f"Attempted {name} but _scale is None.")


class Machine(NamedTuple):
    """A scaler between two calls. `scaled`: `scale()` was called, so that the scale exists."""

    enabled: bool = True
    scaled: bool = False
    per_optimizer: frozenset[tuple[str, OptimizerState]] = frozenset()

    def optimizer_state(self, optimizer: str) -> OptimizerState:
        """How an optimizer stands."""
        return next((its for name, its in self.per_optimizer if name == optimizer), OptimizerState())

    def after(self, call: Call) -> tuple[Machine, Error | None]:
        """The scaler after a call, and what the call raises. An error's message is torch's, or how it begins."""
        if not self.enabled:
            return self, _NO_FACTOR if call.name == "get_growth_factor" else None
        if call.name == "scale":
            return (self, _NUMBER) if call.argument else (self._replace(scaled=True), None)
        if call.name == "unscale_":
            return self._unscale(call)
        if call.name == "step":
            return self._step(call)
        if call.name == "update":
            return self._update(call)
        if call.name == "load_state_dict":
            return self, _EMPTY if call.argument == "empty" else None
        if call.name == "pickle":
            return self, _IN_BETWEEN if self.per_optimizer else None
        return self, None

    def _unscale(self, call: Call) -> tuple[Machine, Error | None]:
        if not self.scaled:
            return self, _never_scaled("unscale_")
        optimizer_state = self.optimizer_state(call.optimizer)
        after = TABLE["unscale_", optimizer_state.stage]
        if isinstance(after, Error):
            return self, after
        error = _refusal(call, half=True)
        if error is not None:
            return self._with(call.optimizer, optimizer_state), error
        return self._with(call.optimizer, OptimizerState(after, call.gradients is not Gradients.NONE)), None

    def _step(self, call: Call) -> tuple[Machine, Error | None]:
        if call.argument == "closure":
            return self, _CLOSURE
        if not self.scaled:
            return self, _never_scaled("step")
        optimizer_state = self.optimizer_state(call.optimizer)
        after = TABLE["step", optimizer_state.stage]
        if isinstance(after, Error):
            return self, after
        if optimizer_state.stage is Stage.READY and call.kind is not Kind.OWN:
            error = _refusal(call, half=call.kind is Kind.PLAIN)
            if error is not None:
                return self._with(call.optimizer, optimizer_state), error
            optimizer_state = OptimizerState(Stage.UNSCALED, call.gradients is not Gradients.NONE)
        if call.kind is Kind.PLAIN and not optimizer_state.checked:
            return self._with(call.optimizer, optimizer_state), _NOT_CHECKED
        if call.kind is Kind.FUSED and not optimizer_state.checked and call.gradients is not Gradients.NONE:
            # Gradients came after an unscale_ that found none. torch then leaves the optimizer unusable.
            return self._with(call.optimizer, optimizer_state), _INT
        return self._with(call.optimizer, OptimizerState(after, optimizer_state.checked)), None

    def _update(self, call: Call) -> tuple[Machine, Error | None]:
        if not self.scaled:
            return self, _never_scaled("update")
        if call.argument == "int":
            return self, _INT
        if not call.argument and not any(its.checked for _, its in self.per_optimizer):
            return self, _NOTHING_CHECKED
        return self._replace(per_optimizer=frozenset()), None

    def _with(self, optimizer: str, optimizer_state: OptimizerState) -> Machine:
        rest = {each for each in self.per_optimizer if each[0] != optimizer}
        return self._replace(per_optimizer=frozenset(rest | {(optimizer, optimizer_state)}))


def _refusal(call: Call, half: bool) -> Error | None:
    """Why a call can't look through an optimizer's gradients; `half` if it refuses float16."""
    if call.gradients is Gradients.NO_TENSORS:
        return _NOT_TENSORS
    return _HALF if half and call.gradients is Gradients.HALF else None
