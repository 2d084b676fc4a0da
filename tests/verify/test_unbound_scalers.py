"""A scaler that only one branch creates: where the other one is taken, the program raises, with AMP and without."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.steps.verify import StepRow

STEP = """
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
FUNCTION = "import torch\n\ndef train(model, optimizer, loader, args):\n    MADE" + STEP
MODULE = (
    "import torch\nfrom library import build, parse\n\nargs = parse()\nmodel, loader = build(args), args.loader\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nif True:\n    MADE" + STEP
)
ONE_BRANCH = 'if args.amp:\n        scaler = torch.amp.GradScaler("cuda")'
BOUND = {
    "always": 'scaler = torch.amp.GradScaler("cuda")',
    "in both": ONE_BRANCH + '\n    else:\n        scaler = torch.amp.GradScaler("cuda", enabled=False)',
    "before": 'scaler = torch.amp.GradScaler("cuda", enabled=False)\n    ' + ONE_BRANCH,
    "asserted": "assert args.amp\n    " + ONE_BRANCH,
}


def row(text: str, made: str) -> StepRow:
    (found,) = amplint.verify(text.replace("MADE", made))
    return found


@pytest.mark.parametrize(("text", "error"), [(FUNCTION, "UnboundLocalError"), (MODULE, "NameError")])
def test_the_run_shows_what_raises(text: str, error: str) -> None:
    found = row(text, ONE_BRANCH)
    finding = next(each for each in found.findings if each.code == "AMP420")
    assert (finding.shown, found.verdict) == (True, "misbehaves"), found
    assert found.reason == f"line {finding.row}: {error}: scaler has no value where not (args.amp)"


@pytest.mark.parametrize("name", BOUND)
def test_a_scaler_that_is_always_there_is_right(name: str) -> None:
    found = row(FUNCTION, BOUND[name])
    assert "AMP420" not in [each.code for each in found.findings]
    assert "has no value" not in found.reason
