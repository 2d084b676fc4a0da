"""Checkpoints by hand of what accelerate prepared, without the state of its scaler (AMP413)."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

TEXT = """\
import argparse
import torch
from accelerate import Accelerator


def main(args, loader):
    accelerator = Accelerator(mixed_precision=PRECISION)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    if args.resume:
        kept = torch.load(args.resume)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
    model, optimizer = accelerator.prepare(model, optimizer)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", OPTION)
    parser.add_argument("--resume")
    main(parser.parse_args(), [])
"""


def codes(precision: str, option: str = "type=str") -> set[str]:
    return {each.code for each in check(TEXT.replace("PRECISION", precision).replace("OPTION", option))}


@pytest.mark.parametrize("option", ['default="fp16"', 'default="fp16", choices=["no", "fp16", "bf16"]'])
def test_an_option_that_is_float16_by_default(option: str) -> None:
    assert "AMP413" in codes("args.precision", option)


@pytest.mark.parametrize(
    "option", ["type=str", 'default="no", choices=["fp16", "no"]', 'default=None, choices=["fp16"]']
)
def test_an_option_that_is_off_by_default(option: str) -> None:
    text = TEXT.replace("PRECISION", "args.precision").replace("OPTION", option)
    (finding,) = (each for each in check(text) if each.code == "AMP413")
    assert finding.confidence is Confidence.LIKELY
    assert finding.message.startswith('with the precision "fp16", ')


@pytest.mark.parametrize("option", ['default="bf16", choices=["fp16", "bf16"]', 'choices=["bf16", "no"]'])
def test_one_that_is_bfloat16(option: str) -> None:
    assert "AMP413" not in codes("args.precision", option)


def test_float16_that_is_written_out() -> None:
    assert "AMP413" in codes('"fp16"')
    assert "AMP413" not in codes('"bf16"')


@pytest.mark.parametrize("chosen", ['"fp16" if args.half else None', '"fp16" if args.half else "no"'])
def test_float16_that_a_condition_chooses(chosen: str) -> None:
    found = [each for each in check(TEXT.replace("PRECISION", chosen)) if each.code == "AMP413"]
    assert [each.message.partition(":")[0] for each in found] == [
        'with the precision "fp16", the checkpoint lacks the state of the Accelerator\'s scaler'
    ]
    assert {each.confidence.value for each in found} == {"likely"}


SETTINGS = "\n\nclass Settings:\n    half = {value}\n\n\nsettings = Settings()\n\n\ndef main("


@pytest.mark.parametrize(
    ("value", "option", "wanted"),
    [
        ("False", "--other", False),  # set in the code, where nobody who runs it changes it
        ("True", "--other", True),
        ("False", "--half", True),
    ],
)
def test_float16_that_the_code_itself_switches_off(value: str, option: str, wanted: bool) -> None:
    text = TEXT.replace("\n\ndef main(", SETTINGS.format(value=value), 1).replace("--precision", option)
    text = text.replace("PRECISION", '"fp16" if settings.half else "no"').replace("OPTION", 'action="store_true"')
    assert ("AMP413" in {each.code for each in check(text)}) is wanted


def test_float16_that_a_caller_may_ask_for() -> None:
    text = TEXT.replace("def main(args, loader):", "def main(args, loader, half=False):")
    assert "AMP413" in {each.code for each in check(text.replace("PRECISION", '"fp16" if half else "no"'))}


def test_bfloat16_that_a_condition_chooses() -> None:
    assert "AMP413" not in codes('"bf16" if args.half else "no"')


OUT_OF_SIGHT = """\
from accelerate import Accelerator
from parts import load_training_state, make, save_checkpoint


def main(args, loader):
    accelerator = Accelerator(mixed_precision="fp16" if args.half else "no")
    policy, optimizer = make(args)
    if args.resume:
        optimizer = load_training_state(args.resume, optimizer)
    policy, optimizer = accelerator.prepare(policy, optimizer)
    for step, batch in enumerate(loader):
        accelerator.backward(policy(batch))
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            policy_state = accelerator.unwrap_model(policy)
            save_checkpoint("last.pt", step, policy_state, optimizer)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        # The scaler may be saved; nothing resumes; another optimizer is saved, or none; nothing is to be scaled.
        ("policy_state, optimizer)", "policy_state, optimizer, accelerator.scaler)", 0),
        ("optimizer = load_training_state(args.resume, optimizer)", "pass", 0),
        ("policy_state, optimizer)", "policy_state, args.optimizer)", 0),
        ("policy_state, optimizer)", "policy_state)", 0),
        ('"fp16" if args.half else "no"', '"bf16" if args.half else "no"', 0),
    ],
)
def test_a_checkpoint_that_code_out_of_sight_saves(old: str, new: str, count: int) -> None:
    assert old in OUT_OF_SIGHT
    told = [each for each in check(OUT_OF_SIGHT.replace(old, new)) if each.code == "AMP413"]
    assert [each.confidence for each in told] == [Confidence.LIKELY] * count


OF_CALLERS = TEXT.replace("def main(args, loader):", "def main(args, loader, **kwargs):").replace(
    "mixed_precision=PRECISION", "**kwargs"
)
TABLE = '{"fp16": torch.half, "bf16": torch.bfloat16, "no": torch.float}[accelerator.mixed_precision]'


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("pass", 0),
        ("if not accelerator.optimizer_step_was_skipped: print(loss)", 1),
        ('x = x.half() if accelerator.mixed_precision == "fp16" else x', 1),
        (f"x = x.to({TABLE})", 1),
        ('x = x.bfloat16() if accelerator.mixed_precision == "bf16" else x', 0),
        ("print(accelerator.mixed_precision)", 0),
        ('x = x.half() if args.mixed_precision == "fp16" else x', 0),
    ],
)
def test_a_precision_that_callers_choose(line: str, count: int) -> None:
    text = OF_CALLERS.replace("    accelerator.backward", f"    {line}\n        accelerator.backward")
    told = [each for each in check(text.replace("OPTION", "type=str")) if each.code == "AMP413"]
    assert [each.confidence for each in told] == [Confidence.LIKELY] * count
    assert all(each.message.startswith('with the precision "fp16", ') for each in told)


def test_a_precision_of_callers_whose_scaler_is_saved() -> None:
    line = "if not accelerator.optimizer_step_was_skipped: print(loss)"
    text = OF_CALLERS.replace("    accelerator.backward", f"    {line}\n        accelerator.backward")
    text = text.replace('"last.pt")', '"last.pt")\n    torch.save(accelerator.scaler.state_dict(), "scaler.pt")')
    assert "AMP413" not in {each.code for each in check(text.replace("OPTION", "type=str"))}


@pytest.mark.parametrize("scaler_too", [False, True])
def test_an_optimizer_without_its_wrapper(scaler_too: bool) -> None:
    saved = '    plain = accelerator.unwrap_model(optimizer)\n    torch.save({"model": model.module.state_dict(), '
    scaler = ', "scaler": accelerator.scaler.state_dict()' if scaler_too else ""
    text = TEXT.replace("PRECISION", '"fp16"').replace("OPTION", "type=str")
    text = text.replace('    torch.save({"model": model.module.state_dict(), ', saved)
    text = text.replace("optimizer.state_dict()}", f"plain.state_dict(){scaler}}}")
    assert ("AMP413" in {each.code for each in check(text)}) is not scaler_too
