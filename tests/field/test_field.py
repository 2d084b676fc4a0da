"""The field run's own logic on made-up data; the run itself needs the network and is asked for by AMPLINT_FIELD=1."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.field import __main__ as field
from tests.field import fetch, fixing, index, recall, rounds
from tests.field.lint import FieldFinding, LintRun, read_run
from tests.field.packages import FieldError, Package, choose, read_packages
from tests.field.report import has_amp_words
from tests.field.verdicts import COLUMNS, Key, compare, read_verdicts

TINY = Package("tiny", "1.0", True)
OTHER = Package("other", "2.0")
FINDING = FieldFinding("tiny/train.py", 2, 5, "AMP401", "clips scaled gradients")
KEY = Key("tiny==1.0", "tiny/train.py", 2, "AMP401")


def verdicts_file(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "verdicts.csv"
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n", encoding="utf-8")
    return path


def test_committed_lists_agree() -> None:
    packages = read_packages()
    assert sum(package.ci for package in packages) == 2
    assert {key.package for key in read_verdicts()} <= set(map(str, packages))


def test_packages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "packages.txt"
    path.write_text("# a comment\n\ntiny==1.0 ci\nother==2.0  # why\n", encoding="utf-8")
    assert read_packages(path) == [TINY, OTHER]


@pytest.mark.parametrize("line", ["tiny", "tiny>=1", "tiny==1.0 CI", "tiny==1.0\nTiny==1.1"])
def test_bad_package_lines_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "packages.txt"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(FieldError, match=r"packages\.txt:\d"):
        read_packages(path)


def test_packages_are_chosen() -> None:
    packages = [TINY, OTHER]
    assert choose(packages, [], ci=False) == packages
    assert choose(packages, [], ci=True) == [TINY]
    assert choose(packages, ["OTHER"], ci=False) == [OTHER]
    with pytest.raises(FieldError, match="did you mean other"):
        choose(packages, ["othr"], ci=False)
    with pytest.raises(FieldError, match="no package"):
        choose(packages, ["other"], ci=True)


def test_verdicts_are_read(tmp_path: Path) -> None:
    path = verdicts_file(tmp_path, 'tiny==1.0,tiny/train.py,2,AMP401,right,"clips first, unscales never"')
    assert read_verdicts(path) == {KEY: "right"}


@pytest.mark.parametrize(
    "row",
    [
        "tiny==1.0,tiny/train.py,2,AMP401,right",
        "tiny==1.0,tiny/train.py,2,AMP401,right,",
        "tiny==1.0,tiny/train.py,2,AMP401,maybe,because",
        "tiny==1.0,tiny/train.py,two,AMP401,right,because",
        'tiny==1.0,tiny/train.py,2,AMP401,right,"because',
    ],
)
def test_bad_verdicts_are_named(tmp_path: Path, row: str) -> None:
    with pytest.raises(FieldError, match=r"verdicts\.csv:2"):
        read_verdicts(verdicts_file(tmp_path, row))


def test_second_verdict_and_wrong_columns_are_named(tmp_path: Path) -> None:
    row = "tiny==1.0,tiny/train.py,2,AMP401,right,because"
    with pytest.raises(FieldError, match="second verdict"):
        read_verdicts(verdicts_file(tmp_path, row, row))
    path = tmp_path / "empty.csv"
    path.touch()
    with pytest.raises(FieldError, match="first line"):
        read_verdicts(path)


def test_findings_meet_verdicts() -> None:
    elsewhere = FINDING._replace(line=9)
    comparison = compare({"tiny==1.0": [FINDING, elsewhere]}, {KEY: "right"}, ["tiny==1.0"])
    assert comparison.judged == {"tiny==1.0": Counter(right=1)}
    assert comparison.without_verdict == [("tiny==1.0", elsewhere)]
    assert comparison.without_finding == []


def test_one_verdict_covers_a_code_twice_on_a_line() -> None:
    comparison = compare({"tiny==1.0": [FINDING, FINDING._replace(column=30)]}, {KEY: "right"}, ["tiny==1.0"])
    assert comparison.judged["tiny==1.0"] == Counter(right=2)
    assert comparison.standing == Counter(right=1)


def test_stale_verdicts_are_told_from_those_of_packages_left_out() -> None:
    gone, left_out, moved_on = (
        KEY._replace(line=3),
        KEY._replace(package="other==2.0"),
        KEY._replace(package="tiny==0.9"),
    )
    verdicts = dict.fromkeys((gone, left_out, moved_on), "right")
    comparison = compare({"tiny==1.0": []}, verdicts, ["tiny==1.0", "other==2.0"])
    assert comparison.without_finding == [moved_on, gone]
    assert comparison.standing == Counter(right=1)


@pytest.mark.parametrize(
    ("right", "wrong", "unsure", "broken"),
    [(0, 0, 0, 0), (98, 2, 0, 0), (97, 3, 0, 1), (90, 0, 10, 0), (89, 0, 11, 1), (0, 1, 1, 2)],
)
def test_bars(right: int, wrong: int, unsure: int, broken: int) -> None:
    given = ["right"] * right + ["wrong"] * wrong + ["unsure"] * unsure
    verdicts = {KEY._replace(line=line): verdict for line, verdict in enumerate(given)}
    assert len(compare({}, verdicts, ["tiny==1.0"]).broken_bars()) == broken


def test_output_of_a_run_is_read(tmp_path: Path) -> None:
    item = {
        "filename": str(tmp_path / "tiny" / "train.py"),
        "location": {"row": 2, "column": 5},
        "code": "AMP401",
        "message": "clips scaled gradients",
    }
    assert read_run(tmp_path, 0, json.dumps([item]), "") == LintRun([FINDING], [])
    internal = read_run(tmp_path, 0, json.dumps([item | {"code": "AMP000"}]), "")
    assert internal.crashes == ["tiny/train.py:2: AMP000 clips scaled gradients"]


@pytest.mark.parametrize(
    ("status", "stdout", "stderr"),
    [
        (2, "[]", "broken"),
        (-11, "", ""),
        (0, "[]", "Traceback (most recent call last):\n"),
        (0, "[", ""),
        (0, "{}x", ""),
    ],
)
def test_a_run_that_did_not_work_is_a_crash(tmp_path: Path, status: int, stdout: str, stderr: str) -> None:
    assert read_run(tmp_path, status, stdout, stderr).crashes


def test_amp_words() -> None:
    assert has_amp_words(b"with autocast():")
    assert has_amp_words(b"clip_grad_norm_(p, 1)  # the scaler")
    assert not has_amp_words(b"scaler = StandardScaler()")


def test_fixed_files_are_compared_and_parsed() -> None:
    before = {"same.py": b"x = 1\n", "changed.py": b"x = 1\n", "gone.py": b""}
    after = {"same.py": b"x = 1\n", "changed.py": b"x = (\n"}
    assert fixing.differing(before, after) == ["changed.py", "gone.py"]
    assert not fixing.unparsable(after, "same.py")
    assert fixing.unparsable(after, "changed.py")
    assert fixing.unparsable(after, "gone.py")


def test_index_pages_in_both_forms() -> None:
    page = "https://index.invalid/simple/tiny/"
    expected = [index.IndexFile("tiny-1.0.tar.gz", "https://index.invalid/files/tiny-1.0.tar.gz", "ab")]
    html = b'<html><a href="/files/tiny-1.0.tar.gz#sha256=ab" data-requires-python="&gt;=3">tiny-1.0.tar.gz</a>'
    assert index.parse_html_page(html, page) == expected
    file = {"filename": "tiny-1.0.tar.gz", "url": "../../files/tiny-1.0.tar.gz", "hashes": {"sha256": "ab"}}
    assert index.parse_json_page(json.dumps({"files": [file]}).encode(), page) == expected
    assert index.find_sdist(expected, TINY) == expected[0]
    assert index.find_sdist(expected, TINY._replace(version="1")) is None


@pytest.mark.parametrize("damaged", [False, True])
def test_source_archive_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool) -> None:
    digest = hashlib.sha256(b"content").hexdigest()
    page = f'<a href="tiny-1.0.tar.gz#sha256={digest}">'.encode()
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.invalid/simple")
    answers = {
        "https://index.invalid/simple/tiny/": (page, "text/html"),
        "https://index.invalid/simple/tiny/tiny-1.0.tar.gz": (b"other" if damaged else b"content", ""),
    }
    monkeypatch.setattr(index, "_get", answers.__getitem__)
    if damaged:
        with pytest.raises(FieldError, match="sha256"):
            index.fetch_sdist(TINY, tmp_path)
    else:
        assert index.fetch_sdist(TINY, tmp_path).read_bytes() == b"content"


def write_tar(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def write_zip(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        for name in names:
            zipped.writestr(name, "")
    return path


def test_only_python_files_are_unpacked(tmp_path: Path) -> None:
    sources = ("tiny-1.0/setup.py", "tiny-1.0/tiny/a.py", "tiny-1.0/tiny/data.bin", "stray.py")
    archives = [write_tar(tmp_path / "tiny-1.0.tar.gz", *sources), write_zip(tmp_path / "tiny-1.0.zip", *sources)]
    archives.append(write_zip(tmp_path / "tiny-1.0-py3-none-any.whl", "setup.py", "tiny/a.py", "tiny/data.bin"))
    for number, archive in enumerate(archives):
        folder = tmp_path / str(number)
        folder.mkdir()
        fetch.unpack(archive, folder)
        unpacked = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
        assert unpacked == ["setup.py", "tiny/a.py"]


def test_nothing_is_unpacked_outside(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    with pytest.raises(tarfile.TarError):
        fetch.unpack(write_tar(tmp_path / "tiny-1.0.tar.gz", "tiny-1.0/../../evil.py"), folder)
    fetch.unpack(write_zip(tmp_path / "tiny-1.0.whl", "../../evil.py"), folder)
    assert not (tmp_path / "evil.py").exists()
    assert not (tmp_path / "a" / "evil.py").exists()


def test_fetching_fills_the_cache_once_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["notes.txt"]
    monkeypatch.setattr(fetch, "_download_wheel", lambda _, folder: write_zip(folder / "tiny.whl", *names))
    with pytest.raises(FieldError, match=r"no \.py file"):
        fetch.fetch(TINY, tmp_path)
    assert list(tmp_path.iterdir()) == []
    names.append("tiny.py")
    folder = fetch.fetch(TINY, tmp_path)
    assert [path.name for path in folder.iterdir()] == ["tiny.py"]
    monkeypatch.delattr(fetch, "_download_wheel")
    assert fetch.fetch(TINY, tmp_path) == folder


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ((), {"safe": [], "unsafe": []}),
        (
            ("--fix",),
            {"safe": ["changed again by a second run: a.py"], "unsafe": ["changed again by a second run: a.py"]},
        ),
        (("--unsafe-fixes",), {"safe": [], "unsafe": ["changed again by a second run: a.py"]}),
    ],
)
def test_what_a_second_run_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], problems: dict[str, list[str]]
) -> None:
    """A fixer that is never done with these options is reported, and one that has nothing more to do is not."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.py").write_text("x = 1\n", encoding="utf-8")

    def lint(folder: Path, *given: str) -> LintRun:
        file = folder / "a.py"
        text = file.read_text(encoding="utf-8")
        if options and {*options} <= {*given}:
            file.write_text(f"{text}x += 1\n", encoding="utf-8")
        elif "y" not in text:
            file.write_text(f"{text}y = 1\n", encoding="utf-8")
        return LintRun([], [])

    monkeypatch.setattr(fixing, "lint", lint)
    results = fixing.fix_copies(tmp_path / "sources")
    assert {mode: result.problems for mode, result in results.items()} == problems
    assert {result.changed for result in results.values()} == {1}


@pytest.fixture
def tiny_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A field of one package in a filled cache, and an amplint that finds one thing and fixes it."""
    source = tmp_path / "tiny-1.0" / "tiny" / "train.py"
    source.parent.mkdir(parents=True)
    source.write_text("scaler.scale(loss).backward()\nclip_grad_norm_(parameters, 1.0)\n", encoding="utf-8")

    def lint(folder: Path, *options: str) -> LintRun:
        file = folder / "tiny" / "train.py"
        text = file.read_text(encoding="utf-8")
        if options and "unscale_" not in text:
            file.write_text(f"scaler.unscale_(optimizer)\n{text}", encoding="utf-8")
        return LintRun([] if options else [FINDING], [])

    monkeypatch.setattr(field, "read_packages", lambda: [TINY])
    monkeypatch.setattr(field, "read_verdicts", lambda: {KEY: "right"})
    monkeypatch.setattr(field, "installed_version", lambda: "0")
    monkeypatch.setattr(field, "lint", lint)
    monkeypatch.setattr(fixing, "lint", lint)
    return tmp_path


def test_a_good_run(tiny_field: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert field.main(["--cache", str(tiny_field)]) == 0
    output = capsys.readouterr().out
    assert "without" not in output
    assert "AMP401:1" in output
    assert [path.name for path in tiny_field.iterdir()] == ["tiny-1.0"]


def test_missing_verdict_and_missing_finding_fail(
    tiny_field: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(field, "read_verdicts", lambda: {KEY._replace(line=7): "right"})
    assert field.main(["--cache", str(tiny_field)]) == 1
    output = capsys.readouterr().out
    assert "tiny==1.0,tiny/train.py,2,AMP401,,\n    clips scaled gradients\n    | clip_grad_norm_" in output
    assert "1 verdicts without a finding:\ntiny==1.0,tiny/train.py,7,AMP401\n" in output


def test_what_cannot_be_done_is_said(
    tiny_field: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(package: Package, folder: Path) -> Path:
        raise FieldError(f"{package}: no network")

    monkeypatch.setattr(fetch, "_download_wheel", fail)
    monkeypatch.setattr(field, "read_packages", lambda: [TINY, OTHER])
    assert field.main(["--cache", str(tiny_field)]) == 2
    assert capsys.readouterr().err == "error: other==2.0: no network\n"
    assert field.main(["--cache", str(Path(__file__).parent)]) == 2
    assert field.main(["--cache", str(tiny_field), "--package", "nothing"]) == 2


def test_list(tiny_field: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert field.main(["--cache", str(tiny_field), "--list"]) == 0
    assert capsys.readouterr().out == "tiny==1.0 ci: fetched\n"


@pytest.mark.skipif(os.environ.get("AMPLINT_FIELD") != "1", reason="downloads packages; set AMPLINT_FIELD=1")
def test_the_small_packages() -> None:
    assert field.main(["--ci"]) == 0


def missed_file(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "missed.csv"
    path.write_text("\n".join([",".join(recall.MISSED_COLUMNS), *rows]) + "\n", encoding="utf-8")
    return path


def test_what_is_missed_is_not_found() -> None:
    missed = recall.read_missed()
    assert {key.package for key in missed} <= set(map(str, read_packages()))
    assert not missed.keys() & read_verdicts().keys()


def test_missed_are_read(tmp_path: Path) -> None:
    path = missed_file(tmp_path, "a==1,b.py,9,AMP401,no reason,yes", "a==1,b.py,10,AMP402,none,no")
    assert recall.read_missed(path) == {
        Key("a==1", "b.py", 9, "AMP401"): True,
        Key("a==1", "b.py", 10, "AMP402"): False,
    }


@pytest.mark.parametrize(
    "rows",
    [
        ("a==1,b.py,9,AMP401,no reason",),
        ("a==1,b.py,9,AMP401,,yes",),
        ("a==1,b.py,nine,AMP401,no reason,yes",),
        ("a==1,b.py,9,AMP401,no reason,maybe",),
        ("a==1,b.py,10,AMP401,no reason,yes", "a==1,b.py,9,AMP401,no reason,yes"),
        ("a==1,b.py,9,AMP401,no reason,yes", "a==1,b.py,9,AMP401,another,yes"),
    ],
)
def test_bad_missed_rows_are_named(tmp_path: Path, rows: tuple[str, ...]) -> None:
    with pytest.raises(FieldError, match=rf"missed\.csv: row {len(rows) + 1}"):
        recall.read_missed(missed_file(tmp_path, *rows))


@pytest.mark.parametrize("text", ["", "package,path\n", 'a,"b\n'])
def test_missed_without_their_first_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "missed.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FieldError, match=r"missed\.csv: "):
        recall.read_missed(path)


def test_training_files() -> None:
    assert recall.is_training_file(b"scaler = GradScaler()\nloss.backward()\n")
    assert recall.is_training_file(b"with autocast():\n    loss = f()\nloss.backward()\n")
    assert not recall.is_training_file(b"with autocast():\n    loss = f()\nfabric.backward\n")
    assert not recall.is_training_file(b"loss.backward()\n")


def test_draw_is_steady_and_without_copies(tmp_path: Path) -> None:
    folders = {}
    for package in (TINY, OTHER):
        folders[package] = tmp_path / package.name
        folders[package].mkdir()
        for name in "abcdefgh":
            text = f"# {package.name} {name}\nwith autocast():\n    f()\nloss.backward()\n"
            folders[package].joinpath(f"{name}.py").write_text(text)
        folders[package].joinpath("plain.py").write_text("loss.backward()\n")
        folders[package].joinpath("copy.py").write_text("with autocast(): f()\nloss.backward()\n")

    everything = recall.draw(folders, count=100)
    assert len(everything) == 17
    assert sum(each.path == "copy.py" for each in everything) == 1
    assert {each.lines for each in everything} == {2, 4}
    assert recall.draw(folders, count=5) == everything[:5]
    alone = recall.draw({TINY: folders[TINY]}, count=100)
    assert [each for each in everything if each.package == TINY and each.path != "copy.py"] == [
        each for each in alone if each.path != "copy.py"
    ]
    assert recall.draw(folders, count=100, seed="another") != everything


def test_recall_is_summed_up() -> None:
    drawn = [recall.Drawn(TINY, "tiny/train.py", 40), recall.Drawn(OTHER, "train.py", 7)]
    elsewhere = KEY._replace(path="tiny/other.py")
    verdicts = {KEY: "right", KEY._replace(line=3): "wrong", elsewhere: "right"}
    missed = {KEY._replace(line=5): True, KEY._replace(line=6): False, KEY._replace(line=7): False, elsewhere: True}
    assert recall.table(drawn, verdicts, missed).splitlines() == [
        "found missed unbuilt lines file",
        "    1      1       2    40 tiny==1.0 tiny/train.py",
        "    0      0       0     7 other==2.0 train.py",
        "    1      1       2       all of them",
    ]


def test_the_draw_is_from_all_packages(
    tiny_field: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recall, "read_packages", lambda: [TINY])
    assert recall.main(["--cache", str(tiny_field)]) == 0
    assert capsys.readouterr().out.endswith("all of them\n")
    monkeypatch.setattr(recall, "read_packages", lambda: [TINY, OTHER])
    assert recall.main(["--cache", str(tiny_field)]) == 2
    assert "other==2.0" in capsys.readouterr().err


def test_blind_rounds_are_whole() -> None:
    opened, given = rounds.repositories(), rounds.read_rounds()
    assert {(each.repository, each.round) for each in given} <= opened.items()
    assert {each.verdict for each in given} <= set(rounds.JUDGED)
    assert {fix for each in given for fix in (each.safe_fix, each.unsafe_fix)} <= set(rounds.FIXES)
    assert all(each.why for each in given)
