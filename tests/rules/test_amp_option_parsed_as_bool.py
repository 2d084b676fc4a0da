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


@pytest.mark.parametrize("names", ['"--fp16"', '"-h16", "--fp16"', '"-fp16"', '"fp16"'])
def test_the_fix_works(names: str) -> None:
    declared = f"parser.add_argument({names}, type=bool)"
    text = f"import argparse\nimport torch\n\nparser = argparse.ArgumentParser()\n{declared}\n"
    (found,) = amplint.check(text, "train.py")
    assert found.message.endswith('use `type=lambda text: text.lower() in ("true", "yes", "1")`')
    fixed = amplint.fix(text, "train.py", unsafe=True)
    assert isinstance(fixed, str)
    program: dict[str, argparse.ArgumentParser] = {}
    exec(fixed.replace("import torch\n", ""), program)
    option = names.rpartition(" ")[2].strip('"')
    for value, expected in {"False": False, "false": False, "0": False, "": False, "True": True, "1": True}.items():
        arguments = [option, value] if option.startswith("-") else [value]
        assert program["parser"].parse_args(arguments).fp16 is expected
