"""AMP218: options of precision that the program does not do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check, make_settings
from amplint.base.findings import Confidence

PARSER = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--precision", choices=CHOICES, default="amp")
args = parser.parse_args()
"""
TRIO = '["fp32", "amp", "bf16"]'


def found(text: str, path: Path | None = None) -> list[tuple[int, str]]:
    if path is not None:
        path.write_text(text, "utf-8")
    findings = check(text, filename=str(path or "train.py"))
    return [(each.location.row, each.message) for each in findings if each.code == "AMP218"]


@pytest.mark.parametrize(
    "rest",
    [
        'use_amp = args.precision == "amp"\n',
        'use_amp = "amp" == args.precision\n',
        'mode = args.precision\nprint(f"in {mode}")\nuse_amp = mode == "amp"\n',
        'def run(precision):\n    return precision in ("amp",)\n\n\nrun(args.precision)\n',
        'use_amp = {"amp": True}.get(args.precision, False)\n',
        'cfg.precision = getattr(args, "precision", cfg.precision)\nuse_amp = cfg.precision == "amp"\n',
        'match args.precision:\n    case "amp":\n        use_amp = True\n    case _:\n        use_amp = False\n',
    ],
)
def test_a_choice_that_is_as_full_precision(rest: str, tmp_path: Path) -> None:
    (finding,) = found(PARSER.replace("CHOICES", TRIO) + rest, tmp_path / "train.py")
    assert 'the choice "bf16" has no effect' in finding[1]


@pytest.mark.parametrize(
    ("choices", "rest"),
    [
        (TRIO, 'use_amp = args.precision != "fp32"\n'),
        (TRIO, 'use_amp = args.precision in ("amp", "bf16")\n'),
        (TRIO, 'use_amp = args.precision == "amp"\nrun(args.precision)\n'),
        (TRIO, 'use_amp = args.precision == "amp"\nother = args.precision\nother = other.upper()\n'),
        (TRIO, 'use_amp = args.precision == "amp"\nsettings = vars(args)["precision"]\n'),
        (TRIO, 'use_amp = args.precision == "amp"\nargs.precision = "fp32"\n'),
        (TRIO, 'use_amp = "16" in args.precision\n'),
        (TRIO, "dtype = getattr(torch, args.precision)\n"),
        ('["fp16", "bf16"]', 'dtype = torch.float16 if args.precision == "fp16" else torch.bfloat16\n'),
        ('["fp32", "amp"]', 'use_amp = args.precision == "other"\n'),
    ],
)
def test_a_choice_that_may_be_asked_for(choices: str, rest: str, tmp_path: Path) -> None:
    assert found(PARSER.replace("CHOICES", choices) + rest, tmp_path / "train.py") == []


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ('dtype == "fp16"', 'never equals the string "fp16"'),
        ('"bf16" == dtype', 'never equals the string "bf16"'),
        ("name == torch.float16", "never equals the torch.dtype `torch.float16`"),
    ],
)
def test_a_comparison_that_is_never_true(test: str, said: str) -> None:
    text = f'import torch\n\ndtype = torch.float16\nname = "fp16"\nif {test}:\n    print(dtype)\n'
    ((row, message),) = found(text)
    assert row == 5
    assert said in message
    values = {"torch": __import__("torch")}
    exec(text.replace(f"if {test}:\n    print(dtype)", f"answer = {test}"), values)
    assert values["answer"] is False


@pytest.mark.parametrize("test", ["dtype == torch.float16", 'name == "fp16"', 'unknown == "fp16"'])
def test_a_comparison_that_can_be_true(test: str) -> None:
    assert found(f'import torch\n\ndtype = torch.bfloat16\nname = "bf16"\nif {test}:\n    print(dtype)\n') == []


@pytest.mark.parametrize(
    ("test", "given", "expected"),
    [
        ('precision == "fp16" or "bf16"', "fp32", True),
        ('precision in ["bf16" or "bfloat16"]', "bfloat16", False),
        ('precision == ("bf16" and "bfloat16")', "bf16", False),
    ],
)
def test_texts_that_are_joined(test: str, given: str, expected: bool) -> None:
    assert bool(eval(test, {"precision": given})) is expected
    assert len(found(f"import torch\n\ndef use_amp(precision):\n    return bool({test})\n")) == 1


@pytest.mark.parametrize(
    "test", ['precision or "fp16"', 'precision == "fp16" or precision == "bf16"', 'args.get("precision") or "bf16"']
)
def test_defaults_are_not_joined_texts(test: str) -> None:
    assert found(f"import torch\n\ndef use_amp(precision, args):\n    return {test}\n") == []


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ("torch.float16 if args.bf16 else torch.float32", 1),
        ("torch.bfloat16 if args.fp16 else torch.float16", 1),
        ('torch.half if cfg.precision == "bf16" else None', 1),
        ("torch.bfloat16 if not args.bf16 else torch.float16", 1),
        ("torch.float16 if args.precision != 'bf16' else torch.bfloat16", 0),
        ("torch.bfloat16 if args.bf16 else torch.float16", 0),
        ("torch.bfloat16 if args.fp16 else torch.float32", 0),
        ("torch.float16 if args.bf16 and not supported else torch.float32", 0),
        ("torch.float16 if args.bf16_supported else torch.float32", 0),
        ("torch.float16 if torch.cuda.is_bf16_supported() else torch.float32", 0),
    ],
)
def test_the_dtype_that_is_asked_for(chosen: str, count: int) -> None:
    assert len(found(f"import torch\n\ndef dtype_of(args, cfg, supported):\n    return {chosen}\n")) == count


def test_a_choice_that_another_file_reads(tmp_path: Path) -> None:
    text = PARSER.replace("CHOICES", TRIO) + 'import engine\n\nuse_amp = args.precision == "amp"\n'
    engine = tmp_path / "engine.py"
    engine.write_text("def run(args):\n    return args.seed\n", "utf-8")
    assert found(text, tmp_path / "train.py")
    engine.write_text("def run(args):\n    return args.precision.startswith('bf')\n", "utf-8")
    assert not found(text, tmp_path / "train.py")


UNREAD = """\
import argparse
import logging
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true", help=HELP)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
logging.info("in 16 bits: {}".format(args.fp16))
print(f"fp16={args.fp16}", args.fp16)
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
REST
"""


def unread(tmp_path: Path, rest: str = "", shown: str = '"train in float16"') -> list[str]:
    text = UNREAD.replace("REST", rest).replace("HELP", shown)
    return [message for _, message in found(text, tmp_path / "train.py")]


def test_an_option_that_is_only_logged(tmp_path: Path) -> None:
    (message,) = unread(tmp_path)
    assert message == "`--fp16` has no effect: no code of this program uses `fp16`; use the option, or remove it"


@pytest.mark.parametrize(
    "rest",
    [
        "if args.fp16:\n    model.half()",
        'use = getattr(args, "fp16")',
        'use = vars(args)["fp16"]',
        "train(**vars(args))",
        "for name in names:\n    use(getattr(args, name))",
        "def main(fp16):\n    return fp16",
    ],
)
def test_an_option_that_may_be_read(rest: str, tmp_path: Path) -> None:
    assert unread(tmp_path, rest) == []


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        ("from raft import RAFT\nnet = RAFT(args)", 0),
        ("import nets.flow\nnet = nets.flow.build(config=args)", 0),
        ("import wandb\nwandb.init(config=args)", 1),
        ("from pprint import pprint\npprint(args)", 1),
        ("from engine import run\nrun(args)", 1),  # a file of the program, without the option's name
    ],
)
def test_arguments_that_code_out_of_sight_gets_as_a_whole(rest: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "engine.py").write_text("def run(args):\n    return args.lr\n", "utf-8")
    assert len(unread(tmp_path, rest)) == count


@pytest.mark.parametrize("shown", ['"deprecated: use --precision"', '"not supported yet"', "argparse.SUPPRESS"])
def test_an_option_that_is_kept_for_old_scripts(shown: str, tmp_path: Path) -> None:
    assert unread(tmp_path, shown=shown) == []


def test_an_option_that_another_file_reads(tmp_path: Path) -> None:
    engine = tmp_path / "engine.py"
    engine.write_text("def run(args):\n    return args.fp16\n", "utf-8")
    assert unread(tmp_path, "import engine") == []
    engine.write_text("def run(args):\n    return args.lr  # fp16\n", "utf-8")
    assert len(unread(tmp_path, "import engine")) == 1


@pytest.mark.parametrize(
    ("declared", "count"),
    [
        ('"--bf16", action="store_true", default=True', 1),
        ('"--no-amp", action="store_false", default=False', 0),
        ('"--bf16", action="store_true", default=False', 0),
        ('"--bf16", action="store_true"', 0),
        ('"--bf16", action="store_false", default=True', 0),
        ('"--bf16", action=argparse.BooleanOptionalAction, default=True', 0),
        ('"--shuffle", action="store_true", default=True', 0),
    ],
)
def test_an_option_that_is_always_on(declared: str, count: int) -> None:
    use = declared.split('"')[1].lstrip("-").replace("-", "_")
    text = f"import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument({declared})\n"
    messages = [message for _, message in found(f"{text}args = parser.parse_args()\nprint(args)\nrun(args.{use})\n")]
    assert len([each for each in messages if "always on" in each]) == count


EVALUATION = """\
import torch


def train(model, loader, optimizer, args):
    for x, y in loader:
        with torch.cuda.amp.autocast(enabled=not args.no_amp):
            loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader, args):
    for x, y in loader:
        REGION
            print(model(x, y))
"""


@pytest.mark.parametrize(
    ("region", "count"),
    [
        ("with torch.cuda.amp.autocast():", 1),
        ('with torch.autocast("cuda", dtype=torch.float16):', 1),
        ("with torch.cuda.amp.autocast(enabled=not args.no_amp):", 0),
        ("with torch.cuda.amp.autocast(enabled=False):", 0),
        ("if not args.no_amp:", 0),
        ("with torch.enable_grad(), torch.cuda.amp.autocast():", 0),
    ],
)
def test_evaluation_that_is_always_in_half_precision(region: str, count: int) -> None:
    assert len(found(EVALUATION.replace("REGION", region))) == count


def test_an_evaluation_beside_one_that_takes_the_option_is_suspected() -> None:
    text = EVALUATION.replace("REGION", "with torch.cuda.amp.autocast():")
    also = (
        text[text.index("@torch") :]
        .replace("evaluate", "test")
        .replace("autocast()", "autocast(enabled=not args.no_amp)")
    )
    (one,) = [
        each for each in check(f"{text}\n\n{also}", settings=make_settings(suspicions=True)) if each.code == "AMP218"
    ]
    assert (one.confidence, one.message[:39]) == (Confidence.SUSPICION, "this region always runs under autocast:")


def test_training_that_is_always_in_half_precision() -> None:
    """Then there is no switch that evaluation could ignore."""
    text = EVALUATION.replace("REGION", "with torch.cuda.amp.autocast():")
    assert found(text.replace("enabled=not args.no_amp", "")) == []


def test_an_option_that_nothing_here_reads_is_not_called_on() -> None:
    text = (
        "import argparse\n\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--fp16", action="store_true", default=True)\nargs = parser.parse_args()\n'
    )
    assert any("always on" in message for _, message in found(f"{text}print(args)\nrun(args.fp16)\n"))
    assert not any("always on" in message for _, message in found(f"{text}print(args)\nrun(args)\n"))


SCRIPT = """\
import argparse
from tools import train

parser = argparse.ArgumentParser()
parser.add_argument("--use_amp", action="store_true")
args = parser.parse_args()
train(args)
"""
TOOLS = """\
import torch


def train(args):
    torch.ones(1, requires_grad=True).sum().backward()


def evaluate(args):
    with torch.autocast("cuda", enabled=args.use_amp):
        pass
"""


@pytest.mark.parametrize(("last", "count"), [("", 1), ("tools.evaluate(args)\n", 0), ("train(**vars(args))\n", 0)])
def test_an_option_that_another_file_reads_where_the_program_never_goes(last: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, "utf-8")
    assert len(found(SCRIPT + last, tmp_path / "run.py")) == count


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (("--fp16", "--loss_scale", "--fp16_opt_level"), ["--fp16"]),  # the others follow from it
        (("--loss_scale",), []),  # may be for a loss
        (("--use_fp16", "--fp16_opt_level"), ["--use_fp16"]),
    ],
)
def test_options_that_tune_what_is_off_anyway(options: tuple[str, ...], flags: list[str], tmp_path: Path) -> None:
    declared = "".join(f'parser.add_argument("{each}")\n' for each in options)
    text = f"import argparse\n\nparser = argparse.ArgumentParser()\n{declared}args = parser.parse_args()\n"
    messages = [message for _, message in found(text, tmp_path / "train.py")]
    assert [each.split("`")[1] for each in messages] == flags


TRAIN = """\
import torch


def train(model, x, optimizer, USE):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (TRAIN + "\n\ntrain(model, x, optimizer, True)\n", 1),
        (TRAIN + "\n\ntrain(model, x, optimizer, use_amp=args.amp)\n", 1),
        (TRAIN, 0),  # nobody gives it
        (TRAIN.replace("USE", "USE=False") + "\n\ntrain(model, x, optimizer)\n", 0),
        (TRAIN.replace("    loss.b", "    print(USE)\n    loss.b") + "\n\ntrain(model, x, optimizer, True)\n", 0),
        (TRAIN.replace("    loss.b", "    log(locals())\n    loss.b") + "\n\ntrain(model, x, optimizer, True)\n", 0),
        (TRAIN.replace("def", "@hydra.main()\ndef") + "\n\ntrain(model, x, optimizer, True)\n", 0),
        (TRAIN + "\n\ntrain(model, x, optimizer, True)\nrun(train)\n", 0),
        (TRAIN.replace("USE", "scale") + "\n\ntrain(model, x, optimizer, True)\n", 0),
    ],
)
def test_a_parameter_that_is_never_read(text: str, count: int, tmp_path: Path) -> None:
    assert len(found(text.replace("USE", "use_amp"), tmp_path / "train.py")) == count


FIELDS = """\
class Config:
    use_amp = True


config = Config()
loss.backward()
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (FIELDS, 1),
        (FIELDS.replace("backward", "mean"), 0),  # no training
        (FIELDS + "print(config.use_amp)\n", 1),
        (FIELDS + "train(config.use_amp)\n", 0),
        (FIELDS + 'train(getattr(config, "use_amp"))\n', 0),
        (FIELDS + "train(**vars(config))\n", 0),
        (FIELDS.replace("Config", "Trainer(Base)"), 0),
        ("USE_AMP = True\nloss.backward()\n", 1),
        ("USE_AMP = True\nloss.backward(USE_AMP)\n", 0),
    ],
)
def test_a_field_that_is_never_read(text: str, count: int, tmp_path: Path) -> None:
    assert len(found("import torch\n\n" + text, tmp_path / "train.py")) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('device == "cuda"', 1),
        ('"cuda" == device', 1),
        ('device != "cuda:0"', 1),
        ('device in ("cuda", "mps")', 1),
        ('device != "cpu"', 0),  # leaves AMP on
        ('device.type == "cuda"', 0),
        ('str(device) == "cuda"', 0),
        ("device == other", 0),
    ],
)
@pytest.mark.parametrize(
    ("use", "matters"),
    [
        ("use_amp = TEST\nrun(use_amp)", True),
        ('gpu = TEST\nscaler = torch.amp.GradScaler("cuda", enabled=gpu)', True),
        ('if TEST:\n    scaler = torch.amp.GradScaler("cuda")', True),
        ("dtype = torch.float16 if TEST else torch.float32", True),
        ("run(mixed_precision=TEST)", True),
        ('pinned = TEST\nregion = torch.autocast("cuda")', False),
    ],
)
def test_a_device_compared_with_text(text: str, count: int, use: str, matters: bool) -> None:
    made = 'import torch\n\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    assert len(found(f"{made}{use.replace('TEST', text)}\n")) == (count if matters else 0)


@pytest.mark.parametrize(
    ("made", "given", "count"),
    [
        ('"fp16" if half else "no"', "amp", 1),
        ('"fp16" if half else "no"', "half", 0),
        ('"fp16"', "False", 1),
        ('"fp16"', "True", 0),
        ('"bf16"', "amp", 0),
        ("args.mixed_precision", "amp", 1),
    ],
)
def test_the_precision_of_an_accelerator_overridden(made: str, given: str, count: int) -> None:
    text = f"def run(args, half, amp):\n    accelerator = Accelerator(mixed_precision={made})\n"
    text = f"from accelerate import Accelerator\n\n\n{text}    accelerator.native_amp = {given}\n"
    assert len(found(text)) == count


IDLE_AMP = """\
import argparse
import torch
{top}

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("--arch")
args = parser.parse_args()
model = build(args.arch)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
{before}
for x in torch.randn(4, 2, 3):
    with torch.amp.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("top", "before", "is_found"),
    [
        ("", "", True),
        ("import models", "model = models.__dict__[args.arch]()", True),
        ("import subprocess", 'commit = subprocess.check_output(["git", "rev-parse", "HEAD"])', True),
        ("import subprocess, sys", "subprocess.run([sys.executable, *sys.argv])", False),
        ("", "settings = args.__dict__", False),
        ("", "state.update(vars(args))", False),
        ("", "model.half() if args.amp else model", False),
    ],
)
def test_an_option_is_unread_whatever_else_is_looked_up(top: str, before: str, is_found: bool, tmp_path: Path) -> None:
    said = found(IDLE_AMP.format(top=top, before=before), tmp_path / "train.py")
    assert bool(said) is is_found


@pytest.mark.parametrize(
    ("other", "is_found"),
    [
        ("import torch\n\ndef build(args, amp=1):\n    return torch.cuda.amp.GradScaler()\n", True),
        ("def build(args):\n    return args.amp\n", False),
        ('def build(args):\n    return vars(args)["amp"]\n', False),
    ],
)
def test_another_file_reads_an_option_by_its_name(other: str, is_found: bool, tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(other, "utf-8")
    (tmp_path / "setup.cfg").write_text("", "utf-8")
    text = IDLE_AMP.format(top="from models import build", before="build(args)")
    assert bool(found(text, tmp_path / "train.py")) is is_found
