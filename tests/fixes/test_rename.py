"""AMP101 to AMP103 over every combination of import form, call form and layout, executed before and after the fix.

Each case is a program that collects what it makes in `made`. It runs as it is and as fixed, on a torch that believes in
CUDA: what it made has to be equal, and no FutureWarning may be left. Where a combination can't be rewritten, the
program has to stay as it is, and the finding has to say why.
"""

from __future__ import annotations

import functools
import io
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from amplint import check, fix
from amplint.config.settings import Settings
from tests import some

torch = pytest.importorskip("torch")

AUTOCAST, SCALER, FORWARD = "autocast", "GradScaler", "custom_fwd"


class Import(NamedTuple):
    """How a program reaches an old name: its import lines, and the expression; `X` stands for the name."""

    lines: str
    expression: str
    in_function: bool = False


IMPORTS = {
    "import torch": Import("import torch", "torch.cuda.amp.X"),
    "import torch as": Import("import torch as th", "th.cuda.amp.X"),
    "import torch.cuda.amp": Import("import torch.cuda.amp  # the old one", "torch.cuda.amp.X"),
    "import torch and torch.cuda.amp": Import("import torch\nimport torch.cuda.amp\n# next", "torch.cuda.amp.X"),
    "import torch.cuda.amp as": Import("import torch.cuda.amp as amp  # short", "amp.X"),
    "several modules": Import("import os, torch.cuda.amp as amp, sys  # three", "amp.X"),
    "from torch import cuda": Import("from torch import cuda", "cuda.amp.X"),
    "from torch.cuda import amp": Import("from torch.cuda import amp  # short", "amp.X"),
    "from torch.cuda import amp, more": Import("from torch.cuda import amp, is_available\nis_available()", "amp.X"),
    "from torch.cuda import amp as": Import("import torch\nfrom torch.cuda import amp as cuda_amp", "cuda_amp.X"),
    "from": Import("from torch.cuda.amp import X  # noqa: F401", "X"),
    "from as": Import("from torch.cuda.amp import X as chosen", "chosen"),
    "from cpu": Import("from torch.cpu.amp import X", "X"),
    "several names": Import(
        "from torch.cuda.amp import autocast, GradScaler, custom_fwd  # all\n"
        "made += [isinstance(1, autocast), GradScaler(2.0), custom_fwd(cast_inputs=bfloat16).keywords]",
        "X",
    ),
    "one of several": Import("from torch.cuda.amp import common, X\nmade.append(common.__name__)", "X"),
    "first of several": Import("from torch.cuda.amp import X, common\nmade.append(common.__name__)", "X"),
    "lines": Import(
        "from torch.cuda.amp import (  # parts\n    X,  # the one\n    # line\n    common,  # other\n)  # end\ncommon",
        "X",
    ),
    "last line": Import(
        "from torch.cuda.amp import (\n    common,  # the other\n    X  # the one\n)\nmade.append(common.__name__)", "X"
    ),
    "only line": Import("from torch.cuda.amp import (\n    # why\n    X,  # the one\n)", "X"),
    "backslash": Import("from torch.cuda.amp import common, \\\n    X\nmade.append(common.__name__)", "X"),
    "semicolon": Import("import torch; from torch.cuda.amp import X; import os", "X"),
    "joins": Import(
        "from torch.amp import autocast_mode\nfrom torch.cuda.amp import X, common\n(autocast_mode, common)", "X"
    ),
    "submodule": Import("from torch.cuda.amp.MODULE import X", "X"),
    "submodule as module": Import("import torch.cuda.amp.MODULE", "torch.cuda.amp.MODULE.X"),
    "star of submodule": Import("from torch.cuda.amp.MODULE import *  # noqa: F403", "X"),
    "star": Import("from torch.cuda.amp import *  # noqa: F403", "X"),
    "alias": Import("import torch\nchosen = torch.cuda.amp.X  # once", "chosen"),
    "alias of from": Import("from torch.cuda.amp import X\n\nchosen = X", "chosen"),
    "alias of module": Import("import torch\namp = torch.cuda.amp", "amp.X"),
    "in try": Import("try:\n    from torch.cuda.amp import X\nexcept ImportError:  # old\n    X = None", "X"),
    "in if": Import("if True:\n    from torch.cuda.amp import X  # inside\nelse:\n    X = None", "X"),
    "in function": Import("from torch.cuda.amp import X  # late", "X", in_function=True),
    "module in function": Import("import torch.cuda.amp as amp  # late", "amp.X", in_function=True),
    "shadowed": Import("from torch.cuda.amp import X\ndef other(X):\n    return X  # not it", "X"),
}

CODES = {AUTOCAST: "AMP101", SCALER: "AMP102", FORWARD: "AMP103"}
SETTINGS = Settings(frozenset(CODES.values()), isolated=True)
MODULES = {AUTOCAST: "autocast_mode", SCALER: "grad_scaler", FORWARD: "autocast_mode"}


class Form(NamedTuple):
    """A way to use the name, written `E`: an expression, or whole `statements`; `broken` where it never worked."""

    text: str
    refused: bool = False
    statements: bool = False
    broken: bool = False


MULTI = """\
E(  # open
    # first
    {0},  # one
    {1},

    # between
    {2}  # last
)"""

FORMS: dict[str, dict[str, Form]] = {
    AUTOCAST: {
        "none": Form("E()"),
        "none spaced": Form("E( )"),
        "positional": Form("E(True, bfloat16, False)"),
        "parenthesised": Form("E((True), (bfloat16))"),
        "keyword": Form("E(enabled=False, dtype=bfloat16)"),
        "mixed": Form("E(True, dtype=bfloat16, cache_enabled=False)"),
        "trailing comma": Form("E(False,)"),
        "**": Form("E(**{'enabled': False, 'dtype': bfloat16})"),
        "positional and **": Form("E(False, **{'dtype': bfloat16})"),
        "*": Form("E(*(True, bfloat16))", refused=True),
        "lines": Form(MULTI.format("True", "bfloat16", "False")),
        "keyword lines": Form(MULTI.format("dtype=bfloat16", "enabled=flag", "cache_enabled=True")),
        "comment only": Form("E(  # nothing\n)"),
        "reference": Form("use(E)", refused=True),
        "assigned": Form("region = E\nmade.append(region(False))", statements=True),
        "partial": Form("functools.partial(E, enabled=False)(dtype=bfloat16)"),
        "partial positional": Form("functools.partial(E, False)()"),
        "partial named": Form("part = functools.partial(E)\nmade.append(part(enabled=False))", statements=True),
        "partial handed on": Form("use(functools.partial(E))", refused=True),
        "partial called": Form("part = functools.partial(E)\nmade.append(part(False))", statements=True, refused=True),
        "decorator": Form("@E  # bare\ndef step():\n    made.append(state())\nstep()", statements=True, broken=True),
        "decorator()": Form("@E()  # called\ndef step():\n    made.append(state())\nstep()", statements=True),
        "decorator(...)": Form("@E(enabled=flag)\ndef step():\n    made.append(state())\nstep()", statements=True),
        "with": Form("with E(flag), E(False):  # two\n    made.append(state())", statements=True),
        "with as": Form("with (E(dtype=bfloat16) as region,):\n    made.extend([state(), region])", statements=True),
        "isinstance": Form("isinstance(1, (int, E))"),
        "annotation": Form("def f(x: 'E | None' = None) -> E:\n    return x\nmade.append(f(1))", statements=True),
        "stacked": Form("stack = contextlib.ExitStack()\nmade.append(stack.enter_context(E(flag)))", statements=True),
        "nested": Form("[E() for _ in range(2)][0]"),
        "lambda": Form("(lambda on: E(on))(False)"),
        "default": Form("def f(x=E()):\n    return x\nmade.append(f())", statements=True),
    },
    SCALER: {
        "none": Form("E()"),
        "positional": Form("E(1024.0, 3.0, 0.25, 7, True)"),
        "keyword": Form("E(init_scale=8.0, growth_interval=3)"),
        "mixed": Form("E(16.0, growth_factor=4.0)"),
        "disabled": Form("E(enabled=not flag)"),
        "**": Form("E(**{'init_scale': 4.0})"),
        "*": Form("E(*(4.0, 3.0), enabled=flag)"),
        "lines": Form(MULTI.format("2.0", "4.0", "growth_interval=3")),
        "comment only": Form("E(  # nothing\n)"),
        "reference": Form("use(E)", refused=True),
        "assigned": Form("scaler = E\nmade.append(scaler(2.0))", statements=True),
        "partial": Form("functools.partial(E, growth_interval=5)(8.0)"),
        "partial positional": Form("functools.partial(E, 8.0)(3.0)"),
        "partial *": Form("functools.partial(E, *[8.0])(enabled=flag)"),
        "isinstance": Form("isinstance(E(), E)"),
        "quoted": Form('def f(x: "Optional[E]" = None):\n    return x\nmade.extend([f(), E(2.0)])', statements=True),
        "annotated": Form("scaler: 'E' = E(enabled=False)\nmade.append(scaler)", statements=True),
        "subclass": Form(
            "class Own(E):\n    def __init__(self, on):\n        super().__init__(enabled=on)  # on\n"
            "made.append(Own(flag))",
            statements=True,
        ),
        "subclass by name": Form(
            "class Own(E):\n    def __init__(self):\n        E.__init__(self, init_scale=2.0)\nmade.append(Own())",
            statements=True,
        ),
        "subclass positional": Form(
            "class Own(E):\n    def __init__(self):\n        super().__init__(2.0)\nmade.append(Own())",
            statements=True,
            refused=True,
        ),
        "dictionary": Form("{'scaler': E}['scaler']()", refused=True),
        "nested": Form("[E(2.0) for _ in range(2)][0]"),
    },
    FORWARD: {
        "bare": Form(
            "@E  # bare\ndef step(ctx, x):\n    made.append((x.dtype, state()))\nforward(step)", statements=True
        ),
        "called": Form(
            "@E(cast_inputs=bfloat16)\ndef step(ctx, x):\n    made.append((x.dtype, state()))\nforward(step)",
            statements=True,
        ),
        "empty": Form("@E()\ndef step(ctx, x):\n    made.append((x.dtype, state()))\nforward(step)", statements=True),
        "static": Form(
            "class F:\n    @staticmethod\n    @E\n    # below\n    def step(ctx, x):\n"
            "        made.append((x.dtype, state()))\nforward(F.step)",
            statements=True,
        ),
        "function": Form("def step(ctx, x):\n    made.append((x.dtype, state()))\nforward(E(step))", statements=True),
        "function cast": Form(
            "def step(ctx, x):\n    made.append((x.dtype, state()))\nforward(E(step, cast_inputs=bfloat16))",
            statements=True,
        ),
        "**": Form(
            "@E(**{'cast_inputs': bfloat16})\ndef step(ctx, x):\n    made.append((x.dtype, state()))\nforward(step)",
            statements=True,
        ),
        "*": Form("def step(ctx, x):\n    made.append((x.dtype, state()))\nforward(E(*[step]))", statements=True),
        "lines": Form(
            "@E(  # open\n    # before\n    cast_inputs=bfloat16,  # dtype\n)\ndef step(ctx, x):\n"
            "    made.append((x.dtype, state()))\nforward(step)",
            statements=True,
        ),
        "partial": Form(
            "def step(ctx, x):\n    made.append((x.dtype, state()))\n"
            "forward(functools.partial(E, cast_inputs=bfloat16)(step))",
            statements=True,
        ),
        "reference": Form("use(E)", refused=True),
    },
}

LAYOUTS = {
    "module": "# before\nBODY\n# after",
    "method": "class Trainer:\n    def run(self):\n        # before\n        BODY  # at the end\n\nTrainer().run()",
    "conditional": "if flag:\n    BODY\n    # after\nelse:\n    pass",
    "try": "try:\n    # before\n    BODY\nexcept RuntimeError as error:  # never\n    raise SystemExit from error",
}


def program(imported: Import, symbol: str, form: Form, layout: str) -> str:
    """The text of one case."""
    expression = imported.expression.replace("X", symbol).replace("MODULE", MODULES[symbol])
    body = form.text.replace("E", expression) if not form.statements else form.text
    if form.statements:
        body = body.replace("E", expression) if "ExitStack" not in body else body.replace("(E(", f"({expression}(")
    elif layout == "conditional":
        body = f"value = {body} if flag else None\nmade.append(value)"
    else:
        body = f"made.append({body})"
    lines = imported.lines.replace("X", symbol).replace("MODULE", MODULES[symbol])
    if imported.in_function:
        body, lines = f"{lines}\n{body}", "import os"
    for indent in ("        ", "    "):
        if f"\n{indent}BODY" in LAYOUTS[layout]:
            body = textwrap.indent(body, indent).lstrip()
            break
    return f'"""A case."""\nimport functools, contextlib\n{lines}\n\n' + LAYOUTS[layout].replace("BODY", body) + "\n"


def cases() -> Iterator[Any]:
    """Pairs of import forms and call forms: all of the first twelve and ten, of the others every second one.

    Each has one layout, the next one each time, so that each layout stands beside each import form and each call form.
    """
    names = list(LAYOUTS)
    for symbol, (row, name) in product(FORMS, enumerate(IMPORTS)):
        if symbol == FORWARD and "cpu" in name:
            continue  # torch.cpu.amp has no custom_fwd
        for column, (label, form) in enumerate(FORMS[symbol].items()):
            if row < 12 and column < 10:
                layout = names[(row + column) % len(names)]
            elif (row + column) % 2:
                layout = names[(row + column) // 2 % len(names)]
            else:
                continue
            yield pytest.param(IMPORTS[name], symbol, form, layout, id=f"{symbol}-{name}-{label}-{layout}")


def comments(text: str) -> list[str]:
    """The comments of a program, sorted."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sorted(token.string for token in tokens if token.type == tokenize.COMMENT)


def state() -> tuple[object, ...]:
    """What torch's autocast is set to here."""
    on = [(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cuda", "cpu")]
    return (*on, torch.is_autocast_cache_enabled())


def describe(value: object) -> object:
    """What matters of a thing that a case has made."""
    if isinstance(value, torch.autocast):
        return ("autocast", value.device, value.fast_dtype, value._enabled, value._cache_enabled)
    if isinstance(value, torch.amp.GradScaler):
        return ("scaler", value._device, value.is_enabled(), value.state_dict(), getattr(value, "_init_scale", None))
    return value


def forward(step: Callable[..., None]) -> None:
    """Call a decorated forward outside and inside a region that differs from the default."""

    class Context:
        pass

    step(Context(), torch.ones(1))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        step(Context(), torch.ones(1))


def execute(text: str) -> tuple[list[object], list[str]]:
    """What a program makes, and the FutureWarnings that it gets."""
    made: list[object] = []
    given = {"made": made, "state": state, "flag": True, "forward": forward, "bfloat16": torch.bfloat16}
    given |= {"use": lambda made: made(), "Optional": functools.partial}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(text, "case.py", "exec"), given)
    assert not torch.is_autocast_enabled("cuda") or "ExitStack" in text
    torch.set_autocast_enabled("cuda", False)
    torch.set_autocast_enabled("cpu", False)
    # A region that the program left open would keep other tests' weights in autocast's cache.
    for _ in range(torch.autocast_increment_nesting()):
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()
    return [describe(each) for each in made], [str(w.message) for w in caught if w.category is FutureWarning]


@pytest.fixture(autouse=True)
def belief_in_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Python layer of AMP act as on a machine with CUDA."""
    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: True)


@pytest.mark.parametrize(("imported", "symbol", "form", "layout"), some(cases(), 250))
def test_case(imported: Import, symbol: str, form: Form, layout: str) -> None:
    before = program(imported, symbol, form, layout)
    if form.refused:
        found = check(before, settings=SETTINGS)
        found = [each for each in found if each.code == CODES[symbol]]
        assert found
        assert all(each.withheld and each.fix is None for each in found)
        return
    after = fix(before, settings=SETTINGS)
    made, warned = execute(after)
    assert not warned, after
    assert after != before
    assert comments(after) == comments(before)
    if not form.broken:
        assert made == execute(before)[0], after
