"""One bad argument, reached in many ways: each rule that looks at an argument's value sees it in each of them.

Each program is made of a rule's `Use` and a `Way` to its value. `SILENT` says what a rule leaves alone, and why.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from amplint.base.paths import look_again
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes
from tests import some

STEP = """\
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast({region}):
        loss = criterion(model(x), y)
    {backward}
    {step}
"""
PLAIN = {"backward": "loss.backward()", "step": "optimizer.step()"}
SCALED = {"backward": "scaler.scale(loss).backward()", "step": "scaler.step(optimizer); scaler.update()"}
OWNED = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
REGION = "with torch.autocast({}):\n    loss = criterion(model(x), y)\n"


class Use(NamedTuple):
    """Code of a training function in which a value, `V`, is wrong if it is `bad`.

    It stays wrong where it can be `other`, too. `says`: words of the message that are there only where it is seen.
    """

    code: str
    bad: str
    other: str
    text: str
    says: str = ""
    release: str = ""


USES = {
    "AMP201": Use("AMP201", '"xpu"', '"xpu"', "scaler = GradScaler()\n"
                  + STEP.format(region="V, dtype=torch.float16", **SCALED), "become 0 on xpu"),
    "AMP202": Use("AMP202", "True", "False", REGION.format("V")),
    "AMP203": Use("AMP203", '"cuda"', '"cuda"', 'model.to("xpu")\nscaler = GradScaler(V)\n'
                  + STEP.format(region='"xpu"', **SCALED)),
    "AMP203 region": Use("AMP203", '"xpu"', '"xpu"', "model.cuda()\n" + REGION.format("V")),
    "AMP204": Use("AMP204", '"gpu"', '"cuda"', REGION.format("V")),
    "AMP204 object": Use("AMP204", 'torch.device("cuda")', 'torch.device("cpu")', REGION.format("V")),
    "AMP205": Use("AMP205", "torch.float64", "torch.bfloat16", REGION.format('"cpu", dtype=V')),
    "AMP205 text": Use("AMP205", '"bfloat16"', '"float16"', REGION.format('"cuda", dtype=V')),
    "AMP206": Use("AMP206", "torch.bfloat16", "torch.bfloat16", 'scaler = GradScaler("cuda")\n'
                  + STEP.format(region='"cuda", dtype=V', **SCALED)),
    "AMP207": Use("AMP207", "torch.float16", "torch.bfloat16", OWNED + STEP.format(region='"cuda", dtype=V', **PLAIN)),
    "AMP208": Use("AMP208", "torch.float16", "torch.half", 'scaler = GradScaler("cuda")\nmodel.to(dtype=V)\n' + OWNED
                  + STEP.format(region='"cuda"', **SCALED)),
    "AMP210": Use("AMP210", "False", "False", 'scaler = GradScaler("cuda", enabled=V)\n'
                  + STEP.format(region='"cuda"', **SCALED)),
    "AMP211": Use("AMP211", "True", "False", REGION.format('"cuda", V')),
    "AMP212": Use("AMP212", "1", "True", REGION.format('"cuda", enabled=V')),
    "AMP213": Use("AMP213", "torch.bfloat16", "torch.bfloat16",
                  REGION.format('"cuda", dtype=V') + REGION.format('"cuda"')),
    "AMP214": Use("AMP214", '"65536"', "None", 'scaler = GradScaler("cuda", init_scale=V)\n'),
    "AMP214 factor": Use("AMP214", "0.5", "0.5", 'scaler = GradScaler("cuda", growth_factor=V)\n'),
    "AMP214 first": Use("AMP214", "1024.0", "2048.0", "scaler = GradScaler(V)\n"),
    "AMP215": Use("AMP215", "torch.float16", "torch.half",
                  'with torch.autocast("cuda"):\n    loss = F.nll_loss(model(x), y.to(dtype=V))\n'),
    "AMP502": Use("AMP502", "-1e9", "-1e9",
                  'with torch.autocast("cuda"):\n    loss = nn.functional.linear(x, y).masked_fill(mask, V)\n'),
    "AMP603": Use("AMP603", "True", "True", "arguments = TrainingArguments(fp16=V, bf16=True)\n"),
}  # fmt: skip


class Way(NamedTuple):
    """How a value comes to where it is used: as `value`, after `before` in the function, `top` and `end` of the file.

    `param`: a parameter of the function; `init`, of a class whose method it then is; `body`: of that class. `other`:
    the text of another file.
    """

    value: str
    before: str = ""
    top: str = ""
    end: str = ""
    param: str = ""
    body: str = ""
    init: str = ""
    given: str = ""
    other: str = ""
    elsewhere: bool = False


ARGPARSE = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({})\nargs = parser.parse_args()\n"
CALL = "train(model, loader, criterion, optimizer, {})\n"
WAYS = {
    "literal": Way("BAD"),
    "local variable": Way("v", before="v = BAD"),
    "annotated variable": Way("v", before="v: object = BAD"),
    "variable of a variable": Way("v", before="u = BAD\nv = u"),
    "module constant": Way("V", top="V = BAD"),
    "unpacking": Way("v", before="v, w = BAD, 3"),
    "choice": Way("(BAD if flag else OTHER)"),
    "branches": Way("v", before="if flag:\n    v = BAD\nelse:\n    v = OTHER"),
    "replaced under a test": Way("v", before="v = OTHER\nif flag:\n    v = BAD"),
    "none or": Way("(None or BAD)"),
    "attribute of self": Way("self.v", init="self.v = BAD"),
    "returned": Way("pick()", top="def pick():\n    return BAD"),
    "returned by a method": Way("self.pick()", body="def pick(self):\n    return BAD", init="self.z = 0"),
    "returned as given": Way("pick(BAD)", top="def pick(v):\n    return v"),
    "item": Way('D["a"]', top='D = {"a": BAD, "b": OTHER}'),
    "item by get": Way('D.get("a")', top='D = {"a": BAD, "b": OTHER}'),
    "any item": Way("D[name]", top='D = {"a": BAD, "b": OTHER}'),
    "get's default": Way('cfg.get("v", BAD)'),
    "getattr's default": Way('getattr(cfg, "v", BAD)'),
    "parameter's default": Way("v", param="v=BAD"),
    "argparse": Way("args.v", top=ARGPARSE.format('"--v", default=BAD')),
    "argparse in a function": Way("args.v", param="args", top="import argparse\ndef parse():\n"
                                  "    parser = argparse.ArgumentParser()\n"
                                  '    parser.add_argument("--v", default=BAD)\n    return parser.parse_args()',
                                  end="args = parse()\n" + CALL.format("args")),
    "class attribute": Way("self.v", body="v = BAD", init="self.z = 0"),
    "class attribute by name": Way("C.v", top="class C:\n    v = BAD"),
    "caller": Way("v", param="v", end=CALL.format("BAD")),
    "caller by keyword": Way("v", param="v", end=CALL.format("v=BAD")),
    "caller in a function": Way("v", param="v", end="def main(model, loader, criterion, optimizer):\n    w = BAD\n"
                                "    " + CALL.format("w")),
    "caller of the caller": Way("v", param="v", end="def main(model, loader, criterion, optimizer, w):\n"
                                "    " + CALL.format("w") + "\nmain(model, loader, criterion, optimizer, BAD)\n"),
    "caller of a method": Way("v", param="v", init="self.z = 0",
                              end="Trainer().train(model, loader, criterion, optimizer, BAD)\n"),
    "caller of the constructor": Way("self.v", init="self.v = v", given="v", end="Trainer(BAD)\n"),
    "default of the constructor": Way("self.v", init="self.v = v", given="v=BAD"),
    "several callers": Way("v", param="v", end=CALL.format("BAD") + CALL.format("OTHER")),
    "walrus": Way("(v := BAD)"),
    "walrus before": Way("v", before="print(v := BAD)"),
    "dataclass": Way("cfg.v", param="cfg: Config", top="from dataclasses import dataclass\n@dataclass\nclass Config:\n"
                     "    v: object = BAD\n"),
    "dataclass that is made": Way("cfg.v", before="cfg = Config(v=BAD)", top="from dataclasses import dataclass\n"
                                  "@dataclass\nclass Config:\n    v: object = OTHER\n"),
    "namespace": Way("cfg.v", before="cfg = SimpleNamespace(v=BAD)", top="from types import SimpleNamespace"),
    "partial": Way("v", param="v", end="import functools\nrun = functools.partial(train, v=BAD)\n"
                   "run(model, loader, criterion, optimizer)\n"),
    "constant of another file": Way("V", top="from other import V", other="import torch\nV = BAD\n"),
    "constant of a module": Way("other.V", top="import other", other="import torch\nV = BAD\n"),
    "returned by another file": Way("pick()", top="from other import pick",
                                    other="import torch\ndef pick():\n    # for autocast\n    return BAD\n"),
    "given to another file": Way("v", param="v", elsewhere=True),
}  # fmt: skip
# The lines `declared` are above the function, as `@click.option(...)`; `given` to it by an object of settings.
DECLARED = {
    "click": ("import click\n", '@click.command()\n@click.option("--v", default=BAD)\n', "v", "v"),
    "typer": ("import typer\n", "", "v=typer.Option(BAD)", "v"),
    "absl": ('from absl import flags\nFLAGS = flags.FLAGS\nflags.DEFINE_string("v", BAD, "help")\n', "", "", "FLAGS.v"),
    "fire": ("import fire\n", "", "v=BAD", "v"),
    "environment": ("import os\n", "", "", 'os.environ.get("V", BAD)'),
    "getenv": ("import os\n", "", "", 'os.getenv("V", BAD)'),
}


def indented(text: str, by: int = 1) -> str:
    return "".join(f"{'    ' * by}{line}\n" for line in text.splitlines())


HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
IMPORTS = {
    "GradScaler": "from torch.amp import GradScaler\n",
    "TrainingArguments": "from transformers import TrainingArguments\n",
}
PARAMS = "model, loader, criterion, optimizer"


def head(use: Use) -> str:
    return HEAD + "".join(text for name, text in IMPORTS.items() if name in use.text)


def function(use: Use, value: str, before: str, param: str, *, method: bool = False) -> str:
    params = ", ".join(each for each in ("self" if method else "", PARAMS, param) if each)
    return f"def train({params}):\n" + indented(f"{before}\n{use.text.replace('V', value)}")


def program(use: Use, way: Way) -> dict[str, str]:
    """The files of a project; the findings are looked for in `train.py`."""
    method = bool(way.init or way.body)
    body = function(use, way.value, way.before, way.param, method=method)
    if method:
        given = f", {way.given}" if way.given else ""
        init = f"def __init__(self{given}):\n{indented(way.init)}\n"
        body = f"class Trainer:\n{indented(way.body)}\n{indented(init)}\n{indented(body)}"
    files = {"train.py": f"{head(use)}{way.top}\n\n{body}\n\n{way.end}\n", "other.py": way.other}
    if way.elsewhere:
        files["other.py"] = f"{head(use)}{body}"
        files["train.py"] = f"{head(use)}from other import train\n\ntrain(model, loader, criterion, optimizer, BAD)\n"
    return {name: _filled(use, text) for name, text in files.items()}


def _filled(use: Use, text: str) -> str:
    return text.replace("BAD", use.bad).replace("OTHER", use.other)


def found(path: Path, use: Use, files: dict[str, str]) -> bool:
    (path / ".git").mkdir()
    for name, text in files.items():
        compile(text, name, "exec")
        (path / name).write_text(text)
    look_again()
    file = path / "train.py"
    result = check_bytes(file.read_bytes(), str(file), Settings(frozenset((use.code,)), isolated=True))
    return any(use.says in each.message for each in result.findings if each.code == use.code)


BY_DEFAULT = (
    "parameter's default",
    "default of the constructor",
    "get's default",
    "getattr's default",
    "argparse",
    "argparse in a function",
    "dataclass",
    *DECLARED,
)
TABLES = ("any item", "item", "none or")
# Rules that need to know all that a value can be, or what it surely is: what is there by default may be replaced.
NEED_ALL = ("AMP201", "AMP203", "AMP203 region", "AMP206", "AMP208", "AMP213", "AMP215", "AMP603")
# What a rule leaves alone, with the reason.
SILENT: dict[str, dict[tuple[str, str], None]] = {
    "by default only, and the rule needs all that it can be": dict.fromkeys(product(NEED_ALL, BY_DEFAULT)),
    "for what is computed of tensors, dicts and `or` are read otherwise": dict.fromkeys(product(("AMP502",), TABLES)),
    "a class that inherits it may set it": {("AMP603", "class attribute"): None},
    "the finding would be in the other file": dict.fromkeys(
        (rule, "given to another file")
        for rule in USES
        if rule not in ("AMP203", "AMP206", "AMP208", "AMP214", "AMP214 factor", "AMP214 first")
    ),
}


def is_silent(rule: str, way: str) -> bool:
    return any((rule, way) in each for each in SILENT.values())


@pytest.mark.parametrize(("rule", "way"), some(product(USES, WAYS), 400))
def test_table(rule: str, way: str, tmp_path: Path) -> None:
    use = USES[rule]
    assert found(tmp_path, use, program(use, WAYS[way])) is not is_silent(rule, way)


@pytest.mark.parametrize("way", DECLARED)
@pytest.mark.parametrize("rule", USES)
def test_declared(rule: str, way: str, tmp_path: Path) -> None:
    use = USES[rule]
    top, above, param, value = DECLARED[way]
    text = f"{head(use)}{top}\n\n{above}{function(use, value, '', param)}"
    files = {"train.py": _filled(use, text)}
    assert found(tmp_path, use, files) is not is_silent(rule, way)
