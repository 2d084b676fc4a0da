"""One finding for one cause: the gravest of those that one change puts right."""

from __future__ import annotations

from amplint import check, fix
from amplint.config.settings import Settings
from amplint.registry import all_rules

INSIDE = """
import torch
def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
"""
SPANNING = """
import torch
def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        for x in loader:
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
"""


def found(text: str, *codes: str) -> list[tuple[int, str]]:
    settings = Settings(frozenset(codes or all_rules()), isolated=True)
    return [(each.location.row, each.code) for each in check(text, "train.py", settings)]


def test_backward_and_step_of_a_region_are_one_finding() -> None:
    (one,) = check(INSIDE)
    assert (one.location.row, one.code) == (9, "AMP301")
    assert one.message.endswith("(which also fixes AMP302 on line 10)")
    fixed = fix(INSIDE)
    assert found(fixed) == []
    assert "\n        loss.backward()\n        optimizer.step()\n" in fixed


def test_the_gravest_is_kept() -> None:
    (one,) = check(SPANNING)
    assert (one.location.row, one.code) == (5, "AMP309")
    assert one.message.endswith("(which also fixes AMP301 on line 9 and AMP302 on line 10)")
    assert one.fix is not None


def test_each_rule_by_itself_finds_what_it_finds() -> None:
    assert found(INSIDE, "AMP302") == [(10, "AMP302")]
    assert found(SPANNING, "AMP301", "AMP302") == [(9, "AMP301")]


def test_a_comment_silences_its_own_line_only() -> None:
    one = INSIDE.replace("loss.backward()", "loss.backward()  # noqa: AMP301")
    assert found(one) == [(10, "AMP302")]
    assert found(one.replace("step()", "step()  # noqa: AMP302")) == []


def test_two_regions_are_two_causes() -> None:
    second = INSIDE.partition("    for x in loader:")[2]
    assert found(f"{INSIDE}    for x in loader:{second}") == [(9, "AMP301"), (15, "AMP301")]


ON_ONE_LINE = """
import torch
def train(model, loader, device="cuda:0"):
    with torch.autocast(device, dtype=torch.float32), torch.autocast(device, dtype=torch.float32):
        model(loader)
"""


def test_a_finding_does_not_name_its_own_line() -> None:
    settings = Settings(frozenset({"AMP204"}), isolated=True)
    (one,) = check(ON_ONE_LINE, settings=settings)
    assert "AMP204 on line" not in one.message
