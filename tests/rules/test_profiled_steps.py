"""AMP207 and AMP301: steps that a profiler watches are suspicions, and steps that train beside it are not."""

from __future__ import annotations

import pytest

import amplint
from amplint import make_settings
from amplint.base.findings import Confidence

PROGRAM = """\
import time
import torch


def main(trainer, loader):
    stream = iter(loader)
    with torch.profiler.profile(record_shapes=True) as watched:
        for step in LOOP:
            x, y = next(stream)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(trainer.model(x), y)
                loss.backward()
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()
            watched.step()
    KEEPS


def train(model, loader, optimizer):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loop", "keeps", "profiled"),
    [
        ("range(3)", 'watched.export_chrome_trace("trace.json")', True),
        ("range(3)", "pass", True),
        ("range(3)", 'torch.save(trainer.model.state_dict(), "model.pt")', False),
        ("loader", "pass", False),
    ],
)
@pytest.mark.parametrize("code", ["AMP207", "AMP301"])
def test_a_profiler_around_some_steps(code: str, loop: str, keeps: str, profiled: bool) -> None:
    text = PROGRAM.replace("LOOP", loop).replace("KEEPS", keeps)
    findings = amplint.check(text, "profile.py", make_settings(suspicions=True))
    (found,) = (each for each in findings if each.code == code)
    assert (found.confidence is Confidence.SUSPICION) is profiled


TIMED = """\
import timeit
import torch


def measure(model, batch):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch).mean()
        start = timeit.default_timer()
        loss.backward()
        elapsed = timeit.default_timer() - start
    return elapsed


def train(model, loader, optimizer):
    for x in loader:
        USE
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("use", "count"), [("pass", 0), ("print(measure(model, x))", 1)])
def test_a_backward_that_is_only_timed(use: str, count: int) -> None:
    found = [each for each in amplint.check(TIMED.replace("USE", use), "bench.py") if each.code == "AMP301"]
    assert len(found) == count


@pytest.mark.parametrize(("profiled", "confidence"), [(True, Confidence.SUSPICION), (False, Confidence.CERTAIN)])
def test_a_region_around_profiled_steps(profiled: bool, confidence: Confidence) -> None:
    text = (
        "import torch\n\n\ndef main(model, loader, optimizer):\n    stream = iter(loader)\n"
        '    with torch.autocast("cuda", dtype=torch.bfloat16), WATCH:\n        for _ in range(3):\n'
        "            model(next(stream)).mean().backward()\n            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
    ).replace("WATCH", "torch.profiler.profile()" if profiled else "torch.enable_grad()")
    findings = amplint.check(text, "main.py", make_settings(suspicions=True))
    assert [each.confidence for each in findings if each.code == "AMP309"] == [confidence]
