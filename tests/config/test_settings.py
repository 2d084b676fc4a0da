from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import amplint.config.selection
import amplint.registry
from amplint.base.findings import Severity
from amplint.base.target import Target
from amplint.config.declared_target import from_option
from amplint.config.defaults import DEFAULT_EXCLUDE
from amplint.config.selection import Selection, SettingsError, enabled_codes, notices
from amplint.config.settings import Overrides, Resolver, Settings
from amplint.registry.rule import Known, Rule, Stage

Write = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A few rules: one in preview, one deprecated, one that was removed, and one with another code and name before."""
    life: dict[str, dict[str, Any]] = {
        "internal.amp000_internal_error": {},
        "internal.amp001_invalid_syntax": {},
        "deprecated.amp101_deprecated_autocast": {},
        "arguments.amp201_device": {},
        "scaler.amp401_clip_without_unscale": {"formerly": ("AMP499", "clip-scaled")},
        "scaler.amp402_step_bypasses_scaler": {},
        "scaler.amp412_scheduler_ignores_skip": {"default": False},
        "regions.amp301_new": {"stage": Stage.PREVIEW},
        "regions.amp302_newer": {"stage": Stage.PREVIEW, "default": False},
        "arguments.amp202_old": {"stage": Stage.DEPRECATED, "default": False},
        "scaler.amp404_gone": {"stage": Stage.REMOVED},
    }
    rules = [Rule(f"rules.{name}", "", severity=Severity.ERROR, **more) for name, more in life.items()]
    found = Known.of({rule.code: rule for rule in rules})
    made = (amplint.registry.names, amplint.registry.families, amplint.registry.redirects)
    for module in (amplint.registry, amplint.config.selection):
        monkeypatch.setattr(module, "known", lambda: found)
    for each in made:
        each.cache_clear()
    yield
    for each in made:
        each.cache_clear()


def short(layers: list[Selection]) -> str:
    return " ".join(sorted(code[3:] for code in enabled_codes(layers)))


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([], "000 001 101 201 401 402"),
        ([Selection(("ALL",))], "000 001 101 201 202 401 402 412"),
        ([Selection(("AMP4",))], "000 001 401 402 412"),
        ([Selection(("AMP",))], "000 001 101 201 202 401 402 412"),
        ([Selection(())], "000 001"),
        ([Selection(extend_select=("AMP412",))], "000 001 101 201 401 402 412"),
        ([Selection(ignore=("AMP4",))], "000 001 101 201"),
        ([Selection(ignore=("ALL",))], "000"),
        # A file that can't be parsed is reported unless someone says not to; a rule that failed, always.
        ([Selection(("AMP401",), ignore=("AMP001", "AMP000"))], "000 401"),
        # The more specific selector prevails, in whichever of the options it stands.
        ([Selection(("AMP4",), ignore=("AMP401",))], "000 001 402 412"),
        ([Selection(("AMP401",), ignore=("AMP4",))], "000 001 401"),
        ([Selection(("AMP401",), ignore=("ALL",))], "000 401"),
        ([Selection(extend_select=("AMP412",), ignore=("AMP41",))], "000 001 101 201 401 402 412"),
        ([Selection(("AMP401",), ignore=("AMP401",))], "000 001"),
        # A later layer prevails; its `select` begins anew.
        ([Selection(ignore=("AMP401",)), Selection(("AMP4",))], "000 001 401 402 412"),
        ([Selection(("AMP4",)), Selection(ignore=("AMP401",))], "000 001 402 412"),
        ([Selection(("AMP401",)), Selection(ignore=("AMP4",))], "000 001"),
        ([Selection(("AMP401",)), Selection(extend_select=("AMP1",))], "000 001 101 401"),
    ],
)
def test_selection(layers: list[Selection], expected: str) -> None:
    assert short(layers) == expected


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(("scaler",)), "000 001 401 402 412"),
        (Selection(("clip-without-unscale",)), "000 001 401"),
        (Selection(("Clip-Without-Unscale",)), "000 001 401"),
        # What a name stands for says how specific it is.
        (Selection(("scaler",), ignore=("clip-without-unscale",)), "000 001 402 412"),
        (Selection(("clip-without-unscale",), ignore=("scaler",)), "000 001 401"),
        # Former codes and names are those of now.
        (Selection(("AMP499",)), "000 001 401"),
        (Selection(("AMP4",), ignore=("clip-scaled",)), "000 001 402 412"),
        # What was removed may be ignored.
        (Selection(("AMP401",), ignore=("AMP404", "gone")), "000 001 401"),
        # Without preview, rules in preview are off, whoever asks.
        (Selection(("AMP3", "AMP401")), "000 001 401"),
        (Selection(("ALL",)), "000 001 101 201 202 401 402 412"),
    ],
)
def test_names_and_stages(selection: Selection, expected: str) -> None:
    assert short([selection]) == expected


@pytest.mark.usefixtures("registry")
def test_preview() -> None:
    def on(*layers: Selection) -> frozenset[str]:
        return enabled_codes(layers, preview=True)

    assert on() == enabled_codes([]) | {"AMP301"}
    assert on(Selection(("AMP3",))) == {"AMP000", "AMP001", "AMP301", "AMP302"}
    assert on(Selection(ignore=("AMP301",))) == enabled_codes([])


@pytest.mark.usefixtures("registry")
def test_what_was_removed_can_not_be_asked_for() -> None:
    for selector in ("AMP404", "gone"):
        for wanted in (Selection((selector,)), Selection(extend_select=(selector,))):
            with pytest.raises(SettingsError, match=rf"^rule {selector} was removed; `amplint rule {selector}` says"):
                enabled_codes([wanted])


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("key", "selector", "said"),
    [
        ("select", "AMP401", []),
        ("select", "AMP4", []),
        ("select", "ALL", []),
        ("ignore", "AMP499", ["rule AMP499 is now AMP401 (clip-without-unscale); the old one still works"]),
        ("select", "clip-scaled", ["rule clip-scaled is now AMP401 (clip-without-unscale); the old one still works"]),
        ("ignore", "AMP404", ["rule AMP404 was removed, so to name it here does nothing"]),
        ("select", "AMP202", ["rule AMP202 is deprecated and will be removed; `amplint rule AMP202` says more"]),
        ("ignore", "AMP202", []),
        ("select", "AMP301", ["AMP301 has no effect without `--preview`: it is in preview"]),
        ("extend-select", "regions", ["regions has no effect without `--preview`: all its rules are in preview"]),
        ("ignore", "AMP301", []),
    ],
)
def test_notices(key: str, selector: str, said: list[str]) -> None:
    assert list(notices(key, selector, preview=False)) == said
    assert list(notices(key, selector, preview=True)) == [each for each in said if "preview" not in each]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("AMP4O1", "the nearest is AMP401"),
        ("AMP401X", "did you mean AMP401?"),
        ("AMP405", "the nearest is AMP402"),
        (
            "AMP999",
            "the families are AMP0 (internal), AMP1 (deprecated), AMP2 (arguments), AMP4 (scaler), AMP3 (regions)",
        ),
        ("AMP450", "the rules are AMP401 to AMP412"),
        ("amp201", "did you mean AMP201?"),
        ("amp4", "did you mean AMP4?"),
        ("all", "did you mean ALL?"),
        ("deprecated-autocasts", "did you mean deprecated-autocast (AMP101)?"),
        ("scalr", "did you mean scaler (AMP4)?"),
        ("ignores", "did you mean scheduler-ignores-skip (AMP412)?"),
        ("AL", "did you mean ALL?"),
        ("E501", "codes start with AMP"),
        ("HSE101", "is the plugin with the HSE rules not installed?"),
        ("", "the rules are AMP000 to AMP412"),
        ("E", "the rules are AMP000 to AMP412"),
    ],
)
def test_unknown_selector_names_the_nearest(selector: str, hint: str) -> None:
    with pytest.raises(SettingsError, match="unknown rule") as caught:
        enabled_codes([Selection((selector,))])
    assert str(caught.value).endswith(f"; {hint}")


def resolve(path: Path, said: dict[str, object] | None = None, **more: object) -> Settings:
    return Resolver(Overrides(said or {}, **more)).for_file(str(path))  # type: ignore[arg-type]


def test_settings_can_be_sent_to_another_process() -> None:
    settings = Settings(frozenset({"AMP101"}), target_torch="2.4")
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(settings) == hash(settings._replace())


def test_nearest_configuration_prevails(project: Write) -> None:
    root = project(
        {
            "pyproject.toml": '[tool.amplint]\nselect = ["AMP1"]\ntarget-torch = "2.1"\n',
            "a/pyproject.toml": '[project]\nname = "a"\n# nothing about amplint\n',
            "b/pyproject.toml": '[tool.amplint]\nselect = ["AMP101"]\n',
            "c/amplint.toml": 'select = ["AMP102"]\n',
            "c/pyproject.toml": '[tool.amplint]\nselect = ["AMP103"]\n',
        }
    )
    one = {code for code in resolve(root / "x.py").codes if code.startswith("AMP1")}
    assert {"AMP101", "AMP102"} <= one
    assert resolve(root / "a" / "deep" / "x.py") == resolve(root / "x.py")
    assert resolve(root / "b" / "x.py").codes >= {"AMP101"}
    assert "AMP102" not in resolve(root / "b" / "x.py").codes
    assert {"AMP101", "AMP102", "AMP103"} & resolve(root / "c" / "x.py").codes == {"AMP102"}
    assert resolve(root / "b" / "x.py").target("b/x.py") == from_option("2.4", "assumed")._replace(
        origin="nothing declared: 2.4 assumed"
    )
    assert resolve(root / "x.py").target("x.py").origin == "target-torch 2.1"


def test_flags_prevail_over_configuration(project: Write) -> None:
    root = project({"pyproject.toml": '[tool.amplint]\nselect = ["AMP1"]\ntarget-torch = "2.1"\n'})
    settings = resolve(root / "x.py", {"ignore": ["AMP101"], "target-torch": "2.6"})
    assert "AMP102" in settings.codes
    assert "AMP101" not in settings.codes
    assert settings.target("x.py") == Target((2, 6, 0), None, "--target-torch 2.6")


def test_flags_of_another_directory(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"a/named.toml": "device = 'xpu'\n", "elsewhere/x.py": ""})
    said: dict[str, object] = {"extend-exclude": ["b/c"], "per-file-ignores": {"b/d.py": ["AMP1"]}, "src": ["lib"]}
    for now, directory in ((root / "elsewhere", str(root / "a")), (root, "a"), (root / "a", None)):
        monkeypatch.chdir(now)
        settings = resolve(root / "x.py", said, config="named.toml", directory=directory)
        assert settings.device == "xpu"
        assert settings.src == (str(root / "a" / "lib"),)
        assert settings.excludes(str(root / "a" / "b" / "c"), "c")
        assert not settings.excludes(str(root / "elsewhere" / "b" / "c"), "c")
        assert "AMP101" in settings.codes
        assert "AMP101" not in resolve(root / "a" / "b" / "d.py", said, directory=directory).codes


def test_targets_of_frameworks(project: Write) -> None:
    root = project(
        {
            "pyproject.toml": '[project]\ndependencies = ["transformers>=4.40"]\n'
            '[tool.amplint]\ntargets = {lightning = ">=1.9,<2.2"}\n',
        }
    )
    settings = resolve(root / "x.py")
    found = settings.target("x.py", "lightning")
    assert (found.lowest, found.highest) == ((1, 9, 0), (2, 1, 2))
    assert found.origin == "targets.lightning >=1.9,<2.2"
    assert settings.target("x.py", "transformers").origin == "pyproject.toml: transformers>=4.40"
    isolated = resolve(root / "x.py", isolated=True).target("x.py", "transformers")
    assert isolated.origin == "nothing declared: 5.0 assumed"


def test_isolated_reads_nothing(project: Write) -> None:
    root = project({"pyproject.toml": '[project]\ndependencies = ["torch>=2.0"]\n[tool.amplint]\nselect = ["AMP1"]\n'})
    settings = resolve(root / "x.py", isolated=True)
    assert settings.codes == enabled_codes([])
    assert settings.exclude == DEFAULT_EXCLUDE
    assert settings.target("x.py").origin == "nothing declared: 2.4 assumed"


def test_a_project_without_configuration_does_not_need_toml(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"pyproject.toml": "this is [not TOML", "a/pyproject.toml": "# amplint\nnor [is this"})
    assert resolve(root / "x.py").codes == enabled_codes([])
    with pytest.raises(SettingsError, match="not valid TOML"):
        resolve(root / "a" / "x.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.amplint\n", r"pyproject.toml: not valid TOML: .*line 1"),
        ('[tool.amplint]\n\nselct = ["AMP1"]\n', r"pyproject.toml:3: unknown key 'selct'; did you mean 'select'\?"),
        ("[tool.amplint]\ntarget_torch = 1\n", r"pyproject.toml:2: unknown key .*; did you mean 'target-torch'\?"),
        ("[tool.amplint]\nzzz = 1\n", r"pyproject.toml:2: unknown key 'zzz'$"),
        ('[tool.amplint]\nselect = "AMP1"\n', r"pyproject.toml:2: 'select' must be a list of strings"),
        ("[tool.amplint]\nexclude = [1]\n", r"pyproject.toml:2: 'exclude' must be a list of strings"),
        ('[tool.amplint]\nignore = [\n  "AMP9"]\n', r"pyproject.toml:3: unknown rule 'AMP9'; the families are AMP0"),
        ("[tool.amplint]\ntarget-torch = 2.4\n", r"pyproject.toml:2: 'target-torch' must be a string"),
        ('[tool.amplint]\ntarget-torch = "new"\n', r"pyproject.toml:2: 'target-torch': 'new' is neither a release"),
        ('[tool.amplint]\ntarget-torch = ">3,<2"\n', r"'target-torch': '>3,<2' matches no release of torch"),
        ("[tool.amplint]\n\ntargets = 2\n", r"pyproject.toml:3: 'targets' must be a table with some of lightning, "),
        (
            "[tool.amplint.targets]\nlighting = '2.4'\n",
            r"pyproject.toml:2: unknown key 'targets.lighting'; did you mean",
        ),
        ("[tool.amplint.targets]\nlightning = 2.1\n", r"'targets.lightning' must be a string such as \"2.0\""),
        ("[tool.amplint]\ntargets.lightning = '>3,<2'\n", r"'targets.lightning': .* matches no release of lightning"),
        ('[tool]\namplint = ["AMP1"]\n', r"pyproject.toml:2: tool.amplint must be a table"),
        ('[tool]\namplint.selct = ["AMP1"]\n', r"pyproject.toml:2: unknown key 'selct'"),
        (b"[tool.amplint]\n# \xff\n", r"pyproject.toml: not valid TOML: .*utf-8"),
        ("[tool.amplint]\nx = " + "[" * 5000, r"pyproject.toml: not valid TOML: "),
    ],
)
def test_broken_configuration_is_one_line(project: Write, text: str | bytes, message: str) -> None:
    root = project({"pyproject.toml": text})
    with pytest.raises(SettingsError, match=message) as caught:
        resolve(root / "x.py")
    assert "\n" not in str(caught.value)


def test_excludes(project: Write) -> None:
    root = project(
        {
            "pyproject.toml": '[tool.amplint]\nextend-exclude = ["gen_*.py", "./a/b/", "src/**/old", "c/*.pyi"]\n',
            "only/amplint.toml": 'exclude = ["x.py"]\n',
        }
    )

    def excluded(name: str, directory: str = "") -> bool:
        return resolve(root / directory / "any.py").excludes(str(root / name), name.rpartition("/")[2])

    for name in ("gen_x.py", "deep/gen_x.py", "a/b", "src/old", "src/1/2/old", "c/x.pyi", ".venv", "deep/.git"):
        assert excluded(name), name
    for name in ("xgen_x.py", "a/bc", "deep/a/b", "src/xold", "c/x.py", "x.py", "venvs"):
        assert not excluded(name), name
    assert excluded("only/x.py", "only")
    assert not excluded("only/venv", "only")
