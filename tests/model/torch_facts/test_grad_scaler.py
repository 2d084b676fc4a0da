"""The scaler's state machine against torch's own GradScaler: the same random calls go through both."""

from __future__ import annotations

import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from amplint.model.torch_facts.grad_scaler import TABLE, Call, Gradients, Kind, Machine, OptimizerState, Stage

torch = pytest.importorskip("torch")

SEQUENCES = 4_000
LENGTH = 12


class OwnScaling(torch.optim.SGD):
    """An optimizer of the old kind: it takes the scaler itself."""

    _step_supports_amp_scaling = True

    def step(self, closure: Any = None, *, grad_scaler: Any = None) -> None:
        assert grad_scaler is not None


class Named:
    """What only looks like an optimizer, over names instead of parameters."""

    param_groups: list[dict[str, Any]] = [{"params": ["weight"]}]  # noqa: RUF012 - as torch has it

    def step(self) -> None:
        raise AssertionError("never reached")


class Partner(NamedTuple):
    """An optimizer under test: its kind, what can stand in its gradients, and its parameters."""

    optimizer: Any
    kind: Kind
    possible: tuple[Gradients, ...]
    parameters: tuple[Any, ...]

    def prepare(self, gradients: Gradients) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        if gradients in (Gradients.FLOAT, Gradients.HALF):
            # Some of the parameters only: one gradient is enough to count.
            self.parameters[0].grad = torch.ones_like(self.parameters[0])


def partners() -> dict[str, Partner]:
    def parameters(dtype: Any = torch.float32) -> tuple[Any, ...]:
        return tuple(torch.nn.Parameter(torch.ones(2, dtype=dtype)) for _ in range(2))

    def partner(make: Callable[..., Any], kind: Kind, own: tuple[Any, ...], **options: Any) -> Partner:
        filled = Gradients.HALF if own[0].dtype is torch.float16 else Gradients.FLOAT
        return Partner(make(own, lr=0.0, **options), kind, (filled, Gradients.NONE), own)

    sgd, adamw = torch.optim.SGD, torch.optim.AdamW
    return {
        "a": partner(sgd, Kind.PLAIN, parameters()),
        "b": partner(sgd, Kind.PLAIN, parameters()),
        "fused": partner(adamw, Kind.FUSED, parameters(), fused=True),
        "own": partner(OwnScaling, Kind.OWN, parameters()),
        "half": partner(sgd, Kind.PLAIN, parameters(torch.float16)),
        "fused half": partner(sgd, Kind.FUSED, parameters(torch.float16), fused=True),
        "named": Partner(Named(), Kind.PLAIN, (Gradients.NO_TENSORS,), ()),
    }


# How often each call is drawn, with its arguments.
CALLS = {
    ("scale", ""): 4,
    ("scale", "number"): 1,
    ("unscale_", ""): 8,
    ("step", ""): 8,
    ("step", "closure"): 1,
    ("update", ""): 5,
    ("update", "float"): 1,
    ("update", "int"): 1,
    ("update", "tensor"): 1,
    ("load_state_dict", ""): 1,
    ("load_state_dict", "empty"): 1,
    ("pickle", ""): 1,
    ("get_growth_factor", ""): 1,
    ("get_scale", ""): 1,
}


def draw(choose: random.Random, known: dict[str, Partner]) -> Call:
    name, argument = choose.choices(list(CALLS), list(CALLS.values()))[0]
    if name not in ("unscale_", "step"):
        return Call(name, argument=argument)
    optimizer = choose.choices(list(known), [6, 4, 3, 1, 1, 1, 1])[0]
    partner = known[optimizer]
    gradients = choose.choices(partner.possible, [4, 1][: len(partner.possible)])[0]
    return Call(name, optimizer, gradients, partner.kind, argument)


def perform(scaler: Any, call: Call, partner: Partner | None) -> None:
    """The call on the real scaler."""
    state = {"scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 9, "_growth_tracker": 0}
    if partner is not None:
        partner.prepare(call.gradients)
        closure = {"closure": lambda: None} if call.argument == "closure" else {}
        getattr(scaler, call.name)(partner.optimizer, **closure)
    elif call.name == "scale":
        scaler.scale(3.0 if call.argument == "number" else torch.ones(()))
    elif call.name == "update":
        given = {"float": (2.0,), "int": (2,), "tensor": (torch.full((), 2.0),)}
        scaler.update(*given.get(call.argument, ()))
    elif call.name == "load_state_dict":
        scaler.load_state_dict({} if call.argument == "empty" else state)
    elif call.name == "pickle":
        pickle.dumps(scaler)
    else:
        getattr(scaler, call.name)()


def optimizer_states(scaler: Any, known: dict[str, Partner]) -> frozenset[tuple[str, OptimizerState]]:
    """The real scaler's books."""
    names = {id(partner.optimizer): name for name, partner in known.items()}
    return frozenset(
        (names[key], OptimizerState(Stage(state["stage"].name.lower()), bool(state["found_inf_per_device"])))
        for key, state in scaler._per_optimizer_states.items()
    )


def test_the_machine_does_what_torch_does() -> None:
    known = partners()
    choose = random.Random(0)
    raised: set[str] = set()
    for number in range(SEQUENCES):
        enabled = number % 10 != 0
        scaler, machine = torch.amp.GradScaler("cpu", init_scale=4.0, enabled=enabled), Machine(enabled=enabled)
        done = []
        for _ in range(choose.randint(1, LENGTH)):
            call = draw(choose, known)
            done.append(call)
            machine, expected = machine.after(call)
            found: Exception | None = None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FutureWarning)  # an optimizer that takes the scaler
                    if enabled or call.optimizer != "named":
                        perform(scaler, call, known.get(call.optimizer))
            except Exception as error:
                found = error
            # A disabled scaler hands everything on to the optimizer, whose own errors are not the scaler's.
            if not enabled and call.name == "step":
                found = None
            if expected is None:
                assert found is None, (done, found)
            else:
                assert type(found).__name__ == expected.kind, (done, found, expected)
                assert str(found).startswith(expected.message), (done, found, expected)
                raised.add(expected.message)
            if enabled:
                assert machine.per_optimizer == optimizer_states(scaler, known), done
                assert machine.scaled is (scaler._scale is not None), done
            if expected is not None and call.kind is Kind.FUSED and expected.kind == "AttributeError":
                for left in ("grad_scale", "found_inf"):
                    delattr(known[call.optimizer].optimizer, left)
                break  # the next step would fail on what was left
    assert len(raised) == 16  # every error came up


def test_the_table_is_complete() -> None:
    assert set(TABLE) == {(call, stage) for call in ("unscale_", "step") for stage in Stage}


@pytest.mark.parametrize("before", [["unscale_"], ["step"], ["unscale_", "step"]])
def test_gradients_are_divided_once_between_updates(before: list[str]) -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(model(torch.ones(1)).sum()).backward()
    assert model.weight.grad.item() == 8.0
    for call in before:
        getattr(scaler, call)(optimizer)
    assert model.weight.grad.item() == 1.0
