"""Code that a constant of the file switches off: what is said of it is a suspicion."""

from __future__ import annotations

import pytest

from amplint import check, make_settings

TEXT = """\
import torch


class CFG:
    train = TRAIN
    epochs = 3
    use_amp = AMP


DEBUG = False


def fit(loader, model, criterion, optimizer):
    scaler = torch.amp.GradScaler("cuda", enabled=CFG.use_amp)
    for x, y in loader:
        with torch.autocast("cuda", enabled=CFG.use_amp):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def folds(loader, model, criterion, optimizer):
    for _ in range(4):
        fit(loader, model, criterion, optimizer)


def main(loader, model, criterion, optimizer):
    CALL


if __name__ == "__main__":
    main([], None, None, None)
"""
FOLDS = "folds(loader, model, criterion, optimizer)"
SUSPICIONS = make_settings(select=["AMP401"], suspicions=True)


def found(call: str, *, train: str = "False", amp: str = "True", more: str = "") -> list[str]:
    text = TEXT.replace("CALL", call).replace("TRAIN", train).replace("AMP", amp) + more
    return [each.confidence.value for each in check(text, settings=SUSPICIONS)]


@pytest.mark.parametrize(
    "call",
    [
        f"if CFG.train:\n        {FOLDS}",
        f"if CFG.train and loader:\n        {FOLDS}",
        f"if not CFG.train:\n        return\n    {FOLDS}",
        f"if DEBUG:\n        {FOLDS}",
    ],
)
def test_what_never_runs_is_a_suspicion(call: str) -> None:
    assert found(call) == ["suspicion"]


@pytest.mark.parametrize("call", [f"if CFG.train:\n        {FOLDS}", FOLDS, f"if CFG.epochs:\n        {FOLDS}"])
def test_what_runs_is_certain(call: str) -> None:
    assert found(call, train="True") == ["certain"]


@pytest.mark.parametrize(
    "more",
    [
        "CFG.train = True\n",
        'setattr(CFG, "train", True)\n',
        "fit([], None, None, None)\n",
        "hooks = [folds]\n",
    ],
)
def test_a_constant_that_is_set_and_a_function_that_is_used_elsewhere(more: str) -> None:
    assert found(f"if CFG.train:\n        {FOLDS}", more=more) == ["certain"]


def test_a_switch_of_amp_silences_nothing() -> None:
    assert found(f"if CFG.use_amp:\n        {FOLDS}", amp="False") == ["certain"]
