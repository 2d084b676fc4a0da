"""AMP423: what a run without AMP saved, and a run with it loads."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding, Severity

SAVED = 'torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "scaler": scaler.state_dict()}, "last.pt")'
LOADED = 'scaler.load_state_dict(ckpt["scaler"])'
SCRIPT = """\
import argparse
import torch

def train(model, loader, opt, scaler, amp):
    for x, y in loader:
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()

def main(model, loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled={enabled})
    if args.resume:
        ckpt = torch.load({path})
        model.load_state_dict(ckpt["model"])
        opt.load_state_dict(ckpt["opt"])
{load}
    for epoch in range(3):
        train(model, loader, opt, scaler, args.amp)
{save}

main(torch.nn.Linear(3, 3), [])
"""
UNDER_A_TEST = """\
state = {{"model": model.state_dict(), "opt": opt.state_dict()}}
if {}:
    state["scaler"] = scaler.state_dict()
torch.save(state, "last.pt")"""


def found(text: str, filename: str = "train.py") -> list[Finding]:
    return [each for each in check(text, filename) if each.code == "AMP423"]


def script(load: str = LOADED, save: str = SAVED, enabled: str = "args.amp", path: str = "args.resume") -> str:
    load, save = (textwrap.indent(each, " " * 8) for each in (load, save))
    return SCRIPT.format(enabled=enabled, path=path, load=load, save=save)


@pytest.mark.parametrize(
    "text",
    [
        script(),
        script(f'if "scaler" in ckpt:\n    {LOADED}'),
        script(f'if ckpt.get("scaler") is not None:\n    {LOADED}'),
        script(f'{LOADED} if "scaler" in ckpt else None'),
        script(f"if ckpt and isinstance(ckpt, dict):\n    {LOADED}"),
        script('state = ckpt.get("scaler")\nif state is not None:\n    scaler.load_state_dict(state)'),
        script(f'try:\n    {LOADED}\nexcept KeyError:\n    print("an old one")'),
        script(f"try:\n    {LOADED}\nfinally:\n    print(1)"),
        script(f"try:\n    {LOADED}\nexcept Exception as error:\n    print(error)\n    raise"),
        script(f"try:\n    {LOADED}\nexcept Exception as error:\n    print(error)\n    sys.exit(1)").replace(
            "import torch", "import sys\nimport torch", 1
        ),
        script(f'try:\n    {LOADED}\nexcept Exception:\n    raise ValueError("no checkpoint")'),
        script(f"if args.amp:\n    {LOADED}"),  # the other run saved without
        script(f"if scaler.is_enabled():\n    {LOADED}"),
        script(save=UNDER_A_TEST.format("scaler is not None")),
        script(save=SAVED.replace("scaler.state_dict()}", "scaler.state_dict() if scaler is not None else None}")),
        script(enabled="args.dtype == 'float16'"),
        script(enabled="not args.no_amp and torch.cuda.is_available()"),
        script(path='"last.pt"'),
        script().replace("parser.parse_args()", "OmegaConf.merge(DEFAULTS, OmegaConf.from_cli())"),
        script().replace("parser.parse_args()", "tyro.cli(Config)"),
        script().replace("parser.parse_args()", "Config.fromfile('train.yaml')"),
        script(
            'state = None\nif "scaler" in ckpt:\n    state = ckpt["scaler"]\n'
            "if state is not None:\n    scaler.load_state_dict(state)"
        ),
        script(save="state = scaler.state_dict()\n" + SAVED.replace("scaler.state_dict()}", "state}")),
    ],
)
def test_a_run_without_amp_can_not_be_resumed_with_it(text: str) -> None:
    (only,) = found(text)
    assert text[only.start : only.end].startswith("scaler.load_state_dict(")
    assert only.severity is Severity.WARNING
    assert "resuming from that checkpoint with the scaler enabled raises" in only.message


@pytest.mark.parametrize(
    "text",
    [
        script(f'if ckpt["scaler"]:\n    {LOADED}'),
        script(f'if ckpt.get("scaler"):\n    {LOADED}'),
        script(f'if args.amp and len(ckpt["scaler"]):\n    {LOADED}'),
        script('if state := ckpt.get("scaler"):\n    scaler.load_state_dict(state)'),
        script('state = ckpt.get("scaler")\nif state:\n    scaler.load_state_dict(state)'),
        script('if ckpt["scaler"]:\n    state = ckpt["scaler"]\n    scaler.load_state_dict(state)'),
        script(f'if not ckpt["scaler"]:\n    return\n{LOADED}'),
        script(f'if ckpt["amp"]:\n    {LOADED}'),
        script(f'saved = ckpt["args"]\nif saved.amp == args.amp:\n    {LOADED}'),
        script(f'try:\n    {LOADED}\nexcept (KeyError, RuntimeError):\n    print("a new scale")'),
        script(f"with contextlib.suppress(RuntimeError):\n    {LOADED}"),
        script(f"try:\n    {LOADED}\nexcept Exception as error:\n    print(error)\n    if args.strict:\n        raise"),
        script(f'try:\n    {LOADED}\nexcept Exception:\n    raise Skipped("an old one")'),
        script(f"if not args.amp:\n    {LOADED}"),  # a scaler that is off ignores it
        script(save=UNDER_A_TEST.format("args.amp")),
        script(save=UNDER_A_TEST.format("scaler.is_enabled()")),
        script(save=SAVED.replace('"scaler"', '"another"')),
        script(enabled="True"),
        script(enabled="torch.cuda.is_available()"),
        script(enabled='torch.load(args.resume)["amp"]'),
        script("pass", f'{SAVED}\nckpt = torch.load("last.pt")\n{LOADED}'),  # back to what it saved itself
    ],
)
def test_the_load_is_asked_for_or_the_state_is_never_empty(text: str) -> None:
    assert not found(text)


ABSENT = "torch.amp.GradScaler('cuda') if args.amp else None"
IF_THERE = f'if scaler is not None and "scaler" in ckpt:\n    {LOADED}'


def absent(in_its_place: str, load: str = IF_THERE, more: str = "") -> str:
    """A script whose scaler is there only with AMP, and what it saves for it."""
    save = f'{more}torch.save({{"model": model.state_dict(), "scaler": {in_its_place}}}, "last.pt")'
    return script(load, save).replace('torch.amp.GradScaler("cuda", enabled=args.amp)', ABSENT)


OR_NONE = "scaler.state_dict() if scaler is not None else None"
AS_ITEM = """\
state = {}
if scaler is not None:
    state["scaler"] = scaler.state_dict()
else:
    state["scaler"] = None
torch.save(state, "last.pt")"""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (script(f'if "scaler" in ckpt:\n    {LOADED}', SAVED.replace("()}", "() if args.amp else None}")), "None"),
        (script(save=SAVED.replace("()}", "() if args.amp else None}")), "None"),
        (absent(OR_NONE), "None"),
        (absent("None if scaler is None else scaler.state_dict()"), "None"),
        (absent("scaler.state_dict() if scaler else None"), "None"),
        (absent("scaler and scaler.state_dict()"), "None"),
        (absent("scaler.state_dict() if scaler is not None else {}"), "empty"),
        (absent("kept", more="kept = None\nif scaler is not None:\n    kept = scaler.state_dict()\n"), "None"),
        (absent(OR_NONE, f"if scaler:\n    {LOADED}"), "None"),
        (absent(OR_NONE, 'if scaler is not None:\n    scaler.load_state_dict(ckpt.get("scaler"))'), "None"),
        (absent(OR_NONE, f"if scaler:\n    try:\n        {LOADED}\n    except RuntimeError:\n        pass"), "None"),
    ],
)
def test_what_stands_in_place_of_the_state_can_not_be_loaded(text: str, what: str) -> None:
    (only,) = found(text)
    assert only.message.endswith(f"load the state only if it is not {what}")
    assert "if `args.amp` is false" in only.message


OBJECTS = 'write({"model": model, "opt": opt, "scaler": scaler, "rate": [0.1, 0.2]}, "last.pt")'
WRITES = """
def write(parts, path):
    torch.save({name: state(part) for name, part in parts.items()}, path)

def save_parts(parts, path):
    write(parts, path)

def main("""


def test_objects_are_given_to_what_saves_their_states() -> None:
    text = script(save=OBJECTS.replace("write", "save_parts")).replace("\ndef main(", WRITES)
    (only,) = found(text)
    assert only.confidence is Confidence.LIKELY
    assert "saves an empty state" in only.message
    assert not found(text.replace("save_parts({", "torch.save({"))  # what is loaded is the scaler itself
    assert not found(text.replace('"scaler": scaler', '"amp": scaler'))
    assert not found(text.replace("enabled=args.amp)\n    if", "enabled=True)\n    if"))


def test_an_item_may_be_none_in_the_other_arm() -> None:
    text = script(IF_THERE, AS_ITEM).replace('torch.amp.GradScaler("cuda", enabled=args.amp)', ABSENT)
    (only,) = found(text)
    assert "saves None instead" in only.message
    assert not found(text.replace('else:\n            state["scaler"] = None', "else:\n            pass"))


@pytest.mark.parametrize(
    "text",
    [
        absent(OR_NONE, f'if scaler is not None and ckpt["scaler"] is not None:\n    {LOADED}'),
        absent(OR_NONE, f'if scaler is not None and ckpt.get("scaler"):\n    {LOADED}'),
        absent(OR_NONE, f'if scaler is not None and isinstance(ckpt["scaler"], dict):\n    {LOADED}'),
        absent(OR_NONE, f"if scaler:\n    try:\n        {LOADED}\n    except TypeError:\n        pass"),
        absent(
            OR_NONE,
            'kept = ckpt["scaler"]\nif kept is None:\n    kept = {"scale": 1.0}\nscaler.load_state_dict(kept)',
        ),
        absent(OR_NONE).replace(ABSENT, "torch.amp.GradScaler('cuda')"),
    ],
)
def test_none_is_asked_for_or_never_saved(text: str) -> None:
    assert not found(text)


DEVICE = 'args.amp and torch.device(args.device).type == "cuda"'
WITH_MORE = SAVED.replace("()}", '(), "kind": "last", "amp": args.amp, "all": {"lr": 0.1, "amp": args.amp}}')


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ('if ckpt["kind"] != "last":\n    raise ValueError', "if `args.amp` is false, "),
        (
            'if ckpt["amp"] != args.amp:\n    raise ValueError',
            "on devices other than cuda, line ",
        ),
        ('kept = ckpt.get("amp")\nassert kept == args.amp', "on devices other than cuda"),
        ('if ckpt["all"] != {"lr": 0.1, "amp": args.amp}:\n    raise ValueError', "on devices other than cuda"),
        ('kept = ckpt["all"]\nif kept != 1:\n    if kept:\n        raise ValueError', "on devices other than cuda"),
        ('if ckpt["out_of_sight"] != args.amp:\n    raise ValueError', ""),
    ],
)
def test_what_a_run_compares_with_the_checkpoint_is_the_same_in_both(asked: str, said: str) -> None:
    findings = found(script(f"{asked}\n{LOADED}", WITH_MORE, enabled=DEVICE))
    assert [said in each.message for each in findings] == ([True] if said else [])
    by_device = [each.confidence is Confidence.LIKELY for each in findings]
    assert by_device == (["device" in said] if said else [])
    if "device" in said:  # nothing else may differ
        assert not found(script(f"{asked}\n{LOADED}", WITH_MORE))


@pytest.mark.parametrize(
    ("device", "wanted"),
    [
        ("torch.device(args.device)", True),
        ('torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))', True),
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', False),
        ('torch.device("cuda")', False),
    ],
)
def test_a_device_that_a_run_is_given_may_be_another(device: str, wanted: bool) -> None:
    findings = found(script(enabled=f'{device}.type == "cuda"'))
    assert [each.confidence for each in findings] == [Confidence.LIKELY] * wanted


MADE = 'scaler = torch.amp.GradScaler("cuda", enabled=args.amp)'


def made(by: str) -> str:
    load = f'if scaler is not None and "scaler" in ckpt:\n    {LOADED}'
    text = script(load, UNDER_A_TEST.format("scaler is not None"))
    assert MADE in text
    return text.replace(MADE, textwrap.indent(by, " " * 4).strip())


@pytest.mark.parametrize(
    ("by", "codes"),
    [
        (f"{MADE} if args.amp else None", []),
        (f"scaler = None\nif args.amp:\n    {MADE}", []),
        (f"{MADE} if args.amp and args.scale else None", []),
        (f"{MADE} if args.resume else None", ["AMP423"]),
        (f"{MADE} if torch.cuda.is_available() else None", ["AMP423"]),
        (f"{MADE} if args.amp or args.scale else None", ["AMP423"]),
        (f"scaler = None\nif scaler is None:\n    {MADE}", ["AMP423"]),
    ],
)
def test_a_scaler_that_is_only_made_where_it_is_on_saves_no_empty_state(by: str, codes: list[str]) -> None:
    assert [each.code for each in found(made(by))] == codes


ON_DEMAND = """\
import torch

class Trainer:
    def __init__(self, model, amp):
        self.amp, self.model = amp, model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = None

    def fit(self, loader):
        if {asked}:
            self.scaler = torch.amp.GradScaler("cuda", enabled=self.amp)
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.amp):
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()

    def save(self, path):
        torch.save({{"model": self.model.state_dict(), "scaler": self.scaler.state_dict()}}, path)

    def resume(self, path):
        state = torch.load(path)
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
"""


@pytest.mark.parametrize(("asked", "codes"), [("self.scaler is None", ["AMP423"]), ("self.amp", [])])
def test_a_scaler_that_is_made_where_there_is_none_yet_may_be_off(asked: str, codes: list[str]) -> None:
    assert [each.code for each in found(ON_DEMAND.format(asked=asked))] == codes


def test_a_switch_that_equals_one_value_is_said_once() -> None:
    (only,) = found(script(enabled='args.dtype not in ("bf16", "bfloat16")'))
    assert only.message.startswith("if `args.dtype == 'bf16'`, line ")


CLASS = """\
import torch

class Trainer:
    def __init__(self, model, {param}):
        self.amp = {value}
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.amp)
    def step(self, x):
        self.opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=self.amp):
            loss = self.model(x).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
    def state_dict(self):
        return {{"model": self.model.state_dict(), "opt": self.opt.state_dict(), "scaler": self.scaler.state_dict()}}
    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.opt.load_state_dict(state["opt"])
        self.scaler.load_state_dict(state["scaler"])
"""


@pytest.mark.parametrize(
    ("param", "value", "more", "count"),
    [
        ("amp=True", "amp", "", 1),
        ("**kwargs", 'kwargs.get("amp", False)', "", 1),
        ("config", "config.amp", "", 1),
        ("amp=True", "amp", "Trainer(torch.nn.Linear(2, 2))\n", 0),  # the code itself switches it on
        ("amp=True", "amp", "def run(args):\n    Trainer(torch.nn.Linear(2, 2), args.amp)\n", 1),
        ("amp=True", "True", "", 0),
    ],
)
def test_a_trainer_is_given_its_flag(param: str, value: str, more: str, count: int) -> None:
    assert len(found(CLASS.format(param=param, value=value) + more)) == count


HELPERS = """\
import torch

def save(path, model, opt, scaler):
    torch.save({{"model": model.state_dict(), "opt": opt.state_dict(), "scaler": scaler.state_dict()}}, path)

def load(path, model, opt, scaler=None):
    ckpt = torch.load(path)
    model.load_state_dict(ckpt["model"])
    opt.load_state_dict(ckpt["opt"])
    if scaler is not None and {test}:
        scaler.load_state_dict(ckpt["scaler"])
"""
MAIN = """\
import torch
from helpers import load, save

def main(args, model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    if args.resume:
        load(args.resume, model, opt, scaler)
    for x in loader:
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    save("last.pt", model, opt, scaler)
"""


@pytest.mark.parametrize(("test", "count"), [('"scaler" in ckpt', 1), ('ckpt["scaler"]', 0)])
def test_what_another_file_saves_and_loads_is_said_where_it_is_called(tmp_path: Path, test: str, count: int) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text(HELPERS.format(test=test))
    (tmp_path / "main.py").write_text(MAIN)
    told = found(MAIN, str(tmp_path / "main.py"))
    assert [MAIN[each.start : each.end] for each in told] == ["load(args.resume, model, opt, scaler)"] * count


def test_another_file_may_save_none_where_there_is_no_scaler(tmp_path: Path) -> None:
    main = MAIN.replace('torch.amp.GradScaler("cuda", enabled=args.amp)', ABSENT)
    helpers = HELPERS.format(test='"scaler" in ckpt')
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "main.py").write_text(main)
    for given, count in ("scaler.state_dict() if scaler is not None else None", 1), ("scaler.state_dict()", 0):
        (tmp_path / "helpers.py").write_text(helpers.replace("scaler.state_dict()", given))
        assert len(found(main, str(tmp_path / "main.py"))) == count


@pytest.mark.parametrize(
    ("line", "enabled", "wanted"),
    [
        ("from config import config", 'config["amp"]', True),
        ("from project.settings import cfg", "cfg.train.amp", True),
        ("from project.config import train as settings", "settings.amp", True),
        ("import config", "config.USE_AMP", True),
        ("from project.models import AMP_WORKS", "AMP_WORKS", False),
    ],
)
def test_a_flag_of_imported_settings_may_differ_between_runs(line: str, enabled: str, wanted: bool) -> None:
    findings = found(f"{line}\n{script(enabled=enabled)}")
    assert bool(findings) is wanted


def test_the_condition_of_an_empty_state_names_only_what_decides() -> None:
    (finding,) = found(script(enabled='args.amp and device.type == "cuda"'))
    assert "if `args.amp` is false, " in finding.message


CHOSEN = """\
from dataclasses import dataclass
from typing import NamedTuple

{head}
class Precision{base}:
    name: str
    scale: bool


def choose(asked):
    if asked == "fp16":
        return Precision("fp16", True)
    return Precision("fp32", False)


{script}"""


@pytest.mark.parametrize(("head", "base"), [("@dataclass(frozen=True)", ""), ("", "(NamedTuple)")])
def test_an_object_that_an_option_chooses_has_the_switch(head: str, base: str) -> None:
    text = CHOSEN.format(head=head, base=base, script=script(enabled="choose(args.precision).scale"))
    assert len(found(text)) == 1
    assert not found(text.replace('Precision("fp32", False)', 'Precision("fp32", True)'))
