"""Details of AMP101 to AMP104: what is refused and why, what stays silent, and what the target version changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import Applicability, check, fix
from amplint.config.settings import Settings
from amplint.registry import all_rules

BOTH = "from torch.cuda.amp import autocast, GradScaler\nscaler = GradScaler(2.0)\nwith autocast(True):\n    pass\n"


def at(target: str) -> Settings:
    return Settings(frozenset(all_rules()), target_torch=target, isolated=True)


def test_a_project_that_never_reaches_2_4_has_nothing_deprecated() -> None:
    decorated = "import torch\nf = torch.cuda.amp.custom_fwd(g)\ntorch.get_autocast_gpu_dtype()\n"
    assert not check(BOTH + decorated, settings=at(">=1.10,<2.4"))
    assert {each.code for each in check(BOTH + decorated, settings=at(">=2.4"))} == {
        "AMP101",
        "AMP102",
        "AMP103",
        "AMP104",
    }


@pytest.mark.parametrize(
    ("target", "codes"),
    [
        (">=1.9", set()),
        (">=1.10", {"AMP101"}),
        (">=2.0,<3", {"AMP101"}),
        ("2.3", {"AMP101", "AMP102"}),
        ("2.4", {"AMP101", "AMP102", "AMP103", "AMP104"}),
    ],
)
def test_what_an_admitted_release_can_only_call_by_the_old_name_is_not_found(target: str, codes: set[str]) -> None:
    decorated = "import torch\nf = torch.cuda.amp.custom_fwd(g)\ntorch.get_autocast_gpu_dtype()\n"
    assert {each.code for each in check(BOTH + decorated, settings=at(target))} == codes


def test_each_name_is_decided_by_itself() -> None:
    settings = at("2.0")
    assert fix(BOTH, settings=settings) == (
        "from torch.amp import autocast\nfrom torch.cuda.amp import GradScaler\n"
        'scaler = GradScaler(2.0)\nwith autocast("cuda", enabled=True):\n    pass\n'
    )
    assert [each.code for each in check(BOTH, settings=settings)] == ["AMP101"]


@pytest.mark.parametrize("target", ["1.10", "1.11"])
def test_below_1_12_the_new_class_is_torch_autocast(target: str) -> None:
    text = "import torch\nwith torch.cuda.amp.autocast(False):\n    pass\n"
    assert fix(text, settings=at(target)) == 'import torch\nwith torch.autocast("cuda", enabled=False):\n    pass\n'
    imported = "from torch.cuda.amp import autocast\nwith autocast():\n    pass\n"
    assert fix(imported, settings=at(target)) == 'from torch import autocast\nwith autocast("cuda"):\n    pass\n'


def test_1_12_has_torch_amp() -> None:
    assert "torch.amp import autocast" in fix(BOTH, settings=at("1.12"))


def test_below_1_10_there_is_no_new_class() -> None:
    assert fix(BOTH, settings=at("1.9")) == BOTH
    assert not check(BOTH, settings=at("1.9"))


def test_scaler_at_2_3_and_decorators_at_2_4() -> None:
    text = "import torch\nscaler = torch.cuda.amp.GradScaler()\n\n\n@torch.cuda.amp.custom_fwd\ndef f(ctx):\n    pass\n"
    assert [each.fix is not None for each in check(text, settings=at("2.3"))] == [True]
    assert [each.fix is not None for each in check(text, settings=at("2.4"))] == [True, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from torch.cuda.amp import autocast\n", "imports but never uses"),
        ("from torch.cuda.amp import autocast\n__all__ = ['autocast']\nautocast()\n", "__all__"),
        ("from torch.cuda.amp import autocast\n__all__ = []\n__all__ += ['autocast']\nautocast()\n", "__all__"),
        ("from torch.cuda.amp import autocast\n__all__ = []\n__all__.append('autocast')\nautocast()\n", "__all__"),
        ("from torch.cuda.amp import autocast\nautocast(*flags)\n", "unpacks its arguments with `*`"),
        ("from torch.cuda.amp import autocast\nuse(autocast)\nautocast()\n", "not called on this line|line 2"),
        ("from torch.cuda.amp import autocast\nREGION = [autocast]\n", "not called on this line"),
        ("from torch.cuda.amp import autocast\nclass A(autocast):\n    pass\n", "has no `__init__`"),
        ("import torch\nclass A(torch.cuda.amp.GradScaler, object):\n    pass\n", "several bases"),
        ("import torch\nprint(f'{torch.cuda.amp.autocast()}')\n", "f-string"),
        ("import torch\nx = (torch.cuda  # why\n     .amp.autocast)()\n", "other code on the lines"),
        (
            "import torch\npatch('torch.cuda.amp.autocast')\ntorch.cuda.amp.autocast()\n",
            "a string (for instance in `mock.patch`) also names",
        ),
        (
            "import torch\nsetattr(torch.cuda.amp, 'autocast', x)\ntorch.cuda.amp.autocast()\n",
            "a string (for instance in `mock.patch`) also names",
        ),
        (
            "from torch import get_autocast_gpu_dtype\nget_autocast_dtype = 1\nget_autocast_gpu_dtype()\n",
            "already uses",
        ),
        ("import torch\n@torch.jit.script\ndef f():\n    return torch.is_autocast_cpu_enabled()\n", "TorchScript"),
        ("import torch\nf = torch.get_autocast_gpu_dtype\nf()\n", "not called on this line"),
        (
            "try:\n    from torch.cuda.amp import autocast\nexcept E:\n    class autocast: ...\nautocast()\n",
            "also defines its own `autocast`",
        ),
        (
            "try:\n    from torch.cuda.amp import autocast\nexcept E:\n    def autocast(*args, **kwargs):\n"
            "        return Old(*args, **kwargs)\nautocast()\n",
            "also defines its own `autocast`",
        ),
        (
            "import torch\nclass A:\n    def f(self):\n        self.region = torch.cuda.amp.autocast\n",
            "not called on this line",
        ),
    ],
)
def test_refused(text: str, reason: str) -> None:
    found = check(text)
    assert found
    assert all(each.fix is None and each.withheld for each in found)
    assert any(part in (found[0].withheld or "") for part in reason.split("|"))
    assert fix(text, unsafe=True) == text


@pytest.mark.parametrize(
    "fallback",
    [
        "    def autocast(*args, **kwargs):\n        return nullcontext()\n",
        "    class autocast:\n        def __init__(self, *args, **kwargs):\n            pass\n",
    ],
)
def test_a_fallback_that_ignores_its_arguments_takes_the_new_ones(fallback: str) -> None:
    text = f"try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n{fallback}autocast(enabled=x)\n"
    changed = text.replace("torch.cuda.amp", "torch.amp").replace("autocast(enabled", 'autocast("cuda", enabled')
    assert fix(text) == changed


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return torch.is_autocast_cpu_enabled()\n\n\n@torch.jit.script\ndef g():\n    return f()\n",
        "class N(torch.nn.Module):\n    def forward(self, x):\n        return torch.is_autocast_cpu_enabled()\n\n\n"
        "n = torch.jit.script(N())\n",
        "class N(torch.jit.ScriptModule):\n    def f(self, x):\n        return torch.is_autocast_cpu_enabled()\n",
    ],
)
def test_torchscript_compiles_what_it_reaches(text: str) -> None:
    (found,) = check(f"import torch\n\n\n{text}")
    assert "TorchScript" in (found.withheld or "")


def test_what_torchscript_leaves_alone_is_rewritten() -> None:
    for decorator in ("ignore", "unused", "ignore(drop=True)"):
        function = f"@torch.jit.{decorator}\ndef f():\n    return torch.is_autocast_cpu_enabled()\n"
        assert 'is_autocast_enabled("cpu")' in fix(f"import torch\n\n\n{function}\n\ng = torch.jit.script(h)\n")


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("type(s) is torch.cuda.amp.GradScaler", "tests for the old class"),
        ("type(s) == GradScaler", "the use on line"),
    ],
)
def test_a_test_for_the_old_class_that_stays_keeps_its_instances(test: str, reason: str) -> None:
    text = f"import torch\nfrom torch.cuda.amp import GradScaler\ns = GradScaler(2.0)\nprint({test})\n"
    assert fix(text, unsafe=True) == text
    assert any(reason in (each.withheld or "") for each in check(text))


def test_a_test_that_tells_old_from_new_stays() -> None:
    text = (
        "import torch\nfrom torch.cuda.amp import GradScaler\n"
        "old = isinstance(s, GradScaler)\nnew = isinstance(s, torch.amp.GradScaler)\n"
    )
    (found,) = check(text)
    assert found.withheld == "the file also uses the new class, so this test may be meant for the old class only"


def test_a_test_for_both_classes_hinders_nothing() -> None:
    text = (
        "import torch\ns = torch.cuda.amp.GradScaler()\n"
        "known = isinstance(s, (torch.cuda.amp.GradScaler, torch.amp.GradScaler))\n"
    )
    assert 's = torch.amp.GradScaler("cuda")\n' in fix(text)


def test_a_comment_is_judged_alike_with_the_whole_tree_and_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    old, new = tmp_path / "compat.py", tmp_path / "train.py"
    old.write_text("from torch.cuda.amp import autocast  # noqa: AMP101\n")
    new.write_text("from compat import autocast  # noqa: AMP101\n\nwith autocast():\n    pass\n")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "compat.py").write_text(old.read_text())
    assert [check(each.read_text(), str(each)) for each in (old, tmp_path / "alone" / "compat.py")] == [[], []]
    (unused,) = check(new.read_text(), str(new))
    assert unused.code == "AMP002"


def test_init_module_exports_what_it_imports() -> None:
    text = "from torch.cuda.amp import autocast\nregion = autocast()\n"
    (found,) = check(text, "package/__init__.py")
    assert found.withheld is not None
    assert "__init__.py" in found.withheld


def test_one_name_stays_where_its_neighbour_goes() -> None:
    text = "from torch.cuda.amp import GradScaler, autocast  # both\nuse(GradScaler)\nautocast()\n"
    assert fix(text) == (
        "from torch.amp import autocast\nfrom torch.cuda.amp import GradScaler  # both\nuse(GradScaler)\n"
        'autocast("cuda")\n'
    )


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        (
            "from torch.cuda.amp import autocast, GradScaler\ns = GradScaler()\nwith autocast():\n    pass\n",
            "from torch.amp import GradScaler\nfrom torch.cuda.amp import autocast\n"
            's = GradScaler("cuda")\nwith autocast():\n    pass\n',
        ),
        (
            "import torch\nimport torch.cuda.amp as amp\ns = amp.GradScaler()\nwith amp.autocast():\n    pass\n",
            "import torch\nimport torch.cuda.amp as amp\n"
            's = torch.amp.GradScaler("cuda")\nwith amp.autocast():\n    pass\n',
        ),
        (
            "from torch.cuda import amp\ns = amp.GradScaler()\nwith amp.autocast():\n    pass\n",
            "import torch\nfrom torch.cuda import amp\n"
            's = torch.amp.GradScaler("cuda")\nwith amp.autocast():\n    pass\n',
        ),
        (
            "import torch.cuda.amp\ns = torch.cuda.amp.GradScaler()\nwith torch.cuda.amp.autocast():\n    pass\n",
            'import torch.cuda.amp\ns = torch.amp.GradScaler("cuda")\nwith torch.cuda.amp.autocast():\n    pass\n',
        ),
    ],
    ids=["names", "module", "from", "chain"],
)
def test_uses_of_rules_that_are_not_selected_stay(text: str, fixed: str) -> None:
    assert fix(text, settings=Settings(frozenset({"AMP102"}), target_torch="2.4", isolated=True)) == fixed


def test_a_star_of_rules_of_which_one_is_not_selected_stays() -> None:
    text = "from torch.cuda.amp import *\ns = GradScaler()\nwith autocast():\n    pass\n"
    [found] = check(text, settings=Settings(frozenset({"AMP102"}), target_torch="2.4", isolated=True))
    assert found.withheld == "line 3 uses the same import, and AMP101 is not selected; select AMP101 too"


def test_line_ends_and_indentation_stay() -> None:
    text = "def f():\r\n\tfrom torch.cuda.amp import autocast, common\r\n\treturn autocast(), common\r\n"
    assert fix(text) == (
        "def f():\r\n\tfrom torch.amp import autocast\r\n\tfrom torch.cuda.amp import common\r\n"
        '\treturn autocast("cuda"), common\r\n'
    )


def test_a_walrus_gets_parentheses() -> None:
    text = "import torch\nx = torch.cuda.amp.autocast(on := True)\n"
    assert fix(text) == 'import torch\nx = torch.amp.autocast("cuda", enabled=(on := True))\n'


def test_the_device_goes_on_a_line_of_its_own() -> None:
    text = "import torch\ns = torch.cuda.amp.GradScaler(\n    # small\n    2.0,\n)\n"
    assert fix(text) == 'import torch\ns = torch.amp.GradScaler(\n    # small\n    "cuda",\n    2.0,\n)\n'


@pytest.mark.parametrize(
    ("outer", "inner", "fixed"),
    [
        ("(dtype=torch.bfloat16)", "()", '("cuda", dtype=torch.float16)'),
        ("(True, torch.bfloat16)", "(flag)", '("cuda", enabled=flag, dtype=torch.float16)'),
        ("(dtype=torch.bfloat16)", "(enabled=False)", '("cuda", enabled=False)'),
        ("(dtype=torch.bfloat16)", "(False)", '("cuda", enabled=False)'),
        ("(dtype=torch.float16)", "()", '("cuda")'),
        ("(cache_enabled=False)", "(flag)", '("cuda", enabled=flag, cache_enabled=True)'),
        ("(cache_enabled=True)", "(flag)", '("cuda", enabled=flag)'),
        ("(cache_enabled=False)", "(cache_enabled=flag)", '("cuda", cache_enabled=flag)'),
    ],
)
def test_what_an_outer_region_would_change_is_written_out(outer: str, inner: str, fixed: str) -> None:
    text = f"import torch\nwith torch.cuda.amp.autocast{outer}:\n    x = torch.cuda.amp.autocast{inner}\n"
    assert fix(text).splitlines()[2] == f"    x = torch.amp.autocast{fixed}"


def test_another_device_s_region_changes_nothing() -> None:
    text = 'import torch\nwith torch.autocast("cpu", dtype=torch.float16):\n    x = torch.cuda.amp.autocast()\n'
    assert fix(text).splitlines()[2] == '    x = torch.amp.autocast("cuda")'


def test_unknown_arguments_beside_another_dtype_are_unsafe() -> None:
    text = "import torch\na = torch.cuda.amp.autocast(dtype=x)\nb = torch.cuda.amp.autocast(**y)\n"
    assert [each.fix and each.fix.applicability for each in check(text)] == [Applicability.SAFE, Applicability.UNSAFE]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nS = getattr(torch.amp, 'GradScaler', torch.cuda.amp.GradScaler)\n",
        "import torch\ns = torch.amp.GradScaler('cuda') if hasattr(torch, 'amp') else torch.cuda.amp.GradScaler()\n",
        "try:\n    from torch.amp import GradScaler as G\nexcept ImportError:\n"
        "    from torch.cuda.amp import GradScaler as G\nG('cuda')\n",
        "class autocast: ...\nwith autocast(True):\n    pass\n",
        "import torch\nprint(torch.is_autocast_enabled(), 'torch.cuda.amp.autocast')  # torch.cuda.amp.autocast\n",
        "from mmengine.amp import autocast, GradScaler\nwith autocast(True):\n    GradScaler(2.0)\n",
    ],
)
def test_silent(text: str) -> None:
    assert not check(text)


@pytest.mark.parametrize(
    "code",
    [
        "import torch\nknown = {torch.get_autocast_gpu_dtype, torch.is_autocast_cpu_enabled: None}\n".replace(
            ": None", ""
        ),
        "import torch\nscalers = (torch.cuda.amp.GradScaler, torch.amp.GradScaler)\n",
        "import torch\nfound = func in [torch.cuda.amp.autocast, torch.cpu.amp.autocast]\n",
        "import torch\nold = func is torch.cuda.amp.autocast\n",
        'import torch\nget = getattr(torch, "get_autocast_dtype", None)\n'
        'dtype = get("cuda") if get is not None else torch.get_autocast_gpu_dtype()\n',
    ],
)
def test_a_name_that_is_only_named_is_no_use(code: str) -> None:
    assert check(code) == []


def test_a_comparison_keeps_the_import_it_reads() -> None:
    code = "from torch.cuda.amp import autocast\n\nold = made_by is autocast\nwith autocast():\n    pass\n"
    (found,) = check(code)
    assert found.fix is None
    assert "line 3" in (found.withheld or "")


@pytest.mark.parametrize(
    "text",
    [
        "from torch.cuda.amp import GradScaler as G\ns = G()\nfrom torch.cuda.amp import GradScaler as G\nt = G()\n",
        "if x:\n    import torch.cuda.amp as amp\nelse:\n    import torch.cuda.amp as amp\ns = amp.GradScaler()\n",
        "from torch.cuda import amp\ns = amp.GradScaler()\nfrom torch.cuda import amp\nt = amp.GradScaler()\n",
        "from torch.cuda.amp import GradScaler\nfrom torch.cuda.amp import GradScaler\ns = GradScaler()\n",
    ],
)
def test_what_is_imported_twice_is_not_rewritten_by_halves(text: str) -> None:
    """Each import of a name is one that the calls may see: with one of them old, the device would be `init_scale`."""
    findings = check(text)
    assert findings
    assert all("more than once, and a fix would rewrite only one import" in (each.withheld or "") for each in findings)
    assert fix(text, unsafe=True) == text


def test_torch_may_be_imported_twice() -> None:
    text = "import torch\nimport torch.cuda.amp\ns = torch.cuda.amp.GradScaler()\nimport torch\n"
    assert fix(text) == 'import torch\ns = torch.amp.GradScaler("cuda")\nimport torch\n'


APEX = """
from apex import amp
model, optimizer = amp.initialize(model, optimizer)
with amp.scale_loss(loss, optimizer) as scaled:
    scaled.backward()
torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
"""


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "2.4",
            'the loss under `torch.autocast("cuda")`, and create a `torch.amp.GradScaler("cuda")`',
        ),
        (
            "1.10",
            'the loss under `torch.autocast("cuda")`, and create a `torch.cuda.amp.GradScaler()`',
        ),
        (
            "1.6",
            "the loss under `torch.cuda.amp.autocast()`, and create a `torch.cuda.amp.GradScaler()`",
        ),
        (">=1.4", "use torch's own AMP (needs torch 1.6)"),
        ("==1.4.*", None),
        ("<1.6", None),
    ],
)
def test_apex_is_replaced_by_what_the_project_has(target: str, said: str | None) -> None:
    found = check(APEX, settings=at(target))
    assert [each.code for each in found] == (["AMP105"] if said else [])
    assert all(said in f"{each.message} {each.fix.message}" for each in found if said and each.fix)


def test_apex_is_found_once_a_file_with_the_other_places() -> None:
    (found,) = check(APEX, settings=at("2.4"))
    assert found.location.row == 3
    assert "(`apex.amp` is also used on lines 4 and 6)" in found.message
    assert found.fix is not None
    assert "`scale_loss`: call `scaler.scale(loss).backward()`" in found.fix.message
    assert not check(APEX.replace("optimizer)\nwith", "optimizer)  # noqa: AMP105\nwith"), settings=at("2.4"))


@pytest.mark.parametrize(
    ("target", "text", "said"),
    [
        ("2.0", "import torch\nscaler = torch.cuda.GradScaler()\n", "use `torch.cuda.amp.GradScaler`"),
        ("2.4", "import torch\nscaler = torch.cuda.GradScaler()\n", 'use `torch.amp.GradScaler("cuda", ...)`'),
        ("1.9", "from torch.cuda import autocast\n", "import `autocast` from `torch.cuda.amp`"),
        ("2.0", "scaler = GradScaler()\n", "import `GradScaler` from `torch.cuda.amp`"),
    ],
)
def test_a_wrong_name_is_told_one_that_the_project_has(target: str, text: str, said: str) -> None:
    (found,) = (each for each in check(text, settings=at(target)) if each.code == "AMP107")
    assert said in found.message


def test_a_vendors_name_is_not_found_where_torch_has_none() -> None:
    text = "import torch\nwith torch.xpu.amp.autocast(enabled=True, dtype=torch.bfloat16):\n    pass\n"
    assert [each.code for each in check(text, settings=at("2.4"))] == ["AMP106"]
    assert not check(text, settings=at(">=2.0"))


@pytest.mark.parametrize(
    ("imported", "call", "code", "new"),
    [
        ("autocast", "autocast(device_type=config.device)", "AMP101", "torch.amp.autocast"),
        ("GradScaler", 'GradScaler(device="cuda")', "AMP102", "torch.amp.GradScaler"),
    ],
)
def test_an_old_name_with_the_new_names_device_leads_to_the_fix(imported: str, call: str, code: str, new: str) -> None:
    text = f"from torch.cuda.amp import {imported}\ndef make(config):\n    return {call}\n"
    old, wrong = check(text, settings=at("2.4"))
    assert (old.code, wrong.code) == (code, "AMP107")
    device = call.partition("(")[2].rstrip(")")
    assert old.message.endswith(f"use `{new}({device}, ...)`")
    assert old.fix is not None
    assert old.fix.message == f"Replace with `{new}({device}, ...)`"
    assert wrong.message.endswith(f"use `{new}` (the fix of {code} does so)")
    assert not check(fix(text, settings=at("2.4")), settings=Settings(frozenset({"AMP107"}), isolated=True))
    alone = Settings(frozenset({"AMP107"}), target_torch="2.4", isolated=True)
    assert check(text, settings=alone)[0].message.endswith(f"use `{new}`")


def test_what_calls_of_one_import_become_is_said_of_each() -> None:
    text = "from torch.cuda.amp import autocast\na = autocast()\nb = autocast(device_type=device)\n"
    (first, second) = (each for each in check(text, settings=at("2.4")) if each.code == "AMP101")
    assert first.message.endswith('use `torch.amp.autocast("cuda", ...)`')
    assert second.message.endswith("use `torch.amp.autocast(device_type=device, ...)`")
    assert first.fix is not None
    assert first.fix.message.endswith("(a call that has a device keeps it)")
