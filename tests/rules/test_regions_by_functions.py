"""Regions that one of several functions of one name gives."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TRAIN = """\
import contextlib
import torch

def train(settings, model, loader, optimizer, half):
{functions}
    scaler = torch.amp.GradScaler("cuda", enabled={enabled})
    for x in loader:
        optimizer.zero_grad()
        with ctx():
            loss = model(x).mean()
            {inside}
        {outside}
        {step}
"""
SCALED = "scaler.scale(loss).backward()"
STEP = "scaler.step(optimizer); scaler.update()"


def arms(test: str, then: str, other: str) -> str:
    gives = "        def ctx():\n            return {}\n"
    return f"    if {test}:\n" + gives.format(then) + "    else:\n" + gives.format(other)


FLOAT16 = 'torch.autocast("cuda", dtype=torch.float16)'
NONE = "contextlib.nullcontext()"


def codes(
    functions: str, enabled: str = "True", inside: str = "pass", outside: str = SCALED, step: str = STEP
) -> list[str]:
    text = TRAIN.format(functions=functions, enabled=enabled, inside=inside, outside=outside, step=step)
    asked = frozenset({"AMP207", "AMP210", "AMP301"})
    return [each.code for each in check(text, "program.py", Settings(asked, isolated=True))]


@pytest.mark.parametrize("other", [FLOAT16, 'torch.autocast("cuda")', NONE])
def test_a_backward_in_one_of_them_is_found(other: str) -> None:
    assert codes(arms("half", FLOAT16, other), inside=SCALED, outside="pass") == ["AMP301"]


@pytest.mark.parametrize("other", [FLOAT16, 'torch.autocast("cuda")', NONE])
def test_a_backward_behind_it_is_right(other: str) -> None:
    assert not codes(arms("half", FLOAT16, other))


def test_a_scaler_that_is_off_where_one_of_them_is_on_is_found() -> None:
    assert codes(arms("settings.amp", FLOAT16, NONE), enabled="settings.scale") == ["AMP210"]


def test_a_scaler_that_is_on_with_it_is_right() -> None:
    assert not codes(arms("settings.amp", FLOAT16, NONE), enabled="settings.amp")


def test_a_region_without_a_scaler_is_found() -> None:
    text = arms("half", FLOAT16, 'torch.autocast("cuda")')
    plain = TRAIN.replace('    scaler = torch.amp.GradScaler("cuda", enabled={enabled})\n', "")
    text = plain.format(functions=text, inside="pass", outside="loss.backward()", step="optimizer.step()")
    asked = Settings(frozenset({"AMP207"}), isolated=True)
    assert [each.code for each in check(text, "program.py", asked)] == ["AMP207"]


def test_more_than_two_are_followed() -> None:
    gives = "            def ctx():\n                return {}\n"
    three = "    if half:\n" + gives.format(FLOAT16) + "    elif settings.plain:\n" + gives.format(NONE)
    three += "    else:\n" + gives.format(FLOAT16)
    assert codes(three, inside=SCALED, outside="pass") == ["AMP301"]


@pytest.mark.parametrize("last", ["        ctx = settings.context\n", "        from library import ctx\n"])
def test_what_else_the_name_can_be_is_no_region_that_is_known(last: str) -> None:
    one = f"    if half:\n        def ctx():\n            return {NONE}\n    else:\n{last}"
    assert not codes(one, inside=SCALED, outside="pass")


def test_what_is_called_may_be_a_region_itself() -> None:
    functions = f"""\
    def chosen(name):
        if name == "amp":
            return torch.autocast(device_type="cuda")
        elif name == "lazy":
            return lambda: {FLOAT16}
        return contextlib.nullcontext
    ctx = chosen(settings.precision)"""
    assert codes(functions, inside=SCALED, outside="pass") == ["AMP301"]
