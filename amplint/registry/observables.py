"""Whether a run of a training step can show what a rule says, and by which observable. No torch here."""

from __future__ import annotations

from typing import NamedTuple


class Shows(NamedTuple):
    """`how`: yes, simulated (on the CPU, where the device is missing), or no, and then `why`."""

    how: str
    observables: tuple[str, ...] = ()
    why: str = ""


_EXCEPTION, _WARNING, _GRADIENT, _UPDATE = "exception", "warning", "gradient", "update"
_STATE, _SKIPS, _LEARNING, _SCALE = "autocast-state", "skips", "learning", "scale"


def _yes(*observables: str) -> Shows:
    return Shows("yes", observables)


def _simulated(*observables: str) -> Shows:
    return Shows("simulated", observables)


def _no(why: str) -> Shows:
    return Shows("no", (), why)


_EXPRESSIONS = "what a model and a criterion compute isn't interpreted"
SHOWS = {
    "AMP000": _no("it is about amplint itself"),
    "AMP001": _no("the file can't be read"),
    "AMP002": _no("it is about a comment"),
    "AMP101": _simulated(_WARNING, _EXCEPTION),
    "AMP102": _simulated(_WARNING),
    "AMP103": _no("what a custom autograd function computes isn't interpreted"),
    "AMP104": _no("the old names warn when they are called, which is mostly in a model's own code"),
    "AMP105": _no("apex is another library"),
    "AMP106": _no("they are other libraries"),
    "AMP107": _simulated(_EXCEPTION),
    "AMP201": _simulated(_WARNING),
    "AMP202": _simulated(_EXCEPTION),
    "AMP203": _no("tensors of another device can't be made here"),
    "AMP204": _simulated(_EXCEPTION),
    "AMP205": _simulated(_EXCEPTION, _WARNING),
    "AMP206": _no("a scaler in bfloat16 only costs: gradients and updates are the same"),
    "AMP207": _no("how small the program's gradients are is out of sight"),
    "AMP208": _no("the bench's parameters are float32"),
    "AMP209": _no("what is cast is a model or an input, which are out of sight"),
    "AMP210": _no("how small the program's gradients are is out of sight"),
    "AMP211": _simulated(_EXCEPTION, _WARNING),
    "AMP212": _yes(_EXCEPTION),
    "AMP213": _no("a region in another half type is right in itself"),
    "AMP214": _yes(_EXCEPTION),
    "AMP215": _no("the dtype of a batch is out of sight"),
    "AMP301": _yes(_STATE),
    "AMP302": _yes(_STATE),
    "AMP303": _no(_EXPRESSIONS),
    "AMP304": _no("criteria are stand-ins"),
    "AMP305": _no("a region that is never entered leaves a float32 step, which is right in itself"),
    "AMP306": _no("what a custom autograd function computes isn't interpreted"),
    "AMP307": _no("which weights a model shares between its calls is out of sight"),
    "AMP308": _no("the numbers hang on which ops come behind the inner region, in the model"),
    "AMP309": _yes(_LEARNING, _STATE),
    "AMP310": _no("a forward in float32 is right in itself"),
    "AMP311": _no(_EXPRESSIONS),
    "AMP312": _no("threads aren't run"),
    "AMP401": _yes(_GRADIENT, _UPDATE, _SKIPS),
    "AMP402": _yes(_SKIPS, _UPDATE, _GRADIENT, _EXCEPTION),
    "AMP403": _yes(_EXCEPTION, _GRADIENT, _UPDATE),
    "AMP404": _yes(_EXCEPTION, _SKIPS, _GRADIENT),
    "AMP405": _yes(_EXCEPTION),
    "AMP406": _yes(_EXCEPTION, _GRADIENT, _UPDATE),
    "AMP407": _yes(_EXCEPTION, _GRADIENT),
    "AMP408": _yes(_SCALE),
    "AMP409": _yes(_GRADIENT),
    "AMP410": _yes(_EXCEPTION, _GRADIENT, _UPDATE, _SKIPS),
    "AMP411": _yes(_UPDATE, _GRADIENT),
    "AMP412": _no("schedulers aren't run"),
    "AMP413": _no("checkpoints are neither written nor read"),
    "AMP414": _yes(_GRADIENT, _UPDATE),
    "AMP415": _yes(_EXCEPTION),
    "AMP416": _no("it takes several processes"),
    "AMP417": _no("what is done with a number that is reported is out of sight"),
    "AMP418": _yes(_EXCEPTION, _GRADIENT),
    "AMP419": _yes(_GRADIENT, _UPDATE),
    "AMP420": _no("each arm is right in itself, or another rule's misuse"),
    "AMP421": _yes(_EXCEPTION, _SKIPS, _GRADIENT),
    "AMP422": _no("gradients of inputs and of tensors outside the optimizer aren't compared"),
    "AMP423": _no("checkpoints are neither written nor read"),
    "AMP424": _no("schedulers aren't run"),
    "AMP501": _no(_EXPRESSIONS),
    "AMP502": _no(_EXPRESSIONS),
    "AMP503": _no(_EXPRESSIONS),
    "AMP504": _no("evaluation isn't run"),
    "AMP505": _no("whether a loss is finite hangs on the model and its data"),
    "AMP506": _no("what is done with a number that is reported is out of sight"),
    "AMP507": _no("what a program does to gradients that are not finite isn't interpreted"),
    "AMP508": _no(_EXPRESSIONS),
    "AMP509": _no("whether gradients overflow hangs on the model and its data"),
    "AMP510": _no(_EXPRESSIONS),
    "AMP601": _yes(_GRADIENT, _UPDATE, _SKIPS, _EXCEPTION),
    "AMP602": _no("what Lightning does in a step is out of sight"),
    "AMP603": _no("what transformers does with its arguments is out of sight"),
}
