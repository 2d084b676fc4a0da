"""The loss scale of a scaler whose numbers lie on a device: followed without waiting, and read late."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from amplint.doctor import scale as of_scale  # noqa: E402
from amplint.doctor.scale import ScaleLog  # noqa: E402


@pytest.fixture(autouse=True)
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_scale, "is_readable", lambda tensor: False)


def scaler_and_log(**options: float) -> tuple[torch.amp.GradScaler, ScaleLog]:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, **options)
    scaler.scale(torch.zeros(()))
    return scaler, ScaleLog(scaler, None)


def step(scaler: torch.amp.GradScaler, log: ScaleLog, *, bad: bool = False, is_fused: bool = False) -> None:
    """What a step tells the log; the scaler's own scale moves as torch moves it."""
    log.resolve()
    log.before_step()
    found_inf = torch.tensor(float(bad))
    log.before_use(found_inf if is_fused else None)
    log.stepped(taken=is_fused or not bad, place=None)
    scaler._per_optimizer_states[0]["found_inf_per_device"] = {torch.device("cpu"): found_inf}
    scaler.update()
    log.updated(None, None)


def test_growth_and_backoff_are_followed() -> None:
    scaler, log = scaler_and_log(growth_interval=3)
    for bad in (False, False, True, False, False, False, False, True, False, False, False):
        step(scaler, log, bad=bad)
        assert log.value == scaler.get_scale()
    log.resolve()
    assert log.jump is None
    assert log.skips == [3, 8]


@pytest.mark.parametrize("interval", [2, 3, 1000])
def test_what_a_fused_optimizer_skips_is_counted_late(interval: int) -> None:
    scaler, log = scaler_and_log(growth_interval=interval)
    for number in range(12):
        step(scaler, log, bad=number in (1, 4, 5, 9), is_fused=True)
    assert log.resolve() == 0  # the last one was taken
    assert log.skips == [2, 5, 6, 10]
    assert log.value == scaler.get_scale()
    assert log.jump is None


def test_a_skip_of_a_fused_optimizer_at_the_end_is_counted() -> None:
    scaler, log = scaler_and_log()
    for number in range(4):
        step(scaler, log, bad=number >= 2, is_fused=True)
    assert log.resolve() == 1
    assert (log.skips, log.in_a_row) == ([3, 4], 2)


def test_a_scale_that_the_program_writes_is_a_jump() -> None:
    scaler, log = scaler_and_log()
    step(scaler, log)
    scaler._scale.fill_(8.0)
    step(scaler, log)
    step(scaler, log)
    assert log.jump == (1, 1024.0, 8.0)
    assert log.value == 8.0


def test_a_scale_that_update_was_given_is_none() -> None:
    scaler, log = scaler_and_log()
    step(scaler, log)
    scaler.update(16.0)
    log.updated(None, 16.0)
    step(scaler, log)
    log.resolve()
    assert (log.jump, log.value) == (None, 16.0)


def test_a_loaded_state_goes_on_growing() -> None:
    old, _ = scaler_and_log(growth_interval=3)
    saved = {**old.state_dict(), "scale": 64.0, "_growth_tracker": 2}
    scaler, log = scaler_and_log(growth_interval=3)
    scaler.load_state_dict(saved)
    log.loaded(None)
    step(scaler, log)
    assert log.value == scaler.get_scale() == 128.0


@pytest.mark.parametrize("bad", [(True, True), (True, False), (False, True)])
def test_two_fused_optimizers_lower_the_scale_once_in_an_update(bad: tuple[bool, bool]) -> None:
    scaler, log = scaler_and_log()
    for number in range(6):
        for index, is_bad in enumerate(bad):
            log.resolve()
            log.before_step()
            found_inf = torch.tensor(float(is_bad and number == 3))
            log.before_use(found_inf)
            log.stepped(taken=True, place=None)
            scaler._per_optimizer_states[index]["found_inf_per_device"] = {torch.device("cpu"): found_inf}
        scaler.update()
        log.updated(None, None)
    log.resolve()
    assert (log.jump, log.value) == (None, scaler.get_scale())
    assert len(log.skips) == sum(bad)
