"""Settings that say by their names whether a GPU is used: without one, a region for cuda runs in no float16."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.model.objects.terms import Term, literal, path
from amplint.rules.shared.device_flags import uses_gpu

TEXT = """\
import torch
from torch.amp import GradScaler, autocast


def train(model, optimizer, loader, config, criterion):
    scaler = GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cuda", enabled=not config.off):
            loss = criterion(model(x), y)
        if TEST and not config.off:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


def found(test: str) -> set[str]:
    return {each.code for each in check(TEXT.replace("TEST", test))} & {"AMP207", "AMP210"}


@pytest.mark.parametrize(
    "test",
    [
        "config.gpu_id >= 0", "config.use_cuda", "config.cuda", "config.n_gpu > 0", "len(config.gpu_ids) > 0",
        "not config.cpu", "not config.no_cuda", "config.gpu > -1", "config.device_id != -1",
    ],
)  # fmt: skip
def test_without_a_gpu_nothing_is_wrong(test: str) -> None:
    assert not found(test)


@pytest.mark.parametrize("test", ["config.fast", "config.n_gpu > 1", "config.multi_gpu", "config.gpu_id == 0"])
def test_others_say_nothing_of_it(test: str) -> None:
    assert found(test) == {"AMP210"}


def test_a_region_for_the_cpu_is_used_without_one() -> None:
    text = TEXT.replace('autocast("cuda", enabled', 'autocast("cpu", dtype=torch.float16, enabled')
    assert "AMP210" in {each.code for each in check(text.replace("TEST", "not config.cpu"))}


@pytest.mark.parametrize(
    ("condition", "used"),
    [
        (path("1:args.use_gpu"), True),
        (path("1:args.force_cpu"), False),
        (path("1:args.gpu_memory"), None),
        (Term("LessThan", parts=(path("1:args.gpu_id"), literal(0))), False),
        (Term("Equal", parts=(path("1:args.num_gpus"), literal(0))), False),
        (Term("Equal", parts=(path("1:args.gpu_id"), literal(0))), None),
        (Term("GreaterThan", parts=(path("1:args.num_gpus"), literal(1))), None),
        (Term("GreaterThan", parts=(path("1:args.epochs"), literal(0))), None),
    ],
)
def test_what_a_condition_says(condition: Term, used: bool | None) -> None:
    assert uses_gpu(condition) is used
