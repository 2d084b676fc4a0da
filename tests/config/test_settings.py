from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import amplint.config.selection
from amplint.base.findings import Severity
from amplint.base.target import Target
from amplint.config.declared_target import from_option
from amplint.config.defaults import DEFAULT_EXCLUDE
from amplint.config.selection import Selection, SettingsError, enabled_codes
from amplint.config.settings import Overrides, Resolver, Settings
from amplint.registry.rule import Rule

Write = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        "amp000_internal_error",
        "amp001_invalid_syntax",
        "amp101_deprecated_autocast",
        "amp201_device",
        "amp401_clip_without_unscale",
        "amp402_step_bypasses_scaler",
        "amp412_scheduler_ignores_skip",
    ]
    rules = [Rule(name, "", severity=Severity.ERROR, default="412" not in name) for name in names]
    monkeypatch.setattr(amplint.config.selection, "all_rules", lambda: {rule.code: rule for rule in rules})


def short(layers: list[Selection]) -> str:
    return " ".join(sorted(code[3:] for code in enabled_codes(layers)))


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([], "000 001 101 201 401 402"),
        ([Selection(("ALL",))], "000 001 101 201 401 402 412"),
        ([Selection(("AMP4",))], "000 001 401 402 412"),
        ([Selection(("AMP",))], "000 001 101 201 401 402 412"),
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
    ("selector", "hint"),
    [
        ("AMP4O1", "the nearest is AMP401"),
        ("AMP403", "the nearest is AMP402"),
        ("AMP999", "the nearest is AMP412"),
        ("amp201", "the nearest is AMP201"),
        ("AMP3", "the nearest is AMP201"),
        ("clip-without-unscale", "did you mean AMP401?"),
        ("deprecated-autocasts", "did you mean AMP101?"),
        ("AL", "did you mean ALL?"),
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
        ('[tool.amplint]\nignore = [\n  "AMP9"]\n', r"pyproject.toml:3: unknown rule 'AMP9'; the nearest is AMP\d+"),
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
