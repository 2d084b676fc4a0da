"""How sure the rules of the scaler's order are: by the conditions of the step that an update comes before."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP401", "AMP410"}), isolated=True, suspicions=True)
HEAD = """\
import torch

def train(model, head, loader, first, second, settings):
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(loader):
"""
BACKWARD = "scaler.scale(model(x).mean()).backward()\n"


def found(body: str) -> list[str]:
    text = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    return [f"{each.code} {each.confidence.value} {each.message}" for each in check(text, "program.py", SETTINGS)]


LATER = "first.zero_grad()\nsecond.zero_grad()\n" + BACKWARD + "scaler.step(first)\nscaler.update()\n"


@pytest.mark.parametrize(
    ("test", "named"),
    [('"head" in settings.parts', '`"head" in settings.parts`'), ("not settings.frozen", "`settings.frozen` is false")],
)
def test_an_update_before_a_step_whose_gradients_one_backward_gives_is_likely(test: str, named: str) -> None:
    (said,) = found(f"{LATER}if {test}:\n    scaler.step(second)\n    scaler.update()\n")
    assert said.startswith("AMP410 likely "), said
    assert named in said, said


def test_it_is_a_suspicion_where_nothing_gives_that_optimizer_gradients() -> None:
    (said,) = found(
        f"head(x).mean().item()\n{LATER}if settings.head:\n    scaler.step(second)\n    scaler.update()\n"
        + "aux.mean().backward()\naux_optimizer.step()\n"
    )
    assert said.startswith("AMP410 suspicion "), said


def test_without_a_condition_it_is_certain() -> None:
    (said,) = found(f"{LATER}scaler.step(second)\nscaler.update()\n")
    assert said.startswith("AMP410 certain "), said


def test_what_optimizers_that_take_turns_leave_is_not_of_an_old_scale() -> None:
    turns = "if i % 2:\n    scaler.step(first)\nelse:\n    scaler.step(second)\nscaler.update()\n"
    assert not found(f"first.zero_grad()\n{BACKWARD}{turns}")


def test_the_optimizer_of_clipped_parameters_is_not_named_where_it_cannot_be_told() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    (said,) = found(
        f"first.zero_grad()\nsecond.zero_grad()\n{BACKWARD}{clip}scaler.step(first)\nscaler.step(second)\nscaler.update()\n"
    )
    assert "unscale_(...)" in said, said


EVERY = SETTINGS._replace(codes=SETTINGS.codes | {"AMP404", "AMP405", "AMP406", "AMP407", "AMP418"})
OPTION = """\
import torch

def train(model, loader, optimizer, extra{default}):
    scaler = torch.amp.GradScaler("cuda")
    {before}
    for x in loader:
        optimizer.zero_grad()
        scaler.scale(model(x).mean()).backward()
{body}"""
UNSCALE, STEP, UPDATE = "scaler.unscale_(optimizer)", "scaler.step(optimizer)", "scaler.update()"
OF_AN_OPTION = {
    "AMP404": [UNSCALE, "if extra:", "    if model.is_bad():", "        continue", STEP, UPDATE],
    "AMP405": ["if extra:", f"    {UNSCALE}", UNSCALE, STEP, UPDATE],
    "AMP405 at its place": [UNSCALE, "if extra:", f"    {UNSCALE}", STEP, UPDATE],
    "AMP406": ["if extra:", f"    {STEP}", STEP, UPDATE],
    "AMP406 at its place": [STEP, "if extra:", f"    {UNSCALE}", UPDATE],
    "AMP407": ["if extra:", "    optimizer.zero_grad()", STEP, UPDATE],
    "AMP418": [STEP, UPDATE],
}


def sure_of_an_option(name: str, body: list[str], default: str) -> list[str]:
    before = f"if extra:\n        {UNSCALE}" if name == "AMP418" else ""
    text = OPTION.format(default=default, body="".join(f"        {line}\n" for line in body), before=before)
    return [f"{each.code} {each.confidence.value}" for each in check(text, "program.py", EVERY)]


@pytest.mark.parametrize("name", OF_AN_OPTION)
@pytest.mark.parametrize(("default", "sure"), [("=True", "certain"), ("=False", "suspicion"), ("", "likely")])
def test_the_rules_of_the_order_are_as_sure_as_the_options_that_a_misuse_needs(
    name: str, default: str, sure: str
) -> None:
    assert sure_of_an_option(name, OF_AN_OPTION[name], default) == [f"{name.split(maxsplit=1)[0]} {sure}"]


@pytest.mark.parametrize("name", OF_AN_OPTION)
def test_without_the_option_they_are_certain(name: str) -> None:
    body = [line.strip() if line.startswith(" ") else line for line in OF_AN_OPTION[name] if "extra" not in line]
    if name in ("AMP404", "AMP418"):
        return  # what is left of them is right, or another misuse
    assert sure_of_an_option(name, body, "=False") == [f"{name.split(maxsplit=1)[0]} certain"]
