"""AMP413: where the scaler's state may be loaded, why it is not, and which of several checkpoints is marked."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import amplint
from amplint import fix, make_settings
from amplint.base.findings import Confidence, Finding, Severity


def check(text: str, filename: str = "<string>") -> list[Finding]:
    """What is found, suspicions too."""
    return amplint.check(text, filename, make_settings(suspicions=True))


STEPS = """\
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion({0}model(x), y)
            {0}scaler.scale(loss).backward()
            {0}scaler.step({0}optimizer)
            {0}scaler.update()
            {0}optimizer.zero_grad()
"""
TRAINER = (
    """\
import torch


class Trainer:
    def __init__(self, model, path):
        self.path = path
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
INIT
    def init_checkpoint(self):
        ckpt = torch.load(self.path)
        self.model.load_state_dict(ckpt["model"])
        self.optimizer.load_state_dict(ckpt["optimizer"])

    def make(self):
        MAKE

    def train(self, loader):
TRAIN
"""
    + STEPS.format("self.")
    + """\
        self.save()

    def save(self):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, self.path)
"""
)
MADE = 'self.scaler = torch.amp.GradScaler("cuda")'
LOADED = "self.init_checkpoint()"


def only(text: str) -> Finding:
    (found,) = (each for each in check(text) if each.code == "AMP413")
    return found


def trainer(init: tuple[str, ...], train: tuple[str, ...] = (), make: str = "pass") -> str:
    suites = (textwrap.indent("\n".join(lines), " " * 8) + "\n" for lines in (init, train))
    return TRAINER.replace("INIT\n", next(suites)).replace("TRAIN\n", next(suites)).replace("MAKE", make)


@pytest.mark.parametrize(
    "text",
    [
        trainer((MADE, LOADED)),
        trainer((MADE, "if path:", f"    {LOADED}")),
        trainer((MADE,)),  # called from elsewhere, on an object that is made
        trainer((MADE,), (LOADED,)),
        trainer(("self.make()", LOADED), make=MADE),
        trainer((), (MADE, LOADED)),
    ],
)
def test_it_is_loaded_where_the_scaler_is_surely_made_before(text: str) -> None:
    assert only(text).fix is not None
    fixed = fix(text, unsafe=True)
    assert 'if ckpt.get("scaler"):\n            self.scaler.load_state_dict(ckpt["scaler"])' in fixed
    assert '"scaler": self.scaler.state_dict()' in fixed


def test_a_scaler_of_the_file_is_there_in_every_method() -> None:
    text = (
        trainer((LOADED,))
        .replace("self.scaler", "scaler")
        .replace("class", 'scaler = torch.amp.GradScaler("cuda")\n\n\nclass')
    )
    assert only(text).fix is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (trainer((LOADED,), (MADE,)), " before the scaler is created on line {made}"),
        (trainer((LOADED, MADE)), " before the scaler is created on line {made}"),
        (trainer(("if path:", f"    {LOADED}", MADE)), " before the scaler is created on line {made}"),
        (trainer((), (LOADED, MADE)), " before the scaler is created on line {made}"),
        (trainer((LOADED, "self.make()"), make=MADE), " before the scaler is created on line {made}"),
        (trainer((), (MADE,)), ", where the scaler created on line {made} may still be missing"),
    ],
)
def test_it_is_not_loaded_where_the_scaler_may_come_later(text: str, why: str) -> None:
    found = only(text)
    lines = text.splitlines()
    loaded = 1 + next(i for i, line in enumerate(lines) if "self.optimizer.load_state_dict" in line)
    made = 1 + next(i for i, line in enumerate(lines) if "GradScaler" in line)
    assert found.fix is None
    assert found.withheld is not None
    assert found.withheld.startswith(f"the checkpoint is loaded on line {loaded}{why.format(made=made)}")
    assert fix(text, unsafe=True) == text


def test_a_scaler_that_is_made_anew_after_the_load_gets_no_fix() -> None:
    found = only(trainer((MADE, LOADED), (MADE,)))
    assert found.fix is None
    assert "where the scaler may be that of line " in str(found.withheld)


FUNCTION = (
    """\
import torch
import utils


def main(model, loader, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
BEFORE
    scaler = torch.amp.GradScaler("cuda")
AFTER
    for epoch in range(10):
"""
    + STEPS.format("")
    + "SAVE"
)
SAVE = 'utils.save_on_master({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")'
LOAD = """\
ckpt = torch.load("last.pt")
model.load_state_dict(ckpt["model"])
optimizer.load_state_dict(ckpt["optimizer"])
"""


def function(before: str = "", after: str = "", save: str = SAVE) -> str:
    text = FUNCTION.replace("BEFORE", textwrap.indent(before, " " * 4))
    return text.replace("AFTER", textwrap.indent(after, " " * 4)).replace("SAVE", textwrap.indent(save, " " * 8) + "\n")


GAN = """\
import torch


def train(args, loader, generator, discriminator, g_optim, d_optim):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            d_loss = d_criterion(discriminator(generator(x).detach()), discriminator(y))
        d_optim.zero_grad()
        scaler.scale(d_loss).backward()
        scaler.step(d_optim)
        with torch.autocast("cuda", dtype=torch.float16):
            g_loss = g_criterion(discriminator(generator(x)))
        g_optim.zero_grad()
        scaler.scale(g_loss).backward()
        scaler.step(g_optim)
        scaler.update()
        torch.save(
            {
                "g": generator.state_dict(),
                "d": discriminator.state_dict(),
                "g_optim": g_optim.state_dict(),
                "d_optim": d_optim.state_dict(),
            },
            "last.pt",
        )


if __name__ == "__main__":
    generator, discriminator = make()
    g_optim = torch.optim.Adam(generator.parameters())
    d_optim = torch.optim.Adam(discriminator.parameters())
    ckpt = torch.load("last.pt")
    generator.load_state_dict(ckpt["g"])
    g_optim.load_state_dict(ckpt["g_optim"])
    d_optim.load_state_dict(ckpt["d_optim"])
    train(args, loader, generator, discriminator, g_optim, d_optim)
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (function(before=LOAD), "the checkpoint is loaded on line 9 before the scaler is created on line 11"),
        (GAN, "an optimizer's state is loaded on line 35, where the scaler created on line 5 is not accessible"),
        (
            function(after="utils.load_checkpoint(args.resume, model, optimizer)"),
            "`utils.load_checkpoint` on line 9 may",
        ),
        (
            function(after=LOAD.replace('ckpt["optimizer"]', 'ckpt.get("optimizer")')),
            "the checkpoint is loaded on line 11 in a form",
        ),
    ],
)
def test_the_reason_says_where_the_checkpoint_is_loaded(text: str, why: str) -> None:
    found = only(text)
    assert found.fix is None
    assert str(found.withheld).startswith(why)
    assert found.severity is Severity.WARNING
    assert "starts at the initial scale" in found.message


SAVED = 'torch.save({{"model": model.state_dict(), "{}": optimizer.state_dict()}}, "{}")'


@pytest.mark.parametrize(
    "text",
    [
        function(after=LOAD, save=f"{SAVED.format('best', 'best.pt')}\n{SAVED.format('optimizer', 'last.pt')}"),
        function(after=LOAD, save=f"{SAVED.format('optimizer', 'best.pt')}\n{SAVED.format('optimizer', 'last.pt')}"),
        function(
            after=f"{LOAD}if args.eval_first:\n    {SAVED.format('optimizer', 'last.pt')}",
            save=f"\n{SAVED.format('optimizer', 'last.pt')}",
        ),
    ],
)
def test_the_checkpoint_that_is_loaded_again_is_marked_first(text: str) -> None:
    found = only(text)
    assert text.count("\n", 0, found.start) == text.rstrip("\n").count("\n")


def test_what_nothing_loads_is_a_suspicion() -> None:
    found = only(function())
    assert (found.severity, found.confidence) == (Severity.NOTE, Confidence.SUSPICION)
    assert [each.code for each in amplint.check(function())] == []
    assert "amplint sees no code that resumes; a run that did would start at the initial scale" in found.message


RESUMES = """\
def resume(optimizer, path):
    optimizer.load_state_dict(torch.load(path)["optimizer"])
"""
TRAINS_BOTH = """\
from main import main
from resume import resume

resume(optimizer, "last.pt")
main(model, loader, args)
"""


@pytest.mark.parametrize(
    ("other", "severity"),
    [
        (TRAINS_BOTH, Severity.WARNING),
        (TRAINS_BOTH.replace("from main import main\n", ""), Severity.NOTE),  # another program's
        (TRAINS_BOTH.replace('resume(optimizer, "last.pt")\n', ""), Severity.NOTE),  # imported, and never called
        (
            TRAINS_BOTH.replace("import resume", "import a, resume").replace('resume(optimizer, "last.pt")\n', ""),
            Severity.NOTE,
        ),
        (TRAINS_BOTH.replace('resume(optimizer, "last.pt")', '# resume(optimizer, "last.pt")'), Severity.NOTE),
        (TRAINS_BOTH.replace("import resume", "import resume as r").replace("resume(", "r("), Severity.WARNING),
        (TRAINS_BOTH.replace('resume(optimizer, "last.pt")', 'resume(optimizer=None, path="a.pt")'), Severity.NOTE),
        (TRAINS_BOTH.replace('resume(optimizer, "last.pt")', "resume(None, find(1, 2))"), Severity.NOTE),
        (TRAINS_BOTH.replace('resume(optimizer, "last.pt")', 'resume(opt(a, None), "a.pt")'), Severity.WARNING),
        (TRAINS_BOTH.replace('resume(optimizer, "last.pt")', "hooks = [resume]"), Severity.WARNING),
    ],
)
def test_another_file_resumes_it_where_it_is_one_of_the_same_program(
    tmp_path: Path, other: str, severity: Severity
) -> None:
    (tmp_path / "pyproject.toml").touch()
    for name, text in (("main", function()), ("resume", RESUMES), ("run", other)):
        (tmp_path / f"{name}.py").write_text(text)
    (told,) = (each for each in check(function(), filename=str(tmp_path / "main.py")) if each.code == "AMP413")
    assert told.severity is severity
    assert ("resume.py may" in str(told.withheld)) == (severity is Severity.WARNING)


PROGRAM = """\
import torch

def load(model, optimizer, path):
    ckpt = torch.load(path)
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])

def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(3):
STEPS
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")

RUN
""".replace("STEPS", textwrap.indent(STEPS.format(""), ""))


@pytest.mark.parametrize(
    ("run", "other", "confidence"),
    [
        ("train(model, loader)", "", Confidence.SUSPICION),
        ("# load(model, optimizer, path)\ntrain(model, loader)", "", Confidence.SUSPICION),
        ("if __name__ == '__main__':\n    train(model, loader)", "", Confidence.SUSPICION),
        ("train(model, loader)", "from main import load\nload(model, optimizer, path)\n", Confidence.LIKELY),
        ("train(model, loader)", "import main\nhooks = [main.load]\n", Confidence.LIKELY),
        ("train(model, loader)\nhooks = [load]", "", Confidence.LIKELY),
        ("train(model, loader)\nload(model, optimizer, path)", "", Confidence.CERTAIN),
        ("", "", Confidence.LIKELY),  # nothing calls what trains, either
    ],
)
def test_a_function_that_loads_and_that_nothing_calls_resumes_no_program(
    tmp_path: Path, run: str, other: str, confidence: Confidence
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "other.py").write_text(other)
    text = PROGRAM.replace("RUN", run)
    (tmp_path / "main.py").write_text(text)
    (told,) = (each for each in check(text, filename=str(tmp_path / "main.py")) if each.code == "AMP413")
    assert told.confidence is confidence


# A program whose step is imported; only it resumes.
OTHER_PROGRAM = """\
import torch
from resume import resume

def step(model, batch):
    return model(batch)

def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    resume(optimizer, "other.pt")

{started}
"""


@pytest.mark.parametrize(
    ("started", "imported", "severity"),
    [
        ('if __name__ == "__main__":\n    train()', "from other import step", Severity.NOTE),
        ("if __name__ == '__main__':\n    args = 3\n\n    train()\n", "import other\nprint(other.step)", Severity.NOTE),
        ('if __name__ == "__main__":\n    resume(None, "a.pt")\n    train()', "from other import step", Severity.NOTE),
        # It runs all the same.
        ("train()", "from other import step", Severity.WARNING),
        ('train()\n\nif __name__ == "__main__":\n    train()', "from other import step", Severity.WARNING),
        ('if __name__ == "__main__":\n    train()', "from other import (\n    step, train)\ntrain()", Severity.WARNING),
        ('if __name__ == "__main__":\n    train()', "import other\nother.train()", Severity.WARNING),
        (
            'def run():\n    train()\n\nif __name__ == "__main__":\n    train()',
            "from other import run",
            Severity.WARNING,
        ),
    ],
)
def test_what_an_imported_program_does_by_itself_is_not_done_here(
    tmp_path: Path, started: str, imported: str, severity: Severity
) -> None:
    (tmp_path / "pyproject.toml").touch()
    text = f"{imported}\n{function()}"
    for name, code in (("main", text), ("resume", RESUMES), ("other", OTHER_PROGRAM.format(started=started))):
        (tmp_path / f"{name}.py").write_text(code)
    (told,) = (each for each in check(text, filename=str(tmp_path / "main.py")) if each.code == "AMP413")
    assert told.severity is severity


LOADER = """\
def load(path, model, optimizer):
    ckpt = torch.load(path)
    model.load_state_dict(ckpt["model"])
    if optimizer is not None:
        optimizer.load_state_dict(ckpt["optimizer"])


def main("""


@pytest.mark.parametrize(("given", "severity"), [("None", Severity.NOTE), ("optimizer", Severity.WARNING)])
def test_a_load_that_is_given_no_optimizer_loads_none(given: str, severity: Severity) -> None:
    text = function(after=f'load("last.pt", model, {given})').replace("def main(", LOADER)
    assert only(text).severity is severity


STATES = '{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}'


@pytest.mark.parametrize(
    ("save", "found"),
    [
        (f'torch.save({STATES}, "last.pt")', True),
        (f'torch.save({STATES}, f"checkpoint_{{epoch}}.pt")', True),
        (f"if epoch % 5 == 0:\n    torch.save({STATES}, path)", True),
        (f"state = {STATES}\nbest = max(best, loss)\ntorch.save(state, path)", True),
        (f"if not is_best:\n    torch.save({STATES}, path)", True),
        (f'torch.save({STATES}, "best.pt")', False),
        (f'name = args.dir + "/model_best.pt"\ntorch.save({STATES}, name)', False),
        (f"if is_best:\n    torch.save({STATES}, path)", False),
        (f"if loss < lowest:\n    lowest = loss\n    torch.save({STATES}, path)", False),
        (f"if loss < lowest:\n    lowest = min(loss, lowest)\n    torch.save({STATES}, path)", False),
        (f'if is_best:\n    torch.save({STATES}, "best.pt")\ntorch.save({STATES}, "last.pt")', True),
    ],
)
def test_nobody_resumes_from_the_best_model_unless_the_program_shows_it(save: str, found: bool) -> None:
    assert [each.code for each in check(function(save=save)) if each.code == "AMP413"] == ["AMP413"] * found
    assert only(function(after=LOAD, save=save)).severity is Severity.WARNING


@pytest.mark.parametrize(("margin", "found"), [(4, False), (8, True)])
def test_nor_from_what_is_saved_when_training_is_over(margin: int, found: bool) -> None:
    save = textwrap.indent(f"torch.save({STATES}, path)\n", " " * margin)
    text = function(save="").rstrip() + f"\n{save}"
    assert [each.code for each in check(text) if each.code == "AMP413"] == ["AMP413"] * found


def test_a_state_that_stands_in_for_what_the_file_lacks_is_a_resume() -> None:
    load = 'saved = torch.load("last.pt")\noptimizer.load_state_dict(saved.get("optimizer", optimizer.state_dict()))'
    assert only(function(before=load)).severity is Severity.WARNING


def test_a_snapshot_in_memory_is_not_a_resume() -> None:
    text = function(after="best = optimizer.state_dict()\noptimizer.load_state_dict(best)")
    assert only(text).severity is Severity.NOTE


UNUSED = """\
import torch


def train(model, loader, optimizer, scaler, criterion):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        BACKWARD
        STEP


def main(model, loader, criterion, path):
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if path:
        optimizer.load_state_dict(torch.load(path)["optimizer"])
    train(model, loader, optimizer, scaler, criterion)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("backward", "step", "codes"),
    [
        ("loss.backward()", "optimizer.step()", []),
        ("scaler.scale(loss).backward()", "scaler.step(optimizer); scaler.update()", ["AMP413"]),
    ],
)
def test_the_state_of_a_scaler_that_nothing_uses_is_no_loss(backward: str, step: str, codes: list[str]) -> None:
    text = UNUSED.replace("BACKWARD", backward).replace("STEP", step)
    assert [each.code for each in check(text) if each.code == "AMP413"] == codes


UNUSED_TRAINER = (
    TRAINER.replace("INIT", f"        {MADE}").replace("MAKE", "pass").replace("TRAIN", f"        {LOADED}")
)


@pytest.mark.parametrize("uses", [True, False])
def test_a_scaler_may_be_used_by_another_file(tmp_path: Path, uses: bool) -> None:
    text = UNUSED_TRAINER
    for used, plain in (
        ("self.scaler.scale(loss).backward()", "loss.backward()"),
        ("self.scaler.step(self.optimizer)", "self.optimizer.step()"),
        ("self.scaler.update()", "pass"),
    ):
        assert used in text
        text = text.replace(used, plain)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "training.py").write_text(text)
    if uses:
        code = "import training\n\ndef run(trainer, loss):\n    trainer.scaler.scale(loss).backward()\n"
        (tmp_path / "main.py").write_text(code)
    told = [each for each in check(text, filename=str(tmp_path / "training.py")) if each.code == "AMP413"]
    assert len(told) == uses


ENTRY = '"scaler": scaler.state_dict()'


def saved(text: str) -> str:
    return text.replace("M(", "model.state_dict(").replace("O(", "optimizer.state_dict(")


@pytest.mark.parametrize(
    ("save", "entry"),
    [
        ('torch.save({"model": M(), "optimizer": O() if full else None}, path)', f"{ENTRY} if full else None"),
        ('torch.save({"model": M(), "optimizer": None if best else O()}, path)', '"scaler": None if best else scaler.'),
        ('torch.save({"model": M(), "optimizer": args.full and O()}, path)', '"scaler": args.full and scaler.'),
        ('torch.save({"model": M(), "optimizer": {**O()}}, path)', ENTRY),
        ('state = O()\ntorch.save({"model": M(), "optimizer": state}, path)', ENTRY),
        ('one, other = M(), O()\ntorch.save({"model": one, "optimizer": other}, path)', ENTRY),
        (
            'state = {"model": M()}\nstate.update(optimizer=O())\ntorch.save(state, path)',
            ", scaler=scaler.state_dict()",
        ),
        ("torch.save(OrderedDict(model=M(), optimizer=O()), path)", ", scaler=scaler.state_dict()"),
        ('base = {"model": M()}\ntorch.save({**base, "optimizer": O()}, path)', ENTRY),
        (
            'state = {"model": M()}\nif full:\n    state["optimizer"] = O()\ntorch.save(state, path)',
            'state["scaler"] = ',
        ),
    ],
)
def test_a_dict_with_fixed_keys_gets_one_more(save: str, entry: str) -> None:
    fixed = fix(function(after=LOAD, save=saved(save)), unsafe=True)
    assert entry in fixed
    assert fixed.count("scaler.load_state_dict") == 1


@pytest.mark.parametrize(
    ("save", "why"),
    [
        ("torch.save([M(), O()], path)", "the states are saved in a list"),
        ('torch.save({"model": M(), args.key: O()}, path)', "the key of the optimizer's state is not a literal"),
        ('torch.save(M(), "m.pt")\ntorch.save(O(), "o.pt")', "the optimizer's state is saved in a separate file"),
        (
            'torch.save(dict([("model", M()), ("optimizer", O())]), path)',
            "amplint can't follow the optimizer's state into",
        ),
    ],
)
def test_what_is_no_dict_with_fixed_keys_is_called_what_it_is(save: str, why: str) -> None:
    found = only(function(after=LOAD, save=saved(save)))
    assert found.fix is None
    assert str(found.withheld).startswith(why)


def test_a_scaler_that_may_be_missing_is_called_that() -> None:
    text = function(after=LOAD).replace(
        'torch.amp.GradScaler("cuda")', 'torch.amp.GradScaler("cuda") if args.amp else None'
    )
    assert "where the scaler may be missing, as line 8 creates it under a condition" in str(only(text).withheld)


STAGES = """\
import torch


def save(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def first(args, model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(3):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16FIRST):
                loss = model(x).mean()
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        SAVE_FIRST


def second(args, model, loader):
    opt_b = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    if args.resume:
        state = torch.load(args.resume)
        model.load_state_dict(state["model"])
        opt_b.load_state_dict(state["KEY"])
    for epoch in range(3):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            opt_b.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt_b)
            scaler.update()
        SAVE_SECOND
"""
DICT = 'torch.save({"model": model.state_dict(), "KEY": OPT.state_dict()}, args.out)'


def stages(first: str, second: str, key: str, *, off: bool = False) -> list[tuple[int, Severity]]:
    text = STAGES.replace("SAVE_FIRST", first).replace("SAVE_SECOND", second).replace("KEY", key)
    text = text.replace("FIRST", ", enabled=False" if off else "")
    found = [each for each in check(text) if each.code == "AMP413"]
    return [(text.count("\n", 0, each.start) + 1, each.severity) for each in found]


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("opt_b", Severity.NOTE),  # no such key in what the first stage saves
        ("opt", Severity.WARNING),  # the second may go on from the first
    ],
)
def test_a_stage_that_nothing_resumes_is_a_note_beside_one_that_is_resumed(key: str, first: Severity) -> None:
    one, other = (DICT.replace("KEY", each).replace("OPT", name) for each, name in (("opt", "opt"), (key, "opt_b")))
    assert [severity for _, severity in stages(one, other, key)] == [first, Severity.WARNING]


@pytest.mark.parametrize("off", [False, True])
def test_one_function_that_saves_for_two_scalers_is_marked_once(off: bool) -> None:
    found = stages("save(model, opt, args.out)", "save(model, opt_b, args.out)", "optimizer", off=off)
    assert found == [(5, Severity.WARNING)]


@pytest.mark.parametrize("off", [False, True])
def test_a_scaler_of_losses_from_a_region_that_is_off_keeps_its_scale(off: bool) -> None:
    found = stages(DICT.replace("KEY", "opt").replace("OPT", "opt"), "pass", "opt", off=off)
    assert len(found) == (not off)


PAIR = """\
import torch
from saving import load, save


def train(loader, gen, disc, opt_g, opt_d, scaler_g, scaler_d):
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss_d = disc(gen(x).detach()).mean()
        opt_d.zero_grad()
        scaler_d.scale(loss_d).backward()
        scaler_d.step(opt_d)
        scaler_d.update()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_g = disc(gen(x)).mean()
        opt_g.zero_grad()
        scaler_g.scale(loss_g).backward()
        scaler_g.step(opt_g)
        scaler_g.update()


def main(loader, gen, disc):
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
    load("gen.pt", gen, opt_g)
    load("disc.pt", disc, opt_d)
    scaler_g = torch.amp.GradScaler("cuda")
    scaler_d = torch.amp.GradScaler("cuda")
    for epoch in range(3):
        train(loader, gen, disc, opt_g, opt_d, scaler_g, scaler_d)
        save("gen.pt", gen, opt_g)
        save("disc.pt", disc, opt_d)
"""
SAVING = """\
import torch


def save(path, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load(path, model, optimizer):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
"""


def marked(text: str, filename: Path) -> list[str]:
    filename.write_text(text)
    found = [each for each in check(text, filename=str(filename)) if each.code == "AMP413"]
    return [text[each.start : each.end] for each in found]


def test_of_two_scalers_each_is_missing_beside_the_optimizer_that_it_steps(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "saving.py").write_text(SAVING)
    assert marked(PAIR, tmp_path / "main.py") == ['save("gen.pt", gen, opt_g)', 'save("disc.pt", disc, opt_d)']


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("def build():\n    return torch.nn.Linear(2, 2)\n", False),
        (
            'def build():\n    print("by half,\\n as a net\'s")  # half\n    return torch.nn.Linear(2, 2)\n',
            False,
        ),
        ('def build():\n    return torch.nn.Linear(2, 2).to(getattr(torch, "float16"))\n', True),
        ("def build():\n    return torch.nn.Linear(2, 2).half()\n", True),
        ('def run(model, x):\n    with torch.autocast("cuda"):\n        return model(x)\n', True),
        ("", True),  # not in sight
    ],
)
def test_in_float32_alone_no_step_is_skipped(tmp_path: Path, other: str, found: bool) -> None:
    (tmp_path / "pyproject.toml").touch()
    if other:
        (tmp_path / "other.py").write_text(f"import torch\n\n{other}")
    text = function(after=LOAD).replace(
        '        with torch.autocast("cuda", dtype=torch.float16):\n', "        if True:\n"
    )
    assert "autocast" not in text
    text = f"import other\n{text}"
    name = tmp_path / "main.py"
    if other:
        assert len(marked(text, name)) == found
    else:
        assert len([each for each in check(text, filename=str(name)) if each.code == "AMP413"]) == found


OPTIMIZER_ALONE = """\
import torch

class Steps:
    def __init__(self, params, amp, folder):
        self.optimizer = torch.optim.AdamW(params)
        {load}
        self.scaler = torch.amp.GradScaler("cuda", enabled=amp)

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def save(self, folder):
        self._write(self.optimizer, folder / "optimizer.pt")

    def _write(self, optimizer, path):
        torch.save(optimizer.state_dict(), path)
"""


@pytest.mark.parametrize(
    ("load", "wanted"),
    [('self.optimizer.load_state_dict(torch.load(folder / "optimizer.pt"))', ["AMP413"]), ("pass", [])],
)
def test_an_optimizers_state_in_a_file_of_its_own_is_a_checkpoint_where_it_is_loaded(
    load: str, wanted: list[str]
) -> None:
    codes = [finding.code for finding in check(OPTIMIZER_ALONE.format(load=load), "steps.py")]
    assert [code for code in codes if code == "AMP413"] == wanted


TWO_REGIONS = """\
import torch

def main(model, loader, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    if path:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.{train}):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
        model(x)
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
"""


@pytest.mark.parametrize(("train", "wanted"), [("float16", True), ("bfloat16", False)])
def test_only_a_scaler_of_float16_losses_has_a_state_worth_saving(train: str, wanted: bool) -> None:
    codes = {finding.code for finding in check(TWO_REGIONS.format(train=train), "train.py")}
    assert ("AMP413" in codes) is wanted


UNPACKED = """\
import torch

def epoch(model, loader, optimizer, scaler, number):
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if path:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    scaler = torch.amp.GradScaler("cuda")
    for number in range(3):
        parts = {parts}
        epoch({given})
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
"""
PARTS = "(model, loader, optimizer, scaler)"


@pytest.mark.parametrize(
    ("parts", "given", "wanted"),
    [
        ("()", "model, loader, optimizer, scaler, number", True),
        (PARTS, "*parts, number", True),
        ("()", f"*{PARTS}, number=number", True),
        ('{"optimizer": optimizer, "scaler": scaler}', "model, loader, number=number, **parts", True),
        (f"list({PARTS})", "*parts, number", False),
        (f"{PARTS}; keep(parts)", "*parts, number", False),
    ],
)
def test_arguments_that_a_call_unpacks(parts: str, given: str, wanted: bool) -> None:
    codes = {finding.code for finding in check(UNPACKED.format(parts=parts, given=given), "train.py")}
    assert ("AMP413" in codes) is wanted


@pytest.mark.parametrize(
    ("enabled", "under"),
    [
        ("args.dtype == torch.float16", "if `args.dtype == torch.float16`, "),
        ('args.dtype == "fp16"', 'if `args.dtype == "fp16"`, '),
        ('args.device == "cuda"', ""),
        ("args.amp", "if `args.amp` is true, "),
    ],
)
def test_a_scaler_that_is_on_in_one_dtype_only_has_a_state_only_there(enabled: str, under: str) -> None:
    text = function(after=LOAD).replace('GradScaler("cuda")', f'GradScaler("cuda", enabled={enabled})')
    assert enabled in text
    found = only(text)
    assert f": {under}a run resumed on line " in found.message
    assert (found.confidence is Confidence.LIKELY) is bool(under)


SETTING = """\
import torch


def main(model, loader, criterion, args):
    args.scaler = torch.amp.GradScaler("cuda") if args.amp else None
    print(vars(args))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.resume:
        checkpoint = torch.load(args.resume)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(args.epochs):
        train(model, loader, criterion, optimizer, args)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


def train(model, loader, criterion, optimizer, args):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler = args.scaler
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


def test_a_scaler_that_is_kept_with_the_settings(tmp_path: Path) -> None:
    assert [each.code for each in check(SETTING)] == ["AMP413"]
    saved = SETTING.replace('"optimizer": ', '"scaler": args.scaler.state_dict(), "optimizer": ')
    loaded = saved.replace("    for epoch", '        args.scaler.load_state_dict(checkpoint["scaler"])\n    for epoch')
    assert not [each for each in check(loaded) if each.code == "AMP413"]
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "main.py").write_text(SETTING)
    assert [each.code for each in check(SETTING, str(tmp_path / "main.py"))] == ["AMP413"]
    (tmp_path / "save.py").write_text("from main import main\n\ndef save(args):\n    return args.scaler.state_dict()\n")
    assert not check(SETTING, str(tmp_path / "main.py"))


def test_the_rate_that_is_read_out_of_a_state_is_no_state() -> None:
    log = '{"lr": optimizer.state_dict()["param_groups"][0]["lr"], "model": model.state_dict()}'
    assert not check(function(save=f'torch.save({log}, "last.pt")'))


def test_regions_that_are_commented_out(tmp_path: Path) -> None:
    """Nothing computes in float16: no step is skipped after a resume."""
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "main.py"
    text = "from torch.amp import autocast\n" + SETTING.replace(
        "with torch.autocast", "if True:  # with torch.autocast"
    )
    path.write_text(text)
    assert not check(text, str(path))
    path.write_text(SETTING)
    assert [each.code for each in check(SETTING, str(path))] == ["AMP413"]


def test_a_checkpoint_without_what_the_load_reads_first() -> None:
    """Nothing resumes from it: the load raises."""
    first = SETTING.replace(
        "        optimizer.load_state_dict",
        '        teacher.load_state_dict(checkpoint["teacher"])\n        optimizer.load_state_dict',
    )
    (finding,) = (each for each in check(first) if each.code == "AMP413")
    assert finding.confidence is Confidence.SUSPICION
    (finding,) = (each for each in check(first.replace('{"model"', '{"teacher": 1, "model"')) if each.code == "AMP413")
    assert finding.confidence is not Confidence.SUSPICION


def test_another_file_that_has_commented_out_its_load(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    text = SETTING.replace("        optimizer.load_state_dict", "        print").replace("def main", "def run")
    (tmp_path / "main.py").write_text(text)
    resume = "import torch\nfrom main import run\n\noptimizer = make()\n"
    resume += "{}optimizer.load_state_dict(torch.load('x.pt'))\nrun()\n"
    for margin, confidence in (("", Confidence.CERTAIN), ("# ", Confidence.SUSPICION)):
        (tmp_path / "start.py").write_text(resume.format(margin))
        (finding,) = (each for each in check(text, str(tmp_path / "main.py")) if each.code == "AMP413")
        assert finding.confidence is confidence


def test_a_variable_that_several_loops_go_through_the_optimizers_with() -> None:
    text = """\
import torch


def main(config, model, loader):
    optimizers = model.configure_optimizers(config.lr)
    checkpoint = torch.load("ckpt.pt") if config.resume else {}
    if config.resume:
        model.load_state_dict(checkpoint["model"])
        optimizers[0].load_state_dict(checkpoint["optimizer"])
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        for opt in optimizers:
            opt.param_groups[0]["lr"] = config.lr
        with torch.autocast("cuda"):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        for opt in optimizers:
            scaler.step(opt)
        scaler.update()
        for opt in optimizers:
            opt.zero_grad()
        torch.save({"model": model.state_dict(), "optimizer": optimizers[0].state_dict()}, "ckpt.pt")
"""
    assert [each.code for each in amplint.check(text, "train.py")] == ["AMP413"]


KEPT_BY_KEYWORD = """\
import torch


def keep(epoch, path, **states):
    torch.save({"epoch": epoch, **states}, path)


model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda")
checkpoint = torch.load("last.pt")
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict()), "last.pt")
SAVED
"""


def test_of_several_checkpoints_the_one_of_the_loop_is_marked() -> None:
    last = 'torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict()), "final.pt")'
    (found,) = [each for each in check(KEPT_BY_KEYWORD.replace("SAVED", last)) if each.code == "AMP413"]
    assert (found.location.row, "(the same on line 23)" in found.message) == (22, True)
