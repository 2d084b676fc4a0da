"""AMP310 where no file of the program opens a region: which files those are, and what computes in half by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

TRAINER = """\
import torch


def train(model, optimizer, loader, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
STEP = 'import torch\n\n\ndef run(model, x):\n    with torch.autocast("cuda"):\n        return model(x)\n'


def found(folder: Path, main: str, files: dict[str, str], trainer: str = TRAINER) -> bool:
    (folder / "pyproject.toml").write_text("", "utf-8")
    for name, text in {"main.py": main, "trainer.py": trainer, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    path = folder / "trainer.py"
    return "AMP310" in {each.code for each in check(trainer, filename=str(path))}


def test_it_is_said_of_a_program_in_sight(tmp_path: Path) -> None:
    assert found(tmp_path, "import trainer\n", {"steps/plain.py": STEP})


@pytest.mark.parametrize("load", ['importlib.import_module(f"steps.{name}")', '__import__("steps." + name)'])
def test_a_program_may_import_any_file_by_a_computed_name(tmp_path: Path, load: str) -> None:
    main = f"import importlib\nimport trainer\n\n\ndef load(name):\n    return {load}\n"
    assert not found(tmp_path, main, {"steps/plain.py": STEP})


@pytest.mark.parametrize(("name", "wanted"), [("json", True), ("steps.plain", False)])
def test_a_name_that_is_written_out_imports_that_module_alone(tmp_path: Path, name: str, wanted: bool) -> None:
    main = f'import importlib\nimport trainer\n\nloaded = importlib.import_module("{name}")\n'
    assert found(tmp_path, main, {"steps/plain.py": STEP}) is wanted


def test_tiny_cuda_nn_computes_in_half_by_itself(tmp_path: Path) -> None:
    field = "import tinycudann as tcnn\n\nnet = tcnn.Network(3, 1, {})\n"
    assert not found(tmp_path, "import trainer\nimport field\n", {"field.py": field})


@pytest.mark.parametrize("comment", ["# with torch.cuda.amp.autocast():", "# autocast is opened elsewhere"])
def test_who_comments_a_region_out_wants_float32(tmp_path: Path, comment: str) -> None:
    trainer = TRAINER.replace("        loss =", f"        {comment}\n        loss =")
    assert found(tmp_path, "import trainer\n", {}, trainer) is not comment.startswith("# with")


@pytest.mark.parametrize(
    "flag",
    [
        'GradScaler("cuda", enabled=args.fp16)',
        'GradScaler("cuda", enabled=use_mixed_precision(args))',
        'GradScaler("cuda", enabled=weights.dtype != torch.float16)',
    ],
)
def test_a_flag_that_is_named_for_half_precision_opens_no_region(tmp_path: Path, flag: str) -> None:
    trainer = TRAINER.replace('GradScaler("cuda")', flag)
    assert found(tmp_path, "import trainer\n", {}, trainer)


@pytest.mark.parametrize("cast", ["x = x.to(torch.float16)", "x = x.half()", 'x = Reader(fp16=True, kind="fp16")(x)'])
def test_what_makes_a_tensor_half_is_another_thing(tmp_path: Path, cast: str) -> None:
    trainer = TRAINER.replace("        optimizer.zero_grad()", f"        {cast}\n        optimizer.zero_grad()")
    assert not found(tmp_path, "import trainer\n", {}, trainer)


OTHER = """\
import torch


def train_other(model, optimizer, scaler, x, y):
    with torch.autocast("cuda"):
        loss = (model(x) - y).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_training_step_of_another_file_opens_its_region_for_itself(tmp_path: Path) -> None:
    assert found(tmp_path, "import trainer\nimport other\n", {"other.py": OTHER})


def test_a_model_of_another_file_may_open_a_region(tmp_path: Path) -> None:
    model = OTHER.replace("    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n", "")
    assert not found(tmp_path, "import trainer\nimport other\n", {"other.py": f"{model}    return loss\n"})


def test_a_step_that_runs_the_file_may_open_a_region_round_it(tmp_path: Path) -> None:
    main = f"import trainer\n{OTHER}    trainer.train(model, optimizer, [(x, y)], None)\n"
    assert not found(tmp_path, main, {})


EVALUATION = """

DECORATOR
def evaluate(model, loader):
    with torch.autocast("cuda"):
        return [model(x) for x, _ in loader]
"""


@pytest.mark.parametrize(
    ("decorator", "expected"), [("@torch.no_grad()", True), ("@torch.jit.ignore", False)], ids=["evaluates", "trains"]
)
def test_a_region_without_gradients_trains_nothing(tmp_path: Path, decorator: str, expected: bool) -> None:
    trainer = TRAINER + EVALUATION.replace("DECORATOR", decorator)
    assert found(tmp_path, "import trainer\n", {}, trainer) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("autocast_enabled = average_precision = True", True),
        ("run(mixed_precision=True)", False),
        ("torch.set_autocast_enabled('cuda', True)", False),
        ("Trainer(precision=16)", False),
    ],
)
def test_what_the_names_of_flags_and_arguments_say(tmp_path: Path, line: str, expected: bool) -> None:
    assert found(tmp_path, "import trainer\n", {}, f"{TRAINER}\n\n{line}\n") is expected
