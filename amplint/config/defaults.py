"""The defaults of settings."""

from __future__ import annotations

# What no project writes itself: version control, environments, caches, build products, what macOS keeps of a file, and
# copies of other projects.
DEFAULT_EXCLUDE = (
    "._*",
    ".amplint_cache",
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "3rdparty",
    "__pypackages__",
    "_build",
    "_vendor",
    "buck-out",
    "dist",
    "external",
    "node_modules",
    "site-packages",
    "submodules",
    "third-party",
    "third_party",
    "thirdparty",
    "vendor",
    "vendored",
    "venv",
)

# The file that each virtual environment has in its folder, whatever that is called.
ENVIRONMENT = "pyvenv.cfg"


# Where imports are looked for behind the folders of the file that has them.
DEFAULT_SRC = (".", "src")


# The device types that autocast knows.
DEVICES = ("cpu", "cuda", "hpu", "ipu", "maia", "mlu", "mps", "mtia", "musa", "npu", "xla", "xpu")
# What people call them, or the hardware that they are for.
DEVICES_KNOWN_AS = {
    "amd": "cuda",
    "apple": "mps",
    "ascend": "npu",
    "gaudi": "hpu",
    "gpu": "cuda",
    "hip": "cuda",
    "intel": "xpu",
    "metal": "mps",
    "nvidia": "cuda",
    "rocm": "cuda",
    "tpu": "xla",
}
