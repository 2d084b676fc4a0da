"""CUDA graphs: what was captured runs again where it is replayed, and makes new gradients."""

from __future__ import annotations

import textwrap

import pytest

from amplint import check

CAPTURE = """\
g = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(g):
    with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
        loss = criterion(model(static_x), static_y)
    scaler.scale(loss).backward()
"""
HEAD = """\
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
static_x, static_y = torch.randn(4, 2, device="cuda"), torch.randn(4, 2, device="cuda")
"""
LOOP = """\
for x, y in loader:
    static_x.copy_(x)
    static_y.copy_(y)
    g.replay()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
PARAMETERS = "model, optimizer, scaler, criterion, static_x, static_y"
UNSCALE, UPDATE = "    scaler.unscale_(optimizer)\n", "    scaler.update()\n"


def function(head: str, body: str) -> str:
    return f"def {head}:\n{textwrap.indent(body, '    ')}\n\n"


IN_ONE = "import torch\n\n\n" + function("train(loader, criterion)", f"{HEAD}{CAPTURE}{LOOP}")
IN_TWO = (
    "import torch\n\n\n"
    + function(f"capture({PARAMETERS})", f"{CAPTURE}return g\n")
    + function("train(loader, criterion)", f"{HEAD}g = capture({PARAMETERS})\n{LOOP}")
)
GIVEN = "import torch\n\n\n" + function("train(loader, model, graph, optimizer, scaler, static_x, static_y)", LOOP)
GIVEN = GIVEN.replace("g.replay", "graph.replay")
CALLABLES = """\
model = torch.cuda.make_graphed_callables(model, (static_x,))
for x, y in loader:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
PLAIN = "import torch\n\n\n" + function("train(loader, criterion)", HEAD + CALLABLES)


def codes(text: str) -> list[str]:
    return [each.code for each in check(text)]


@pytest.mark.parametrize("text", [IN_ONE, IN_TWO, GIVEN, PLAIN])
def test_a_replay_makes_the_gradients_of_its_step(text: str) -> None:
    assert codes(text) == []
    unclipped = text.replace(textwrap.indent(UNSCALE, "    "), "").replace("torch.nn.utils.clip_grad_norm_", "print")
    assert codes(unclipped) == []


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (UNSCALE, "", "AMP401"),
        (UNSCALE, UNSCALE * 2, "AMP405"),
        (UPDATE, "", "AMP404"),
        (UPDATE, UPDATE * 2, "AMP410"),
        ("    scaler.step(optimizer)\n", "    optimizer.step()\n", "AMP402"),
    ],
)
def test_what_is_wrong_behind_a_replay_is_found(old: str, new: str, code: str) -> None:
    text = "import torch\n\n\n" + function("train(loader, criterion)", HEAD + CAPTURE + LOOP.replace(old, new))
    assert codes(text) == [code]


@pytest.mark.parametrize("text", [IN_ONE, IN_TWO])
def test_verify_says_that_it_cannot_check_a_replay(text: str) -> None:
    pytest.importorskip("torch")
    from amplint.api import make_settings
    from amplint.verify.steps.verify import Verifier

    with Verifier() as verifier:
        (row,) = verifier.verify("train.py", text.encode(), make_settings())
    assert (row.verdict, row.reason.partition(": ")[2]) == (
        "not checkable",
        "a CUDA graph is captured and replayed",
    )
