"""What argparse makes of an option with `type=bool`, as AMP216 says it."""

from __future__ import annotations

import argparse

import pytest


@pytest.mark.parametrize("default", [True, False])
def test_false_is_true(default: bool) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", type=bool, default=default)
    assert parser.parse_args([]).fp16 is default
    assert parser.parse_args(["--fp16", "False"]).fp16 is True
    assert parser.parse_args(["--fp16", ""]).fp16 is False
