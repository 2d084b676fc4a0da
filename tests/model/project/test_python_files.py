from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.model.project.python_files import importer_of

LEGACY = "from torch.cuda.amp import autocast\n\nwith autocast():\n    pass\n"


def package(folder: Path, **files: str) -> Path:
    (folder / "pyproject.toml").write_text("")
    for name, text in files.items():
        path = folder / "pkg" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "pkg"


@pytest.mark.parametrize(
    "taker",
    [
        "from .compat import autocast\n",
        "from pkg.compat import (\n    other,\n    autocast as region,\n)\n",
        "from pkg import compat\n\nwith compat.autocast():\n    pass\n",
        "from pkg import compat as c\n\nwith c.autocast():\n    pass\n",
        "import pkg.compat as c\n\nwith c.autocast():\n    pass\n",
        "from .compat import *\n\nwith autocast():\n    pass\n",
        "from .compat import other, \\\n    autocast\n",
    ],
)
def test_a_name_that_another_file_takes_stays(tmp_path: Path, taker: str) -> None:
    pkg = package(tmp_path, compat=LEGACY, train=taker)
    assert importer_of(str(pkg / "compat.py"), "autocast") == str(pkg / "train.py")
    (found,) = check(LEGACY, str(pkg / "compat.py"))
    assert found.fix is None
    assert found.withheld.startswith("train.py imports `autocast` from this file, ")


def test_other_imports_hinder_nothing(tmp_path: Path) -> None:
    taker = "from .other import autocast\nfrom .compat import GradScaler\n"
    pkg = package(tmp_path, compat=LEGACY, train=taker)
    assert importer_of(str(pkg / "compat.py"), "autocast") is None
    (found,) = check(LEGACY, str(pkg / "compat.py"))
    assert found.fix is not None


def test_a_text_without_a_file_has_no_importers() -> None:
    assert importer_of("<string>", "autocast") is None
