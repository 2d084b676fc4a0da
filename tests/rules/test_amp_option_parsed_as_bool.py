"""What argparse makes of an option with `type=bool`, as AMP216 says it."""

from __future__ import annotations

import argparse

import pytest

import amplint


@pytest.mark.parametrize("default", [True, False])
def test_false_is_true(default: bool) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", type=bool, default=default)
    assert parser.parse_args([]).fp16 is default
    assert parser.parse_args(["--fp16", "False"]).fp16 is True
    assert parser.parse_args(["--fp16", ""]).fp16 is False


@pytest.mark.parametrize(
    ("names", "do"),
    [
        ('"--fp16"', "use `action=argparse.BooleanOptionalAction`"),
        ('"-h16", "--fp16"', "use `action=argparse.BooleanOptionalAction`"),
        ('"-fp16"', "name the option `--fp16`, and use `action=argparse.BooleanOptionalAction`"),
    ],
)
def test_the_advice_works(names: str, do: str) -> None:
    declared = f"parser.add_argument({names}, type=bool)"
    text = f"import argparse\nimport torch\n\nparser = argparse.ArgumentParser()\n{declared}\n"
    (found,) = amplint.check(text, "train.py")
    assert found.message.endswith(f"; {do}")
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action=argparse.BooleanOptionalAction, default=True)
    assert parser.parse_args(["--no-fp16"]).fp16 is False
