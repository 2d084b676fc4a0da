"""The table of the scaler's states against torch's own GradScaler, on random sequences of calls."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.model.protocol import TABLE, Stage

torch = pytest.importorskip("torch")

CALLS = st.lists(st.tuples(st.sampled_from(("unscale_", "step", "update")), st.integers(0, 1)), max_size=12)


def test_the_table_is_complete() -> None:
    assert set(TABLE) == {(call, stage) for call in ("unscale_", "step", "update") for stage in Stage}


@settings(max_examples=150, deadline=None)
@given(CALLS)
def test_torch_does_what_the_table_says(calls: list[tuple[str, int]]) -> None:
    models = [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.0) for each in models]
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(sum(each(torch.ones(2)).sum() for each in models)).backward()
    stages = [Stage.READY, Stage.READY]
    for call, which in calls:
        if call == "update" and set(stages) == {Stage.READY}:
            with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
                scaler.update()
            continue
        expected = TABLE[call, stages[which]]
        arguments = () if call == "update" else (optimizers[which],)
        if expected.error is None:
            getattr(scaler, call)(*arguments)
        else:
            with pytest.raises(RuntimeError) as raised:
                getattr(scaler, call)(*arguments)
            assert str(raised.value) == expected.error
        if call == "update":
            stages = [TABLE[call, stage].stage for stage in stages]
        else:
            stages[which] = expected.stage


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
