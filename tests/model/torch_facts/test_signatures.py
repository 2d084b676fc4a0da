"""The table of parameters against torch's own signatures."""

from __future__ import annotations

import inspect
import operator
import os
from importlib import import_module

import pytest

from amplint.model.torch_facts.signatures import CLIPS, SIGNATURES

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", [name for name in SIGNATURES if name.startswith("torch.") and name != "torch.device"])
def test_parameters(name: str) -> None:
    if name == "torch.nn.utils.clip_grad_value":
        pytest.skip("no release since 0.4 has it")
    import_module("torch.distributed.fsdp.sharded_grad_scaler")  # torch doesn't import these by itself
    import_module("torch.distributed.checkpoint.state_dict")
    called = inspect.unwrap(operator.attrgetter(name.removeprefix("torch."))(torch))
    params = [each for each in inspect.signature(called).parameters.values() if each.name != "self"]
    positional = [each.name for each in params if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert tuple(positional[: len(SIGNATURES[name])]) == SIGNATURES[name]


def test_a_device() -> None:
    """Which has no signature to ask for."""
    assert torch.device(**dict(zip(SIGNATURES["torch.device"], ("cuda", 1), strict=True))) == torch.device("cuda", 1)


def test_a_variable_of_the_environment() -> None:
    assert tuple(inspect.signature(os.getenv).parameters) == SIGNATURES["os.getenv"]


def test_what_clips_takes_its_bound_second() -> None:
    assert {SIGNATURES[name][1] for name in CLIPS} == {"max_norm", "clip_value", "value", "clip_factor"}
