# ruff: noqa: E501
"""Which rules see a region, however it is opened: shapes of opening one x the rules that ask which are open.

Each rule has one small program, whose misuse hangs on a region. Each shape opens that region in another way. A rule
finds the misuse in each shape, but for those that its row names, with the reason.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from amplint import check
from amplint.config.settings import Settings

HEAD = """\
import contextlib
import functools
import torch
import torch.nn.functional as F
from contextlib import contextmanager
from torch import nn
"""


class Program(NamedTuple):
    """A misuse: what stands before the region, in it and behind it, in the function `run`; and what the file has."""

    inside: str
    behind: str = ""
    before: str = ""
    head: str = ""
    region: str = '"cuda", dtype=torch.float16'
    silent: dict[str, str] = {}  # noqa: RUF012 - shapes in which the rule says nothing, and why


class Written(NamedTuple):
    """The files of a program: the main one, and others by their names."""

    main: str
    others: dict[str, str] = {}  # noqa: RUF012


def given(program: Program) -> str:
    """The parameters of `run`: a scaler among them only where one is used."""
    scaler = "scaler, " if "scaler" in program.behind else ""
    return f"model, opt, {scaler}x, y, loader, amp, mode"


def arguments(program: Program) -> str:
    """What `inner` is called with."""
    return f"{given(program)}, out" if "out = " in program.before else given(program)


def indented(text: str, depth: int = 1) -> str:
    return textwrap.indent(text, "    " * depth)


def main(program: Program, opened: str, head: str = "", definitions: str = "") -> str:
    """The file: `opened` holds the region and what is in it."""
    body = "\n".join(each for each in (program.before, opened, program.behind) if each)
    return f"{HEAD}{head}{program.head}{definitions}\n\ndef run({given(program)}):\n{indented(body)}\n"


def put(text: str, program: Program) -> str:
    """A text of a shape for one program: `REGION` is the call that makes the region, `ARGS` what it is given."""
    return text.replace("REGION", f"torch.autocast({program.region})").replace("ARGS", program.region)


def inner(program: Program, first: str = "") -> str:
    """A function with what belongs in the region, which it gives on."""
    head = f"def inner({first}{given(program)}, out=None):"
    return f"\n{head}\n{indented(program.inside)}\n    return {result(program)}\n"


def result(program: Program) -> str:
    """The variable that the part in the region leaves to the part behind it."""
    return "out" if "out = " in program.inside else "loss"


def calling(program: Program, inner: str) -> str:
    return f"{result(program)} = {inner}({arguments(program)})"


def with_(context: str, head: str = "", before: str = "", others: str = "") -> Callable[[Program], Written]:
    """A `with` for a context, which stands for the region."""

    def write(program: Program) -> Written:
        opened = f"{put(before, program)}with {put(context, program)}:\n{indented(program.inside)}"
        files = {"contexts.py": HEAD + put(others, program)} if others else {}
        return Written(main(program, opened, put(head, program)), files)

    return write


def decorated(decorator: str, head: str = "") -> Callable[[Program], Written]:
    """A function of its own, with a decorator, that `run` calls."""

    def write(program: Program) -> Written:
        function = f"\n\n{put(decorator, program)}{inner(program)}"
        return Written(main(program, calling(program, "inner"), put(head, program), function))

    return write


def in_class(context: str, init: str, method: str = "") -> Callable[[Program], Written]:
    """A `with` in a method, for what the object has."""

    def write(program: Program) -> Written:
        opened = f"with {context}:\n{indented(program.inside)}"
        methods = f"def __init__(self, amp):\n    {init}\n{method}\n{method_run(program, opened)}"
        return Written(put(f"{HEAD}{program.head}\n\nclass Trainer:\n{indented(methods)}", program))

    return write


def method_run(program: Program, opened: str) -> str:
    body = "\n".join(each for each in (program.before, opened, program.behind) if each)
    return f"def run(self, {given(program)}):\n{indented(body)}\n"


def called(program: Program) -> Written:
    """A region in a function that calls another one, in which all that needs it stands."""
    opened = f"with torch.autocast({program.region}):\n    {calling(program, 'inner')}"
    return Written(main(program, opened, definitions=f"\n{inner(program)}"))


def called_method(program: Program) -> Written:
    opened = f"with torch.autocast({program.region}):\n    {calling(program, 'self.inner')}"
    methods = f"{inner(program, 'self, ')}\n{method_run(program, opened)}"
    return Written(f"{HEAD}{program.head}\n\nclass Trainer:\n{indented(methods)}")


def called_elsewhere(program: Program) -> Written:
    """The function that needs the region stands in another file."""
    opened = f"with torch.autocast({program.region}):\n    {calling(program, 'inner')}"
    other = f"{HEAD}{program.head}\n{inner(program)}"
    return Written(main(program, opened, "from contexts import inner\n"), {"contexts.py": other})


def by_hand(program: Program) -> Written:
    opened = f"region = torch.autocast({program.region})\nregion.__enter__()\n{program.inside}\n"
    return Written(main(program, f"{opened}region.__exit__(None, None, None)"))


def on_a_stack(program: Program) -> Written:
    inside = f"stack.enter_context(torch.autocast({program.region}))\n{program.inside}"
    return Written(main(program, f"with contextlib.ExitStack() as stack:\n{indented(inside)}"))


def on_a_stack_if(program: Program) -> Written:
    entering = f"if amp:\n    stack.enter_context(torch.autocast({program.region}))\n"
    return Written(main(program, f"with contextlib.ExitStack() as stack:\n{indented(entering + program.inside)}"))


def nested_off(program: Program) -> Written:
    inner = f'with torch.autocast("cuda", enabled=False):\n{indented(program.inside)}'
    return Written(main(program, f"with torch.autocast({program.region}):\n{indented(inner)}"))


def nested_off_held(program: Program) -> Written:
    inner = f"with off:\n{indented(program.inside)}"
    opened = f'off = torch.autocast("cuda", enabled=False)\nwith torch.autocast({program.region}):\n{indented(inner)}'
    return Written(main(program, opened))


def nested_off_helper(program: Program) -> Written:
    inner = f"with off():\n{indented(program.inside)}"
    head = '\n\ndef off():\n    return torch.autocast("cuda", enabled=False)\n'
    return Written(main(program, f"with torch.autocast({program.region}):\n{indented(inner)}", head))


def none(program: Program) -> Written:
    return Written(main(program, f"# no torch.autocast({program.region})\n{program.inside}"))


HELPER = "\n\ndef autocast_context():\n    return REGION\n"
MANAGER = "\n\n@contextmanager\ndef autocast_context():\n    with REGION:\n        yield\n"
CHOSEN = "\n\ndef autocast_context(amp):\n    if amp:\n        return REGION\n    return contextlib.nullcontext()\n"
DICT = '\n\nCONTEXTS = {"amp": REGION, "off": contextlib.nullcontext()}\n'
IF = "if amp:\n    region = REGION\nelse:\n    region = contextlib.nullcontext()\n"

OPEN: dict[str, Callable[[Program], Written]] = {
    "with": with_("REGION"),
    "two items": with_('torch.profiler.record_function("step"), REGION'),
    "decorator": decorated("@REGION"),
    "torch.amp decorator": decorated("@torch.amp.autocast(ARGS)"),
    "kept decorator": decorated("@half", "\n\nhalf = REGION\n"),
    "partial decorator": decorated("@half()", "\n\nhalf = functools.partial(torch.autocast, ARGS)\n"),
    "manager decorator": decorated("@autocast_context()", MANAGER),
    "variable": with_("region", before="region = REGION\n"),
    "global": with_("HALF", "\n\nHALF = REGION\n"),
    "attribute": in_class("self.ctx", "self.ctx = REGION"),
    "chosen attribute": in_class("self.ctx", "self.ctx = REGION if amp else contextlib.nullcontext()"),
    "item": with_('CONTEXTS["amp"]', DICT),
    "chosen item": with_("CONTEXTS[mode]", DICT),
    "choice": with_("REGION if amp else contextlib.nullcontext()"),
    "kept choice": with_("region", before="region = REGION if amp else contextlib.nullcontext()\n"),
    "variable of two arms": with_("region", before=IF),
    "stack": on_a_stack,
    "stack under a test": on_a_stack_if,
    "helper": with_("autocast_context()", HELPER),
    "choosing helper": with_("autocast_context(amp)", CHOSEN),
    "method helper": in_class("self.autocast_context()", "pass", "\ndef autocast_context(self):\n    return REGION\n"),
    "manager": with_("autocast_context()", MANAGER),
    "method manager": in_class(
        "self.autocast_context()",
        "pass",
        "\n@contextmanager\ndef autocast_context(self):\n    with REGION:\n        yield\n",
    ),
    "helper of another file": with_("autocast_context()", "from contexts import autocast_context\n", others=HELPER),
    "manager of another file": with_("autocast_context()", "from contexts import autocast_context\n", others=MANAGER),
    "partial": with_("half()", "\n\nhalf = functools.partial(torch.autocast, ARGS)\n"),
    "by hand": by_hand,
    "called": called,
    "called method": called_method,
    "called in another file": called_elsewhere,
}
CLOSED: dict[str, Callable[[Program], Written]] = {
    "none": none,
    "off": with_('torch.autocast("cuda", enabled=False)'),
    "off inside": nested_off,
    "kept off inside": nested_off_held,
    "helper off inside": nested_off_helper,
}

MODEL = "\n\nlinear = nn.Linear(8, 8)\n"
FUNCTION = """

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


weight = nn.Parameter(torch.randn(8, 8))
"""

PROGRAMS: dict[str, Program] = {
    "AMP206": Program(
        "loss = F.mse_loss(model(x), y)",
        "scaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update()",
        'scaler = torch.amp.GradScaler("cuda")',
        region='"cuda", dtype=torch.bfloat16',
    ),
    "AMP207": Program("loss = F.mse_loss(model(x), y)", "loss.backward()\nopt.step()\nopt.zero_grad()"),
    "AMP210": Program(
        "loss = F.mse_loss(model(x), y)",
        "scaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update()",
        'scaler = torch.amp.GradScaler("cuda", enabled=mode)',
    ),
    "AMP301": Program("loss = F.mse_loss(model(x), y)\nloss.backward()", "opt.step()"),
    "AMP302": Program("loss = F.mse_loss(model(x), y)\nloss.backward()\nopt.step()"),
    "AMP303": Program("out = linear(x)", "loss = F.cross_entropy(out, y)\nloss.backward()", head=MODEL),
    "AMP304": Program("loss = F.binary_cross_entropy(model(x), y)", "loss.backward()"),
    "AMP306": Program("loss = Scale.apply(x, weight)", head=FUNCTION),
    "AMP307": Program(
        "with torch.no_grad():\n    t = model(x)\nloss = F.mse_loss(model(x), t)",
        "scaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update()",
        "opt = torch.optim.SGD(model.parameters())",
    ),
    "AMP309": Program(
        "for x, y in loader:\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n    opt.step()",
        region='"cuda", dtype=torch.bfloat16',
    ),
    "AMP310": Program("loss = F.cross_entropy(out, y)", "loss.backward()", "out = linear(x)", MODEL),
    "AMP311": Program(
        'loss = linear(x)\nwith torch.autocast("cuda", enabled=False):\n    loss = loss @ loss', head=MODEL
    ),
    "AMP312": Program(
        "import threading\nt = threading.Thread(target=linear, args=(x,))\nt.start()\nloss = 0", head=MODEL
    ),
    "AMP501": Program("loss = torch.log(linear(x) + 1e-8)", head=MODEL),
    "AMP503": Program("loss = linear(x).float() @ linear(x).float()", head=MODEL),
    "AMP508": Program("loss = torch.fft.rfft(linear(x))", head=MODEL),
}

# Shapes with the rules that do not see the region yet, and that speak where none is on.
UNSEEN = {
    "decorator": "AMP307 AMP310",
    "torch.amp decorator": "AMP307 AMP310",
    "kept decorator": "AMP301 AMP302 AMP303 AMP304 AMP306 AMP307 AMP309 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "partial decorator": "AMP206 AMP207 AMP210 AMP301 AMP302 AMP303 AMP304 AMP306 AMP307 AMP309 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "manager decorator": "AMP206 AMP207 AMP210 AMP301 AMP302 AMP303 AMP304 AMP306 AMP307 AMP309 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "variable": "AMP307 AMP310 AMP312",
    "global": "AMP307 AMP310 AMP312",
    "attribute": "AMP307 AMP310 AMP312",
    "chosen attribute": "AMP210 AMP307 AMP310 AMP312",
    "item": "AMP303 AMP307 AMP310 AMP312 AMP501 AMP503 AMP508",
    "chosen item": "AMP210 AMP303 AMP307 AMP310 AMP312 AMP501 AMP503 AMP508",
    "choice": "AMP210 AMP307 AMP310 AMP312",
    "kept choice": "AMP210 AMP307 AMP310 AMP312",
    "variable of two arms": "AMP210 AMP307 AMP310 AMP312",
    "stack": "AMP206 AMP207 AMP210 AMP304 AMP306 AMP307 AMP310 AMP312",
    "stack under a test": "AMP206 AMP207 AMP210 AMP303 AMP304 AMP306 AMP307 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "helper": "AMP303 AMP304 AMP306 AMP307 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "choosing helper": "AMP210 AMP303 AMP304 AMP306 AMP307 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "method helper": "AMP303 AMP304 AMP306 AMP307 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "manager": "AMP206 AMP207 AMP210 AMP307 AMP310 AMP312",
    "method manager": "AMP206 AMP207 AMP210 AMP307 AMP310 AMP312",
    "helper of another file": "AMP207 AMP301 AMP302 AMP303 AMP304 AMP306 AMP307 AMP309 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "manager of another file": "AMP206 AMP207 AMP210 AMP301 AMP302 AMP303 AMP304 AMP306 AMP307 AMP309 AMP310 AMP312 AMP501 AMP503 AMP508",
    "partial": "AMP206 AMP207 AMP210 AMP301 AMP302 AMP303 AMP304 AMP306 AMP307 AMP309 AMP310 AMP311 AMP312 AMP501 AMP503 AMP508",
    "by hand": "AMP206 AMP207 AMP210 AMP304 AMP306 AMP307 AMP310 AMP312",
    "called": "AMP307 AMP310 AMP312",
    "called method": "AMP307 AMP310 AMP312",
    "called in another file": "AMP306 AMP307 AMP310 AMP312",
}
WRONG = {
    "kept off inside": "AMP304 AMP306 AMP307 AMP312",
    "helper off inside": "AMP303 AMP304 AMP306 AMP307 AMP311 AMP312 AMP501 AMP503 AMP508",
}


def found(code: str, written: Written, folder: Path) -> int:
    for name, text in written.others.items():
        (folder / name).write_text(text)
    path = folder / "main.py"
    path.write_text(written.main)
    compile(written.main, "main", "exec")
    settings = Settings(frozenset({code}), isolated=True, target_torch="2.3")
    return len(check(written.main, path, settings))


@pytest.mark.parametrize("code", PROGRAMS)
@pytest.mark.parametrize("shape", OPEN)
def test_a_region_is_seen_however_it_is_opened(code: str, shape: str, tmp_path: Path) -> None:
    program = PROGRAMS[code]
    seen = shape not in program.silent and code not in UNSEEN.get(shape, "")
    assert found(code, OPEN[shape](program), tmp_path) == seen


@pytest.mark.parametrize("code", PROGRAMS)
@pytest.mark.parametrize("shape", CLOSED)
def test_nothing_is_said_where_no_region_is_on(code: str, shape: str, tmp_path: Path) -> None:
    program = PROGRAMS[code]
    assert found(code, CLOSED[shape](program), tmp_path) == (code in WRONG.get(shape, ""))


def test_the_rows_name_shapes() -> None:
    assert all(set(each.silent) <= set(OPEN) for each in PROGRAMS.values())
