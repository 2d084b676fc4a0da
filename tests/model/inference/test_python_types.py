"""Types that values evidently have, and numbers made of literals."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.base.target import nothing_declared
from amplint.model.inference.python_types import OPEN, kinds, number
from amplint.model.module import Module, build
from amplint.model.syntax import ir
from amplint.sources.source import Source

SCALER = "torch.amp.GradScaler"
HEAD = "import os, torch, argparse\nimport numpy as np\n"
PARSER = "parser = argparse.ArgumentParser()\nparser.add_argument({})\nargs = parser.parse_args()\n"


def module_of(text: str) -> Module:
    return build(Source("x.py", HEAD + text), nothing_declared())


def asked(module: Module) -> ir.Value:
    (call,) = (each for each in module.calls if ir.last_name(each.func) == "ask")
    return call.args[0].value


def found(text: str) -> set[str]:
    module = module_of(text)
    return set(kinds(module, asked(module)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask(True)", {"bool"}),
        ("ask(None)", {"None"}),
        ("ask(1.5)", {"float"}),
        ("ask(f'{x}')", {"str"}),
        ("ask([x])", {"list"}),
        ("ask((x,))", {"tuple"}),
        ("ask(not x)", {"bool"}),
        ("ask(x > y)", {"bool"}),
        ("ask(x)", {OPEN}),
        ("ask(x.y)", {OPEN}),
        ("ask(f())", {OPEN}),
        ("ask(1 if x else None)", {"int", "None"}),
        ("ask(x and 1)", {OPEN, "int"}),
        ("ask(1 and True)", {"bool"}),
        ("ask(torch.amp.GradScaler('cuda') and True)", {"bool"}),
        ("ask(None or True)", {"bool"}),
        ("ask(2**3)", {"int"}),
        ("ask(2 / 1)", {"float"}),
        ("ask(2 * x)", {OPEN}),
        ("ask(-2.0)", {"float"}),
        ("ask(True & False)", {"bool"}),
        ("ask(os.environ['x'])", {"str"}),
        ("ask(os.environ.get('x'))", {"str", "None"}),
        ("ask(os.getenv('x', '0'))", {"str"}),
        ("ask(np.any(x))", {"numpy.bool"}),
        ("ask(len(x))", {"int"}),
        ("x = 1\nask(x)", {"int"}),
        ("x = 1\nx = True\nask(x)", {"bool"}),
        ("x = 1\nif y:\n    x = True\nask(x)", {"int", "bool"}),
        ("x = 1\nif not x:\n    x = True\nask(x)", {OPEN, "bool"}),
        ("x = 1\nif y:\n    x = 2\nask(x)", {"int"}),
        ("for x in y:\n    ask(x)", {OPEN}),
        ("def f(x: int):\n    ask(x)", {"int"}),
        ("def f(x: bool = None):\n    ask(x)", {"bool"}),
        ("def f(x: Other):\n    ask(x)", {OPEN}),
        ("def f(x=1):\n    ask(x)", {OPEN, "int"}),
        ("def f(*x):\n    ask(x)", {OPEN}),
        ("class A:\n    def f(self):\n        self.x = 1\n        ask(self.x)", {"int"}),
        ("class A:\n    def f(self):\n        self.x = 1\n        self.x = y\n        ask(self.x)", {OPEN}),
        ("x = y\ny = x\nask(x)", {OPEN}),
    ],
)
def test_kinds(text: str, expected: set[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("'--amp', type=int, default=0", {"int"}),
        ("'--amp', type=int, default='0'", {"int"}),
        ("'--amp', type=int", {"int", "None"}),
        ("'--amp', type=int, required=True", {"int"}),
        ("'amp', type=int", {"int"}),
        ("'--amp'", {"str", "None"}),
        ("'-a', '--amp', default='O1'", {"str"}),
        ("'--amp', action='store_true'", {"bool"}),
        ("'--no-amp', dest='amp', action='store_false'", {"bool"}),
        ("'--amp', action=argparse.BooleanOptionalAction", {OPEN}),
        ("'--amp', type=flag, default=1", {OPEN, "int"}),
        ("'--amp', type=int, nargs='*'", {OPEN}),
        ("'--amp', **more", {OPEN}),
        ("*names, type=int", {OPEN}),
        ("'--other', type=int", {OPEN}),
    ],
)
def test_options(option: str, expected: set[str]) -> None:
    assert found(PARSER.format(option) + "ask(args.amp)") == expected


@pytest.mark.parametrize(
    "more",
    [
        "args.amp = bool(args.amp)\n",
        "parser.set_defaults(amp=True)\n",
        "setattr(args, 'amp', True)\n",
        "parser.add_argument('--AMP', dest='amp', action='store_true')\n",
    ],
)
def test_options_that_are_changed(more: str) -> None:
    assert found(PARSER.format("'--amp', type=int, default=0") + more + "ask(args.amp)") == {OPEN}


def test_options_that_an_object_keeps_are_not_changed() -> None:
    kept = "class A:\n    def __init__(self):\n        self.amp = args.amp\n"
    assert found(PARSER.format("'--amp', type=int, default=0") + kept + "ask(args.amp)") == {"int"}


def test_options_of_another_object() -> None:
    assert found(PARSER.format("'--amp', type=int, default=0") + "ask(config.amp)") == {OPEN}


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ({"type": int, "default": 0}, []),
        ({"type": int}, []),
        ({"type": int}, ["--amp", "1"]),
        ({"default": "O1"}, []),
        ({"action": "store_true"}, []),
        ({"type": float, "default": "1"}, []),
        ({"type": str, "default": None}, []),
    ],
)
def test_options_are_what_argparse_makes_of_them(option: dict[str, object], line: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", **option)  # type: ignore[arg-type]
    made = parser.parse_args(line).amp
    words = "".join(
        f", {key}={value.__name__ if isinstance(value, type) else repr(value)}" for key, value in option.items()
    )
    name = "None" if made is None else type(made).__name__
    assert name in found(PARSER.format(f"'--amp'{words}") + "ask(args.amp)")


NUMBERS = st.recursive(
    st.integers(-100, 100).map(str) | st.floats(-100, 100).map(repr),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**"]), inner).map(
        lambda each: f"({each[0]} {each[1]} {each[2]})"
    ),
    max_leaves=5,
)


@given(NUMBERS)
def test_a_number_is_what_python_makes_of_it(text: str) -> None:
    module = module_of(f"ask({text})")
    got = number(module, asked(module))
    if got is not None:
        assert got == pytest.approx(eval(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask(2**16)", 65536),
        ("ask(float(2**7))", 128),
        ("x = 4\nask(-x)", -4),
        ("ask(True)", None),
        ("ask(x)", None),
        ("ask(1 / 0)", None),
        ("ask(9.0**9**9**9)", None),
        ("ask(1e400 * 2)", None),
        ("ask(10**100 + 1)", None),
        ("ask((-8) ** 0.5)", None),
        ("x = 1\nif y:\n    x = 2\nask(x)", None),
    ],
)
def test_number(text: str, expected: float | None) -> None:
    module = module_of(text)
    assert number(module, asked(module)) == expected
