"""What `torch.compile` gives is followed as the function that it compiles."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch

MAKE

def main(args, model, data):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    COMPILE
    for x, y in data:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y)
        scaler.scale(loss).backward()
        CALL(model)
        scaler.step(optimizer)
        scaler.update()
"""
BODY = "def limit(model):\n    CLIP(model.parameters(), 1.0)\n"


def found(make: str, compile_: str, call: str) -> list[str]:
    text = PROGRAM.replace("MAKE", make).replace("COMPILE", compile_).replace("CALL", call)
    return [each.code for each in check(text.replace("CLIP", "torch.nn.utils.clip_grad_norm_"))]


@pytest.mark.parametrize(
    ("make", "compile_", "call"),
    [
        (BODY, "pass", "limit"),
        (f"@torch.compile\n{BODY}", "pass", "limit"),
        (f"@torch.compile(mode='max-autotune')\n{BODY}", "pass", "limit"),
        (BODY, "fast = torch.compile(limit)", "fast"),
        (BODY, "fast = torch.compile(limit)\n    faster = torch.compile(fast)", "faster"),
        (f"{BODY}\nif torch.cuda.is_available():\n    limit = torch.compile(limit)\n", "pass", "limit"),
    ],
)
def test_a_compiled_function_is_followed(make: str, compile_: str, call: str) -> None:
    assert found(make, compile_, call) == ["AMP401"]


@pytest.mark.parametrize(
    ("make", "compile_", "call"),
    [
        (BODY, "fast = other.compile(limit)", "fast"),
        (BODY, "fast = torch.compile(args.limit)", "fast"),
        (f"{BODY}\none = torch.compile(two)\ntwo = torch.compile(one)\n", "pass", "one"),
    ],
)
def test_nothing_else_is(make: str, compile_: str, call: str) -> None:
    assert "AMP401" not in found(make, compile_, call)
