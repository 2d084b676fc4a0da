"""Details of AMP107, AMP201, AMP202, AMP204 and AMP211: evidence, severity, target versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import Applicability, Confidence, Severity, check, fix, make_settings
from amplint.config.settings import Settings
from amplint.registry import all_rules

HEAD = "import torch\n"
CHOSEN = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nmodel.to(device)\n'


def at(target: str) -> Settings:
    return Settings(frozenset(all_rules()), target_torch=target, isolated=True)


def codes(text: str, settings: Settings | None = None) -> list[str]:
    """What is found, but for AMP305: nobody enters the regions of these snippets."""
    return [each.code for each in check(HEAD + text, settings=settings) if each.code != "AMP305"]


@pytest.mark.parametrize(
    ("region", "severity", "confidence"),
    [
        ("torch.autocast(device.type, dtype=torch.float16)", Severity.ERROR, Confidence.CERTAIN),
        ("torch.autocast('xpu')", Severity.ERROR, Confidence.CERTAIN),
        ("torch.autocast(device.type, dtype=args.dtype)", Severity.WARNING, Confidence.SUSPICION),
        ("torch.autocast(device.type)", Severity.WARNING, Confidence.SUSPICION),
        ("torch.autocast(device.type, dtype=torch.bfloat16)", Severity.WARNING, Confidence.SUSPICION),
        ("torch.autocast('cpu')", Severity.WARNING, Confidence.CERTAIN),
    ],
)
def test_201_is_an_error_where_float16_meets_another_device(
    region: str, severity: Severity, confidence: Confidence
) -> None:
    text = f"{HEAD}{CHOSEN}scaler = torch.amp.GradScaler()\nwith {region}:\n    pass\n"
    (found,) = check(text, settings=make_settings(suspicions=True))
    assert (found.code, found.severity, found.confidence) == ("AMP201", severity, confidence)


def test_201_safe_device() -> None:
    text = f'{HEAD}with torch.autocast("cpu"):\n    pass\nscaler = torch.amp.GradScaler(enabled=x)\n'
    assert 'GradScaler("cpu", enabled=x)' in fix(text)


@pytest.mark.parametrize(
    "code",
    [
        "model.cuda()\n",
        'model.to("cuda")\nwith torch.autocast("cuda"):\n    loss.to("cpu")\n',
        f"{CHOSEN}with torch.autocast('cuda', dtype=torch.float16):\n    pass\n",
        "with torch.cuda.amp.autocast():  # noqa: AMP101\n    pass\n",
        f"{CHOSEN}with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == 'cuda'):\n    pass\n",
        f"{CHOSEN}on = torch.cuda.is_available()\nwith torch.autocast(device.type, torch.float16, on):\n    pass\n",
        f"{CHOSEN}if args.amp and device.type == 'cuda':\n    with torch.autocast(device.type):\n        pass\n",
    ],
)
def test_201_is_silent_where_all_that_can_be_in_float16_is_on_cuda(code: str) -> None:
    assert not codes(f"{code}scaler = torch.amp.GradScaler(enabled=x)\n")


@pytest.mark.parametrize(
    ("region", "severity"),
    [
        ("device.type, dtype=torch.float16, enabled=args.amp", Severity.ERROR),
        ("device.type, dtype=torch.float16, enabled=device.type != 'cpu'", Severity.ERROR),
        ("device.type, dtype=torch.float16 if device.type == 'cuda' else torch.bfloat16", Severity.WARNING),
    ],
)
def test_201_asks_the_region_when_it_is_on_and_in_what(region: str, severity: Severity) -> None:
    text = f"{HEAD}device = torch.device(args.device)\nscaler = torch.amp.GradScaler()\n"
    (found,) = check(f"{text}with torch.autocast({region}):\n    pass\n", settings=make_settings(suspicions=True))
    assert (found.code, found.severity) == ("AMP201", severity)


@pytest.mark.parametrize(
    ("code", "device"),
    [
        (CHOSEN, "device.type"),
        ('device = "cuda" if flag else "cpu"\nmodel.to(device)\n', "device"),
        ('if gpu:\n    model.cuda()\nwith torch.autocast("cpu"):\n    pass\n', '"cpu"'),
    ],
)
def test_201_unsafe_device(code: str, device: str) -> None:
    text = f"{HEAD}{code}scaler = torch.amp.GradScaler()\n"
    assert fix(text) == text
    assert f"GradScaler({device})" in fix(text, unsafe=True)


@pytest.mark.parametrize(
    ("region", "device"),
    [
        ("device.type", '"cuda"'),
        ("device.type, enabled=args.amp", '"cuda"'),
        ("device.type, dtype=torch.bfloat16", '"cuda"'),
        ("device.type, dtype=torch.float16 if device.type == 'cuda' else torch.bfloat16", '"cuda"'),
        ("device.type, dtype=torch.float16", "device.type"),
        ("device.type, dtype=args.dtype", "device.type"),
    ],
)
def test_201_switches_no_scaler_on_where_the_cpu_runs_in_bfloat16(region: str, device: str) -> None:
    text = f"{HEAD}{CHOSEN}scaler = torch.amp.GradScaler()\nwith torch.autocast({region}):\n    pass\n"
    (found,) = check(text, settings=Settings(frozenset({"AMP201"}), isolated=True, suspicions=True))
    assert found.fix is not None
    assert [edit.content for edit in found.fix.edits] == [device]


@pytest.mark.parametrize("region", ["device.type", "enabled=on", ""])
@pytest.mark.parametrize(("other", "wanted"), [("cpu", False), ("mps", True)])
def test_201_a_scaler_that_is_off_beside_bfloat16_is_right(region: str, other: str, wanted: bool) -> None:
    text = (
        f"{HEAD}device = torch.device('cuda' if torch.cuda.is_available() else '{other}')\n"
        "optimizer = torch.optim.SGD(model.to(device).parameters(), lr=0.1)\n"
        "scaler = torch.amp.GradScaler(enabled=on)\n"
        f"for x in loader:\n    with torch.autocast({region}):\n        loss = model(x)\n"
        "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n"
    )
    assert ("AMP201" in codes(text)) is wanted


@pytest.mark.parametrize(
    ("made", "region", "device"),
    [
        ("d = 'cuda:0' if torch.cuda.is_available() else 'cpu'", "d", "torch.device(d).type"),
        ("d = torch.device('cuda:1' if torch.cuda.is_available() else 'cpu')", "d.type", "d.type"),
        ("d = f'xpu:{rank}'", "d", '"xpu"'),
        ("d = 'xpu:0'", "d", '"xpu"'),
        ("args.d = 'xpu:' + str(rank)", "args.d", None),
    ],
)
def test_201_writes_no_index(made: str, region: str, device: str | None) -> None:
    text = f"{HEAD}{made}\nscaler = torch.amp.GradScaler()\nwith torch.autocast({region}, torch.half):\n    pass\n"
    fixed = fix(text, settings=Settings(frozenset({"AMP201"}), isolated=True), unsafe=True)
    assert fixed == (text if device is None else text.replace("GradScaler()", f"GradScaler({device})"))


IN_A_CLASS = """
class Trainer:
    def __init__(self, model, device):
        {first}
        self.scaler = torch.amp.GradScaler()
        {then}
    def step(self, x):
        with torch.autocast({region}, dtype=torch.float16):
            self.model(x)
"""
STORED = "self.device = torch.device(device)"


@pytest.mark.parametrize(
    ("code", "device"),
    [
        # What the region takes is taken as it is written, where every way to the scaler has bound it.
        (
            "def train(device_type):\n    SCALER\n    with torch.autocast(device_type, torch.half):\n        pass\n",
            "device_type",
        ),
        ("device_type = elsewhere()\nSCALER\nwith torch.autocast(device_type, torch.half):\n    pass\n", "device_type"),
        ("import args\nSCALER\nwith torch.autocast(args.device, torch.half):\n    pass\n", "args.device"),
        ("if x:\n    d = 'cuda'\nelse:\n    d = 'cpu'\nSCALER\nwith torch.autocast(d, torch.half):\n    pass\n", "d"),
        (
            "try:\n    d = pick()\nexcept E:\n    d = 'cpu'\nSCALER\nwith torch.autocast(d, torch.half):\n    pass\n",
            "d",
        ),
        (
            "d = torch.device(y)\nSCALER\nwith torch.autocast(str(d), torch.half):\n    pass\n",
            "d.type",
        ),
        (
            "SCALER\nwith torch.autocast('cuda' if torch.cuda.is_available() else 'cpu', torch.half):\n    pass\n",
            "'cuda' if torch.cuda.is_available() else 'cpu'",
        ),
        (f"{CHOSEN}SCALER\nwith torch.autocast('cuda' if x else 'cpu', torch.half):\n    pass\n", "device.type"),
        (IN_A_CLASS.format(first=STORED, then="", region="self.device.type"), "self.device.type"),
        (IN_A_CLASS.format(first="self.kind = device", then="", region="self.kind"), "self.kind"),
        # Not there yet, or not surely.
        ("SCALER\nd = pick()\nwith torch.autocast(d, torch.half):\n    pass\n", None),
        ("if x:\n    d = pick()\nSCALER\nwith torch.autocast(d, torch.half):\n    pass\n", None),
        ("SCALER\nfor x in y:\n    with torch.autocast(x.device.type, torch.half):\n        pass\n", None),
        (IN_A_CLASS.format(first="", then=STORED, region="self.device.type"), None),
        (IN_A_CLASS.format(first=f"if device:\n            {STORED}", then="", region="self.device.type"), None),
        ("args.device = pick()\ndef f():\n    SCALER\nwith torch.autocast(args.device, torch.half):\n    pass\n", None),
        ("SCALER\nwith torch.autocast(pick(), torch.half):\n    pass\n", None),
    ],
)
def test_201_writes_what_the_region_takes(code: str, device: str | None) -> None:
    text = HEAD + code.replace("SCALER", "scaler = torch.amp.GradScaler()")
    fixed = fix(text, settings=Settings(frozenset({"AMP201"}), isolated=True), unsafe=True)
    assert fixed == (text if device is None else text.replace("GradScaler()", f"GradScaler({device})"))


@pytest.mark.parametrize(
    ("region", "use", "safe"),
    [
        ("cpu", "scaler.load_state_dict(state)", False),
        ("cpu", "scaler.step(optimizer, closure)", False),
        ("cpu", "scaler.step(optimizer, closure=closure)", False),
        ("cpu", "scaler.step(optimizer)", True),
        ("xpu", "scaler.step(optimizer)", False),
    ],
)
def test_201_a_scaler_that_was_off_may_mind_being_on(region: str, use: str, safe: bool) -> None:
    text = f"{HEAD}scaler = torch.amp.GradScaler()\nwith torch.autocast('{region}'):\n    pass\n{use}\n"
    found = next(each for each in check(text) if each.code == "AMP201")
    assert found.fix is not None
    assert (found.fix.applicability is Applicability.SAFE) is safe


def test_201_mps_needs_a_release_whose_scaler_does_without_float64() -> None:
    text = f"{HEAD}scaler = torch.amp.GradScaler()\nwith torch.autocast('mps'):\n    pass\n"
    assert 'GradScaler("mps")' in fix(text, settings=at("2.8"))
    assert fix(text, settings=at("2.7")) == text


@pytest.mark.parametrize(
    "code",
    [
        "torch.amp.GradScaler(enabled=torch.cuda.is_available())",
        "torch.amp.GradScaler(enabled=on and device.type == 'cuda')",
        "torch.amp.GradScaler(enabled=device.type != 'cpu')",
        "torch.amp.GradScaler(enabled=False)",
        "torch.amp.GradScaler(**options)",
        "x = torch.amp.GradScaler() if device.type == 'cuda' else None",
    ],
)
def test_201_silent(code: str) -> None:
    assert not codes(f"{CHOSEN}{code}\n")


def test_202_needs_no_evidence_to_be_found() -> None:
    (found,) = check(f"{HEAD}with torch.autocast(enabled=x):\n    pass\n")
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE


def test_202_orders_old_arguments_by_the_first() -> None:
    text = f"{HEAD}model.cuda()\na = torch.autocast(False, x)\nb = torch.autocast(torch.float16, False)\n"
    assert fix(text).splitlines()[2:] == [
        'a = torch.autocast("cuda", enabled=False, dtype=x)',
        'b = torch.autocast("cuda", dtype=torch.float16, enabled=False)',
    ]


def test_204_an_index_is_an_error_where_torch_2_3_is_admitted() -> None:
    text = f'{HEAD}with torch.autocast("cuda:0", dtype=torch.float32):\n    pass\n'
    severities = {target: check(text, settings=at(target))[0].severity for target in ("2.3", "2.4")}
    assert severities == {"2.3": Severity.ERROR, "2.4": Severity.WARNING}


@pytest.mark.parametrize(
    ("dtype", "safe"),
    [
        ("", True),
        (", torch.bfloat16", True),
        (", dtype=x", True),
        (", dtype=torch.float32", False),
        (", torch.float64", False),
        (", {'half': torch.float16, 'full': torch.float32}[x]", False),
        (", torch.float32 if x else torch.float16", False),
        (", DTYPE", False),
        (", {'half': torch.float16, 'bf16': torch.bfloat16}[x]", True),
    ],
)
def test_204_dropping_the_index_is_safe_but_for_other_dtypes(dtype: str, safe: bool) -> None:
    (found,) = check(f'{HEAD}DTYPE = torch.double\nwith torch.autocast("cuda:0"{dtype}):\n    pass\n')
    assert found.fix is not None
    assert (found.fix.applicability is Applicability.SAFE) is safe


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('d = "cuda:0"\nd = d.split(":")[0]\ntorch.autocast(d)', []),
        ('d = "cuda:0"\nif x:\n    d = "cuda"\ntorch.autocast(d)', ["AMP204"]),
        ('d = "cuda"\ntorch.autocast(d)\nd = "cuda:0"', []),
        ('d = "cuda"\nfor i in x:\n    torch.autocast(d)\n    d = "cuda:0"', ["AMP204"]),
        ('d = "cuda:0"\nd = torch.device(d)\ntorch.autocast(d.type)', []),
        ('d = "cuda:0"\nd = torch.device(d)\ntorch.autocast(d)', ["AMP204"]),
        ('d = "cuda:0"\nd = d[:4]\ndef f():\n    torch.autocast(d)', []),
        ('d = "cuda"\ndef f():\n    torch.autocast(d)\nd = "cuda:0"', ["AMP204"]),
        ('def f(d="cuda:0"):\n    d = d[:4]\n    torch.autocast(d)', []),
        ('def f(d="cuda:0"):\n    torch.autocast(d)', ["AMP204"]),
        ("def f(d: torch.device):\n    torch.autocast(d)", ["AMP204"]),
        ('def f(d: torch.device = "cuda"):\n    torch.autocast(d)', []),
        ("torch.autocast(x.device if hasattr(x, 'device') else x)", []),
        ("torch.autocast(str(x.device))", ["AMP204"]),
        ("torch.autocast(str(args.device))", []),
    ],
)
def test_204_follows_the_order_of_assignments(body: str, expected: list[str]) -> None:
    assert codes(body + "\n") == expected


def test_211_is_silent_where_the_second_parameter_was_enabled() -> None:
    text = 'torch.autocast("cuda", True)\n'
    assert codes(text, at("1.10")) == []
    assert codes(text, at("1.11")) == ["AMP211"]


@pytest.mark.parametrize("second", ["True", "x > 1", "not x", "bool(x)", "a and b"])
def test_211_bools(second: str) -> None:
    text = f'{HEAD}def f(x, a: bool, b=False):\n    return torch.autocast("cuda", {second})\n'
    assert fix(text) == text.replace(second + ")\n", f"enabled={second})\n")


@pytest.mark.parametrize("second", ["x", "None", "torch.float16", "c", "dtype or None"])
def test_211_silent(second: str) -> None:
    assert not codes(f'def f(x, dtype, c=None):\n    return torch.autocast("cuda", {second})\n')


@pytest.mark.parametrize(
    ("code", "fixed"),
    [
        ("torch.cuda.GradScaler()", 'torch.amp.GradScaler("cuda")'),
        ("torch.cuda.autocast(True)", 'torch.amp.autocast("cuda", enabled=True)'),
        ("torch.cuda.autocast('cuda')", "torch.amp.autocast('cuda')"),
        ("torch.amp.GradScaler(device_type='cpu')", "torch.amp.GradScaler(device='cpu')"),
        ("torch.autocast(device='cpu')", "torch.autocast(device_type='cpu')"),
        ("torch.autocast('cpu', enable=x)", "torch.autocast('cpu', enabled=x)"),
        ("torch.custom_fwd(f, device_type='cpu')", "torch.amp.custom_fwd(f, device_type='cpu')"),
        ("torch.custom_fwd(f)", None),
        ("torch.custom_bwd", None),
        ("torch.autocast('cpu', precision=16)", None),
        ("torch.amp.GradScaler('cpu', device_type='cpu')", None),
    ],
)
def test_107_names_and_arguments(code: str, fixed: str | None) -> None:
    assert codes(f"region = {code}\n") == ["AMP107"]
    assert fix(f"{HEAD}region = {code}\n") == f"{HEAD}region = {fixed or code}\n"


def test_107_imports_what_a_call_in_the_new_form_needs() -> None:
    text = '"""Doc."""\nimport os\nimport torch  # it\n\nwith autocast("cuda"):\n    pass\n'
    assert fix(text) == text.replace("# it\n", "# it\nfrom torch.amp import autocast\n")


@pytest.mark.parametrize(
    "code",
    [
        "from x import *\nautocast('cuda')",
        "exec(x)\nautocast('cuda')",
        "try:\n    autocast('cuda')\nexcept NameError:\n    pass",
        "try:\n    from torch.cuda import autocast\nexcept ImportError:\n    from torch.amp import autocast",
        "def f(autocast):\n    autocast('cuda')",
        "print(torch.xpu.autocast)",
    ],
)
def test_107_silent(code: str) -> None:
    assert not codes(code + "\n")


def test_105_reports_uses_or_else_the_import() -> None:
    assert [
        check(text)[0].start for text in ("from apex import amp\n", "from apex import amp\namp.initialize(m)\n")
    ] == [
        17,
        21,
    ]
    assert not check("from apex.optimizers import FusedAdam\nfrom x import amp\namp.initialize(m)\n")


def test_a_fallback_to_none_hides_nothing() -> None:
    code = """
try:
    from torch.amp import GradScaler, autocast
except ImportError:
    GradScaler = autocast = None

scaler = GradScaler()
with autocast(enabled=True):
    pass
"""
    found = check(code, settings=make_settings(suspicions=True))
    assert [each.code for each in found] == ["AMP201", "AMP202"]


def test_backward_in_a_region_of_either_class() -> None:
    code = """
try:
    from torch.amp import autocast
except ImportError:
    from torch.cuda.amp import autocast


def step(model, batch):
    with autocast():
        loss = model(batch)
        loss.backward()
"""
    assert [each.code for each in check(code)] == ["AMP202", "AMP301"]


@pytest.mark.parametrize("new", ["torch.amp.GradScaler()", 'torch.amp.GradScaler("cuda")'])
@pytest.mark.parametrize(
    "region",
    [
        "torch.autocast(device.type, dtype=torch.float16)",
        "torch.autocast('cpu', dtype=torch.float16)",
        "torch.autocast('xpu')",
        "torch.autocast('mps')",
    ],
)
def test_what_is_known_of_a_new_scaler_is_known_of_an_old_one(region: str, new: str) -> None:
    made = CHOSEN if "device" in region else ""
    text = f"{HEAD}{made}scaler = NEW\nwith {region}:\n    pass\n"

    def about_device(text: str) -> list[str]:
        return [each.code for each in check(text) if each.code in ("AMP201", "AMP203")]

    assert len(about_device(text.replace("NEW", new))) == 1
    old = text.replace("NEW", "torch.cuda.amp.GradScaler()")
    assert about_device(old) == ["AMP203"]
    assert about_device(fix(old)) == ["AMP203"]  # the fix of AMP102 hides nothing


@pytest.mark.parametrize(
    "code",
    [
        "scaler = torch.cuda.amp.GradScaler()\nwith torch.autocast(device.type):\n    pass\n",
        "scaler = torch.cuda.amp.GradScaler(enabled=device.type == 'cuda')\n"
        "with torch.autocast(device.type, dtype=torch.float16):\n    pass\n",
        "scaler = torch.cuda.amp.GradScaler()\ndtype = torch.float16 if device.type == 'cuda' else torch.bfloat16\n"
        "with torch.autocast(device.type, dtype=dtype):\n    pass\n",
        "scaler = torch.cpu.amp.GradScaler()\nwith torch.autocast(device.type, dtype=torch.float16):\n    pass\n",
        "scaler = torch.cuda.amp.GradScaler()\n"
        "with torch.autocast(device.type, torch.float16, device.type == 'cuda'):\n    pass\n",
        "scaler = torch.cuda.amp.GradScaler()\nwith torch.autocast('cuda'):\n    pass\n"
        "with torch.autocast('cpu', dtype=torch.float16):\n    pass\n",
    ],
)
def test_203_an_old_scaler_silent(code: str) -> None:
    assert "AMP203" not in codes(CHOSEN + code)


TWO = """
def train(model, loader, opt):
    {put}
    scaler = torch.cuda.amp.GradScaler()
    for x in loader:
        with torch.autocast({device}, dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


def train_other(model, loader, opt):
    {other_put}
    scaler = torch.cuda.amp.GradScaler()
    for x in loader:
        with torch.autocast({other}, dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("put", "device", "other_put", "other", "said"),
    [
        ("model.cuda()", '"cuda"', "pass", '"cuda"', []),
        ("model.cuda()", '"cuda"', "model.cpu()", '"cpu"', ["the region on line 18 is for cpu"]),
        ("model.cuda()", '"cuda"', "model.xpu()", '"xpu"', ["the region on line 18 is for xpu"]),
        ("model.cuda()", '"cuda"', "model.cuda()", '"xpu"', []),  # the region's device is wrong
        (
            "model.cpu()",
            '"cpu"',
            "model.xpu()",
            '"xpu"',
            ["the region on line 7 is for cpu", "the region on line 18 is for xpu"],
        ),
        (
            "pass",
            '"cuda" if torch.cuda.is_available() else "cpu"',
            "pass",
            '"xpu" if torch.xpu.is_available() else "cpu"',
            ["the region on line 7 can be for cpu", "the region on line 18 can be for cpu or xpu"],
        ),
    ],
)
def test_203_of_a_scaler_count_the_regions_of_its_losses(
    put: str, device: str, other_put: str, other: str, said: list[str]
) -> None:
    text = HEAD + TWO.format(put=put, device=device, other_put=other_put, other=other)
    found = check(text, settings=Settings(frozenset({"AMP203"}), isolated=True))
    messages = [each.message for each in found if "this scaler is for cuda" in each.message]
    assert len(messages) == len(said)
    assert all(part in message for part, message in zip(said, messages, strict=True))


@pytest.mark.parametrize(
    ("test", "findings"),
    [
        ('torch.device(d).type == "cuda"', []),
        ('str(d).startswith("cuda")', []),
        ("torch.cuda.is_available()", []),
        ('torch.device(d).type != "mps"', ["AMP201"]),
        ("d is not None", ["AMP201"]),
    ],
)
def test_201_asks_a_function_whether_the_region_is_on(test: str, findings: list[str]) -> None:
    text = f"""\
import torch
def is_on(d):
    return {test}
def train(model, opt, loader, device):
    scaler = torch.amp.GradScaler()
    for x in loader:
        with torch.autocast(torch.device(device).type, dtype=torch.float16, enabled=is_on(device)):
            loss = model(x.to(device)).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""
    assert [each.code for each in check(text, settings=Settings(frozenset({"AMP201"}), isolated=True))] == findings


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ('GradScaler("cuda") if args.amp else None', "on line 3 is None: line 7 raises AttributeError"),
        ('GradScaler("cuda", enabled=args.amp)', "on line 3 is disabled: small gradients become 0"),
    ],
)
def test_210_says_what_a_missing_scaler_does(made: str, said: str) -> None:
    text = f"""\
import torch
def train(model, opt, loader, args):
    scaler = torch.amp.{made}
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""
    (found,) = check(text, settings=Settings(frozenset({"AMP210"}), isolated=True))
    assert said in found.message


KEPT = """
import torch
{top}
class Runner:
    {field}
    def __init__(self, model, device):
        {stored}
        self.model = model.to({device})
    def fit(self, loader):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                self.model(x.to({device})).mean().backward()
"""


@pytest.mark.parametrize(
    ("top", "field", "stored", "device", "findings"),
    [
        ("", 'device = "xpu"', "pass", "self.device", 1),
        ("", 'device = "cuda"', "pass", "self.device", 0),
        ("", 'device: str = "xpu"', "pass", "self.device", 0),  # may be one field of several of a dataclass
        ("", 'device = "xpu"', "self.device = device", "self.device", 0),
        ('CFG = {"device": "xpu"}', "", "pass", 'CFG["device"]', 1),
        ('CFG = dict(device="xpu:0", lr=0.1)', "", "pass", 'CFG["device"]', 1),
        ('CFG = {"device": "xpu"}\nCFG["device"] = choose()', "", "pass", 'CFG["device"]', 0),
        ('CFG = {"device": "xpu"}\nCFG.update(load())', "", "pass", 'CFG["device"]', 0),
        ('CFG = {"device": "xpu", **load()}', "", "pass", 'CFG["device"]', 0),
        ('CFG = {"device": "xpu"} if TEST else load()', "", "pass", 'CFG["device"]', 0),
        ('CFG = {"device": "xpu"}\nif TEST:\n    CFG = load()', "", "pass", 'CFG["device"]', 0),
    ],
)
def test_203_devices_that_a_class_or_a_dict_keeps(
    top: str, field: str, stored: str, device: str, findings: int
) -> None:
    text = KEPT.format(top=top, field=field or "pass", stored=stored, device=device)
    assert len(check(text, settings=Settings(frozenset({"AMP203"}), isolated=True))) == findings


_BY_DEVICE = """
class Steps:
    def step(self, inputs):
        self.scaler = torch.amp.GradScaler(enabled=self.use_amp)
        if self.device.type == "cuda":
            kind = "cuda"
            dtype = torch.float16
        else:
            kind = "cpu"
            dtype = ELSE
        with torch.autocast(REGION):
            loss = self.net(inputs).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


@pytest.mark.parametrize(
    ("other", "region", "findings"),
    [
        ("torch.bfloat16", "kind, dtype=dtype", 0),
        ("torch.bfloat16", "kind", 0),
        ("torch.float16", "kind, dtype=dtype", 1),
        ("torch.bfloat16", "self.device.type", 1),
        ("torch.bfloat16", "kind, dtype=self.dtype", 1),
    ],
)
def test_201_is_silent_where_the_losses_of_the_scaler_are_float16_on_cuda_only(
    other: str, region: str, findings: int
) -> None:
    text = _BY_DEVICE.replace("ELSE", other).replace("REGION", region)
    found = check(HEAD + text, settings=Settings(frozenset({"AMP201"}), isolated=True, suspicions=True))
    assert len(found) == findings


@pytest.mark.parametrize(
    ("region", "findings"),
    [
        ("torch.autocast('cuda', enabled=on)", 0),
        ("torch.autocast(device, dtype=torch.float16)", 1),
        ("torch.autocast('cuda', enabled=False)", 1),
        ("torch.no_grad()", 1),
    ],
)
def test_201_asks_the_projects_other_files_where_its_own_has_no_regions(
    region: str, findings: int, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "steps.py").write_text(
        f"import torch\ndef step(net, x, device, on):\n    with {region}:\n        net(x)\n"
    )
    (tmp_path / "train.py").write_text("import made, steps\nsteps.step(made.scaler(True))\n")
    path = tmp_path / "made.py"
    text = HEAD + "def scaler(on):\n    return torch.amp.GradScaler(enabled=on)\n"
    path.write_text(text)
    assert len(check(text, str(path), Settings(frozenset({"AMP201"}), isolated=True))) == findings


def test_201_asks_what_a_package_in_reach_imports_by_names_that_are_values(tmp_path: Path) -> None:
    package = tmp_path / "steps"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (package / "__init__.py").write_text("import importlib\n")
    (package / "plain.py").write_text("import torch\nwith torch.autocast('cuda'):\n    pass\n")
    text = HEAD + "import steps\nscaler = torch.amp.GradScaler(enabled=on)\n"
    (tmp_path / "train.py").write_text(text)
    assert check(text, str(tmp_path / "train.py"), Settings(frozenset({"AMP201"}), isolated=True)) == []


ON_CPU = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = nn.functional.binary_cross_entropy(model(x).sigmoid(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({"epoch": 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")


def main(args):
    data = torch.load(args.data, map_location="cpu")
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, data, optimizer)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("model = Net()", "model = Net().train().to(dtype=torch.float32)"),
        ("model = Net()", "model = torch.compile(nn.Sequential(Net()))"),
        ("model = Net()", "def make():\n        return Net()\n\n    model = make()"),
        ("model = Net()", 'model = Net().to("cpu")'),
        ("train(model, data, optimizer)", "print(model)\n    train(model, data, optimizer)"),
        ("optimizer)\n", "torch.optim.Adam(model.parameters()))\n"),
    ],
)
def test_203_what_never_leaves_the_cpu_is_in_no_region_for_cuda(old: str, new: str) -> None:
    assert codes(ON_CPU.replace(old, new)) == ["AMP203"]  # nothing overflows, and no loss is refused


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model = Net()", "model = Net().cuda()"),
        ("model = Net()", "model = Net().to(args.device)"),
        ("model = Net()", "model = Net()\n    if args.gpu:\n        model.cuda()"),
        ("model = Net()", "model = build(args)"),
        ("model = Net()", "model = Net()\n    place(model)"),
        ("model = Net()", "model = args.prepare(Net())"),
        ("model = Net()", "torch.set_default_device(args.device)\n    model = Net()"),
        ("model = Net()", "torch.set_default_tensor_type(torch.cuda.FloatTensor)\n    model = Net()"),
        ("class Net(nn.Module)", "class Net(args.Base)"),
        ("for x, y in loader:", "for x, y in loader:\n        x = x.to(model.device)"),
        ('map_location="cpu"', "weights_only=True"),
    ],
)
def test_203_what_may_leave_the_cpu_is_no_evidence(old: str, new: str) -> None:
    assert old in ON_CPU
    assert "AMP203" not in codes(ON_CPU.replace(old, new))


def test_203_a_file_that_is_imported_may_be_given_other_models(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(ON_CPU)
    found = check(ON_CPU, filename=str(tmp_path / "train.py"))
    assert [each.code for each in found] == ["AMP203"]
    (tmp_path / "big.py").write_text("from train import train\n\ntrain(make().cuda(), data, optimizer)\n")
    found = check(ON_CPU, filename=str(tmp_path / "train.py"))
    assert "AMP203" not in [each.code for each in found]


@pytest.mark.parametrize("moved", ["", ".cuda()"])
def test_413_needs_gradients_of_a_region_that_does_something(moved: str) -> None:
    text = ON_CPU.replace('map_location="cpu"', "weights_only=True").replace("model = Net()", f"model = Net(){moved}")
    assert ("AMP413" in codes(text, make_settings(suspicions=True))) == bool(moved)


STEPS = """\
import os
import sys
TOP

def train(model, loader, optimizer, device):
    INSIDE
    scaler = torch.amp.GradScaler()
    for x, y in loader:
        with torch.autocast(device.type, dtype=torch.float16):
            loss = model(x.to(device), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def setup(rank):
    torch.cuda.set_device(rank)


def main(args):
    CALLING
    train(make(), loader(), optimizer(), torch.device(args.device))


main(parse())
"""


def steps(top: str = "", inside: str = "", calling: str = "") -> str:
    """A program that trains on what it is told, with more at its top, before the scaler, or before it is called."""
    text = STEPS.replace("TOP", top)
    for mark, lines in (("INSIDE", inside), ("CALLING", calling)):
        text = text.replace(mark, (lines or "pass").replace("\n", "\n    "))
    return text


NEED_CUDA = (
    'assert torch.cuda.is_available(), "needs a GPU"',
    "assert torch.cuda.device_count() > 1",
    "if not torch.cuda.is_available():\n    raise RuntimeError",
    "if not torch.cuda.is_available():\n    print()\n    sys.exit(1)",
    "if torch.cuda.device_count() == 0:\n    exit()",
    "if torch.cuda.is_available():\n    pass\nelse:\n    os._exit(2)",
    "has = torch.cuda.is_available()\nassert has",
    'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
    'torch.distributed.init_process_group("nccl")',
    "print(torch.cuda.get_device_name(0))",
    "free, total = torch.cuda.mem_get_info()",
    'weights = torch.ones(4, device="cuda")',
    'mean = mean.to("cuda:0")',
)
CAN_DO_WITHOUT = (
    "",
    "assert args.device",
    "assert torch.cuda.is_available() or args.slow",
    "assert not torch.cuda.is_available()",
    "assert torch.cuda.device_count() >= 0",
    "if not torch.cuda.is_available():\n    print('slow')",
    "if torch.cuda.is_available():\n    torch.cuda.set_device(0)",
    "if not torch.cuda.is_available() and args.gpu:\n    sys.exit(1)",
    'torch.distributed.init_process_group("gloo")',
    "torch.cuda.empty_cache()",
    'mean = torch.ones(4, device="cpu").to("cpu")',
    "later = lambda: torch.cuda.current_device()",
)


@pytest.mark.parametrize("where", ["top", "inside", "calling"])
@pytest.mark.parametrize("line", NEED_CUDA)
def test_201_is_silent_where_there_is_always_cuda(line: str, where: str) -> None:
    assert codes(steps(**{where: line})) == []


def test_201_is_silent_where_it_scales_only_with_cuda() -> None:
    scales = "        scaler.scale(loss)"
    assert codes(steps().replace(scales, f"        torch.cuda.Event(enable_timing=True)\n{scales}")) == []
    assert codes(steps().replace(scales, f"        torch.cuda.memory_allocated()\n{scales}")) == ["AMP201"]


def test_201_follows_what_sets_the_device() -> None:
    assert codes(steps(calling="setup(args.rank)")) == []
    assert codes(steps(calling="if args.rank:\n    setup(args.rank)")) == ["AMP201"]


@pytest.mark.parametrize("where", ["top", "inside", "calling"])
@pytest.mark.parametrize("line", CAN_DO_WITHOUT)
def test_201_is_found_where_there_may_be_no_cuda(line: str, where: str) -> None:
    assert codes(steps(**{where: line})) == ["AMP201"]


@pytest.mark.parametrize(
    "device",
    [
        'f"cuda:{rank}"',
        '"cuda:" + str(rank)',
        '"cuda:%d" % rank',
        '"cuda:{}".format(rank)',
        'torch.device("cuda", rank)',
    ],
)
def test_201_a_device_that_begins_with_cuda_is_cuda(device: str) -> None:
    assert codes(f"model.to({device})\nscaler = torch.amp.GradScaler()\n") == []


@pytest.mark.parametrize(
    ("device", "why"),
    [
        (
            "model.to(args.device)\n",
            "amplint can't tell how this call can get the device of line 2; pass the device's type by hand",
        ),
        (
            'model.to("cuda")\nother.to("xpu")\n',
            "the file uses several devices; pass the device that the scaled loss is on",
        ),
        ("", "the file doesn't show which device the model trains on"),
    ],
)
def test_201_says_why_no_device_can_be_named(device: str, why: str) -> None:
    (found,) = check(f"{HEAD}{device}scaler = torch.amp.GradScaler()\n")
    assert found.withheld == why


SETTINGS_FILES = {
    "conf/__init__.py": "",
    "conf/settings.py": (
        "from conf.base import Base\n\nclass Train(Base):\n    device = '{device}'\n    amp = True\n\n"
        "    def __init__(self):\n        super().__init__()\n"
    ),
    "conf/base.py": (
        "class Base:\n    rate = 0.1\n\n\ndef make(kind):\n    if kind == 'big':\n"
        "        from conf.settings import Train\n\n        return Train()\n    raise NotImplementedError(kind)\n\n\n"
        "def choose(kind):\n    from conf.settings import Train\n\n    return Train\n"
    ),
}
WITH_SETTINGS = """
import torch
from torch.amp import GradScaler, autocast
{imported}

def train(model, optimizer, loader{param}):
    {made}
    scaler = GradScaler("cuda")
    for x in loader:
        with autocast(device_type={read}.device, enabled={read}.amp):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("imported", "made", "read", "param"),
    [
        ("from conf.settings import Train", "cfg = Train()", "cfg", ""),
        ("from conf.settings import Train", "cfg = Train", "cfg", ""),
        ("from conf.settings import Train", "pass", "Train", ""),
        ("from conf.settings import Train", "pass", "cfg", ", cfg: Train"),
        ("from conf.base import make", "cfg = make('big')", "cfg", ""),
        ("from conf.base import choose", "cfg = choose('big')", "cfg", ""),
        ("class Train:\n    device = '{device}'\n    amp = True\n", "cfg = Train", "cfg", ""),
    ],
)
@pytest.mark.parametrize("device", ["cuda:0", "cuda"])
def test_204_reads_settings_that_a_class_has(
    imported: str, made: str, read: str, param: str, device: str, tmp_path: Path
) -> None:
    files = SETTINGS_FILES | {"train.py": WITH_SETTINGS}
    (tmp_path / ".git").mkdir()
    (tmp_path / "conf").mkdir()
    for name, text in files.items():
        code = text.replace("{imported}", imported).replace("{made}", made).replace("{read}", read)
        (tmp_path / name).write_text(code.replace("{param}", param).replace("{device}", device))
    path = tmp_path / "train.py"
    told = check(path.read_text(), str(path), settings=Settings(frozenset({"AMP204"}), isolated=True))
    assert [each.code for each in told] == (["AMP204"] if ":" in device else [])


ON_OTHERS = """\
import torch

device = DEVICE
model = torch.nn.Linear(4, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("device", "codes"),
    [
        ('"cuda"', ["AMP203"]),
        ('"cuda" if torch.cuda.is_available() else "mps"', ["AMP203"]),
        ('f"cuda:{rank}"', ["AMP203"]),
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', ["AMP207"]),
        ("args.device", ["AMP207"]),
        ('"cpu"', ["AMP207"]),
    ],
)
def test_a_region_for_the_cpu_does_nothing_for_accelerators(device: str, codes: list[str]) -> None:
    assert [each.code for each in check(ON_OTHERS.replace("DEVICE", device))] == codes


@pytest.mark.parametrize(("of", "wanted"), [("x.device", 1), ("self.device", 0), ("config.device", 0)])
def test_the_device_of_a_tensor_in_forward_chooses_none(of: str, wanted: int) -> None:
    net = f"class Net(torch.nn.Module):\n    def forward(self, x):\n        return x + torch.arange(4, device={of})\n"
    step = "with torch.autocast('cpu', dtype=torch.bfloat16):\n    loss = model(x)\nloss.backward()\n"
    text = f"{HEAD}torch.set_default_device('mps')\n{net}\n\nmodel = Net()\n{step}"
    assert [each.code for each in check(text)].count("AMP203") == wanted


@pytest.mark.parametrize(("device", "wanted"), [("self.device", []), ("'mps' if self.on_mac else 'cuda'", ["AMP201"])])
def test_201_is_a_suspicion_where_nothing_shows_float16_without_cuda(device: str, wanted: list[str]) -> None:
    text = f"""\
import torch
from base import Base


class Trainer(Base):
    def __init__(self, model, device):
        self.scaler = torch.amp.GradScaler()

    def step(self, x):
        with torch.autocast({device}, dtype=self.dtype):
            loss = self.model(x)
        self.scaler.scale(loss).backward()
        self.optimizer.step()
"""
    assert [each.code for each in check(text, settings=Settings(frozenset({"AMP201"}), isolated=True))] == wanted
