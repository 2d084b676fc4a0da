"""AMP413 where code out of sight saves: it is given the optimizer, and never the scaler."""

from __future__ import annotations

import pytest

from amplint import check, make_settings
from amplint.base.findings import Confidence, Finding

PROGRAM = """\
import torch
from somewhere import Checkpointer, load_checkpoint, save_checkpoint, save_hyperparameters, saves, utils


def main(model, loader, args, resume=None):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    MADE
    RESUME
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        SAVE
"""
LOAD = "load_checkpoint(resume, model, optimizer)"
SAVE = 'save_checkpoint("last.pt", model, optimizer, epoch)'


def found(save: str = SAVE, resume: str = LOAD, made: str = "pass") -> list[Finding]:
    text = PROGRAM.replace("SAVE", save).replace("RESUME", resume).replace("MADE", made)
    return [each for each in check(text, settings=make_settings(suspicions=True)) if each.code == "AMP413"]


@pytest.mark.parametrize(
    ("save", "resume", "made"),
    [
        (SAVE, LOAD, "pass"),
        ("utils.save_model(args, epoch, model, optimizer, loss)", LOAD, "pass"),
        ("save_checkpoint(optimizer=optimizer, model=model)", LOAD, "pass"),
        ("utils.saveModel(model, optimizer)", "utils.resume_training(model, optimizer)", "pass"),
        (
            "saver.save(epoch)",
            "saver.resume_or_load(resume)",
            'saver = Checkpointer(model, "out", optimizer=optimizer)',
        ),
        ("if epoch % 2:\n            " + SAVE, LOAD, "pass"),
        ("save_checkpoint(**kept, epoch=epoch)", LOAD, 'kept = {"models": [model], "optimizer": optimizer}'),
        ("save_checkpoint(*kept)", LOAD, 'kept = ("last.pt", model, optimizer)'),
    ],
)
def test_it_is_likely_where_something_resumes(save: str, resume: str, made: str) -> None:
    (one,) = found(save, resume, made)
    assert one.confidence is Confidence.LIKELY
    assert "gets the optimizer but not the scaler" in one.message


@pytest.mark.parametrize(
    ("save", "made"),
    [(SAVE, "pass"), ("saver.save(epoch)", 'saver = Checkpointer(model, "out", optimizer=optimizer)')],
)
def test_it_is_a_suspicion_where_nothing_does(save: str, made: str) -> None:
    (one,) = found(save, "pass", made)
    assert one.confidence is Confidence.SUSPICION


@pytest.mark.parametrize(
    ("save", "made"),
    [
        ('save_checkpoint("last.pt", model, optimizer, scaler, epoch)', "pass"),
        ('save_checkpoint("last.pt", model, optimizer, scaler.state_dict())', "pass"),
        ('save_checkpoint("last.pt", model, optimizer, **extra)', "extra = dict(scaler=scaler)"),
        ('save_checkpoint("last.pt", model, optimizer, **args.more)', "pass"),
        ("save_checkpoint(**kept)", 'kept = {"model": model, "optimizer": optimizer, "scaler": scaler}'),
        ("save_checkpoint(**kept)", 'kept = {"model": model, "optimizer": optimizer}\n    kept["amp"] = scaler'),
        (SAVE, "args.scaler = scaler"),
        (SAVE, "saves(scaler)"),
        (f"{SAVE}\n        torch.save(scaler.state_dict(), 'scaler.pt')", "pass"),
        (f"if not args.amp:\n            {SAVE}", "pass"),
        ("save_hyperparameters(model, optimizer)", "pass"),
        ("save_checkpoint(model, epoch)", "pass"),
        ("utils.save_state(optimizer)", "pass"),
        (SAVE.replace("optimizer", "other"), "other = torch.optim.SGD(model.parameters())\n    other.step()"),
    ],
)
def test_what_may_save_the_scaler_or_no_optimizer_of_it_is_left_alone(save: str, made: str) -> None:
    assert not found(save, LOAD, made)


def test_the_best_model_is_not_what_a_run_is_resumed_from() -> None:
    save = 'if loss < best:\n            best = loss\n            save_checkpoint("x.pt", model, optimizer)'
    assert not found(save, "pass", "best = 1.0")
