"""Which rules see a region, however it is opened: shapes of opening one x the rules that ask which are open.

Each rule has one small program, whose misuse hangs on a region. Each shape opens that region in another way. A rule
finds the misuse in each shape, but for those that SILENT names, with the reason.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from amplint import check
from amplint.config.settings import Settings
from tests import some

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


def whole(program: Program) -> str:
    """A function with all of a program, which opens no region."""
    body = "\n".join(each for each in (program.before, program.inside, program.behind) if each)
    return f"{program.head}\n\ndef whole({given(program)}):\n{indented(body)}\n"


def running_whole(program: Program) -> str:
    """A function that calls it in the region."""
    call = f"with torch.autocast({program.region}):\n    whole({given(program)})"
    return f"\n\ndef run({given(program)}):\n{indented(call)}\n"


def called_whole(program: Program) -> Written:
    return Written(f"{HEAD}{whole(program)}{running_whole(program)}")


def called_whole_elsewhere(program: Program) -> Written:
    main = f"{HEAD}from contexts import whole\n{running_whole(program)}"
    return Written(main, {"contexts.py": f"{HEAD}{whole(program)}"})


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


def closed(opening: str, closing: str) -> Callable[[Program], Written]:
    """A region that has ended when what needs one comes."""

    def write(program: Program) -> Written:
        return Written(main(program, f"{put(opening, program)}\n{closing}\n{program.inside}"))

    return write


def none(program: Program) -> Written:
    return Written(main(program, f"# no torch.autocast({program.region})\n{program.inside}"))


HELPER = "\n\ndef autocast_context():\n    return REGION\n"
MANAGER = "\n\n@contextmanager\ndef autocast_context():\n    with REGION:\n        yield\n"
CHOSEN = "\n\ndef autocast_context(amp):\n    if amp:\n        return REGION\n    return contextlib.nullcontext()\n"
OTHER = "\n\ndef other(x):\n    with autocast_context(True):\n        return x\n"
SWITCHED = f"\n\ndef autocast_context(on=False):\n    return torch.autocast(ARGS, enabled=on)\n{OTHER}"
SWITCHED_MANAGER = f"""

@contextmanager
def autocast_context(on):
    with torch.autocast(ARGS, enabled=on):
        yield
{OTHER}"""
CHOSEN_MANAGER = (
    "\n\n@contextmanager\ndef autocast_context(amp):\n    if amp:\n        with REGION:\n            yield\n"
    "    else:\n        yield\n"
)
PARTIAL = "\n\nmixed = functools.partial(torch.autocast, ARGS)\n"
DICT = '\n\nCONTEXTS = {"amp": REGION, "off": contextlib.nullcontext()}\n'
IF = "if amp:\n    region = REGION\nelse:\n    region = contextlib.nullcontext()\n"

OPEN: dict[str, Callable[[Program], Written]] = {
    "with": with_("REGION"),
    "two items": with_('torch.profiler.record_function("step"), REGION'),
    "decorator": decorated("@REGION"),
    "torch.amp decorator": decorated("@torch.amp.autocast(ARGS)"),
    "kept decorator": decorated("@mixed", "\n\nmixed = REGION\n"),
    "partial decorator": decorated("@mixed()", PARTIAL),
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
    "choosing manager": with_("autocast_context(amp)", CHOSEN_MANAGER),
    "helper of one argument": with_("autocast_context(True)", SWITCHED),
    "manager of one argument": with_("autocast_context(on=True)", SWITCHED_MANAGER),
    "manager": with_("autocast_context()", MANAGER),
    "method manager": in_class(
        "self.autocast_context()",
        "pass",
        "\n@contextmanager\ndef autocast_context(self):\n    with REGION:\n        yield\n",
    ),
    "helper of another file": with_("autocast_context()", "from contexts import autocast_context\n", others=HELPER),
    "manager of another file": with_("autocast_context()", "from contexts import autocast_context\n", others=MANAGER),
    "partial": with_("mixed()", PARTIAL),
    "by hand": by_hand,
    "called": called,
    "called method": called_method,
    "called in another file": called_elsewhere,
    "called as a whole": called_whole,
    "called as a whole in another file": called_whole_elsewhere,
}
CLOSED: dict[str, Callable[[Program], Written]] = {
    "none": none,
    "off": with_('torch.autocast("cuda", enabled=False)'),
    "off by a helper's argument": with_("autocast_context(False)", SWITCHED),
    "off by a helper's default": with_("autocast_context()", SWITCHED),
    "off by a manager's argument": with_("autocast_context(False)", SWITCHED_MANAGER),
    "left out by a helper's argument": with_("autocast_context(False)", f"{CHOSEN}{OTHER}"),
    "left out by a manager's argument": with_("autocast_context(False)", f"{CHOSEN_MANAGER}{OTHER}"),
    "off by a partial's argument": with_(
        "mixed(enabled=False)", "\n\nmixed = functools.partial(torch.autocast, ARGS)\n"
    ),
    "off in an attribute": in_class("self.ctx", 'self.ctx = torch.autocast("cuda", enabled=False)'),
    "closed stack": closed("stack = contextlib.ExitStack()\nstack.enter_context(REGION)", "stack.close()"),
    "closed by hand": closed("region = REGION\nregion.__enter__()", "region.__exit__(None, None, None)"),
    "set off": closed("region = REGION\nregion.__enter__()", 'torch.set_autocast_enabled("cuda", False)'),
    "a stack that is left": closed("with contextlib.ExitStack() as stack:\n    stack.enter_context(REGION)", "pass"),
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

CHOSEN_SHAPES = (
    "chosen attribute", "chosen item", "choice", "kept choice", "variable of two arms", "stack under a test",
    "choosing helper", "choosing manager",
)  # fmt: skip
DECORATED = ("decorator", "torch.amp decorator", "kept decorator", "partial decorator", "manager decorator")
CALLED = ("called", "called method", "called in another file")
WHOLE = ("called as a whole", "called as a whole in another file")
NO_MISUSE = "all of it runs in the region, so that nothing of the misuse is left"
UNTOLD = "the paths with and without the region join, so that nothing is known of dtypes behind that"
NO_SUITE = "what is in the region is not the suite of a `with`"
# The shapes in which a rule says nothing, and why.
SILENT: dict[str, dict[str, str]] = {
    "AMP210": dict.fromkeys(CHOSEN_SHAPES, "two flags that nothing relates: they may agree out of sight"),
    "AMP303": {"stack under a test": UNTOLD, **dict.fromkeys(WHOLE, NO_MISUSE)},
    "AMP306": dict.fromkeys(
        ("called in another file", "called as a whole in another file"),
        "the class, at which it would be said, stands in the other file",
    ),
    "AMP307": {
        **dict.fromkeys(DECORATED, "the model is a parameter, which the step in the other function may not train"),
        **dict.fromkeys(
            (*CALLED, *WHOLE), "the model is a parameter, which the step in the other function may not train"
        ),
        **dict.fromkeys(("stack", "stack under a test", "by hand"), NO_SUITE),
    },
    "AMP310": {
        **dict.fromkeys((*DECORATED, "stack", "stack under a test", "by hand"), NO_SUITE),
        **dict.fromkeys(WHOLE, NO_MISUSE),
    },
    "AMP311": {"stack under a test": UNTOLD},
    "AMP312": dict.fromkeys((*CALLED, *WHOLE), "the function may be called outside of the region as well"),
    "AMP501": {"stack under a test": UNTOLD},
    "AMP503": {"stack under a test": UNTOLD},
    "AMP508": {"stack under a test": UNTOLD},
}


def found(code: str, written: Written, folder: Path) -> int:
    for name, text in written.others.items():
        (folder / name).write_text(text)
    path = folder / "main.py"
    path.write_text(written.main)
    compile(written.main, "main", "exec")
    settings = Settings(frozenset({code}), isolated=True, target_torch="2.3")
    return len(check(written.main, path, settings))


@pytest.mark.parametrize(("shape", "code"), some(product(OPEN, PROGRAMS), 120))
def test_a_region_is_seen_however_it_is_opened(code: str, shape: str, tmp_path: Path) -> None:
    assert found(code, OPEN[shape](PROGRAMS[code]), tmp_path) == (shape not in SILENT.get(code, {}))


@pytest.mark.sampled(100)
@pytest.mark.parametrize("code", PROGRAMS)
@pytest.mark.parametrize("shape", CLOSED)
def test_nothing_is_said_where_no_region_is_on(code: str, shape: str, tmp_path: Path) -> None:
    assert found(code, CLOSED[shape](PROGRAMS[code]), tmp_path) == 0


def test_the_rows_name_shapes() -> None:
    assert SILENT.keys() <= PROGRAMS.keys()
    assert all(set(each) <= set(OPEN) for each in SILENT.values())


REENTERED = """\
def run(x):
    return run(x - 1) if x else x
"""


@pytest.mark.parametrize(
    ("decorator", "head", "findings"),
    [
        ("@REGION", "", 1),
        ("@mixed", "mixed = REGION\n", 1),
        ("@mixed()", "mixed = functools.partial(torch.autocast, ARGS)\n", 1),
        ("@autocast_context()", HELPER, 1),
        ("@autocast_context()", MANAGER, 0),  # which makes one for each call
    ],
)
def test_308_one_object_that_decorates_is_entered_again(
    decorator: str, head: str, findings: int, tmp_path: Path
) -> None:
    program = Program("", region='"cuda"')
    text = f"{HEAD}{put(head, program)}\n\n{put(decorator, program)}\n{REENTERED}"
    assert found("AMP308", Written(text), tmp_path) == findings


def said_of(context: str, head: str) -> str:
    """The severity with which AMP305 speaks of a region that is made and dropped before a training step."""
    program = PROGRAMS["AMP207"]
    text = with_(context, head, "torch.autocast('cuda')\n")(program).main
    (finding,) = check(text, settings=Settings(frozenset({"AMP305"}), isolated=True))
    return finding.severity.value


@pytest.mark.parametrize(
    ("context", "head", "severity"),
    [
        ("REGION", "", "warning"),
        ("HALF", "HALF = REGION\n", "warning"),
        ("autocast_context()", HELPER, "warning"),
        ("autocast_context()", MANAGER, "warning"),
        ("mixed()", "mixed = functools.partial(torch.autocast, ARGS)\n", "warning"),
        ("contextlib.nullcontext()", "", "error"),
    ],
)
def test_305_asks_whether_the_forward_has_a_region(context: str, head: str, severity: str) -> None:
    assert said_of(context, head) == severity
