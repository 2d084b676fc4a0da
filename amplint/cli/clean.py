"""The command `clean`: the cache goes, and the next run starts anew."""

from __future__ import annotations

import os

from amplint.base.paths import shown, visible
from amplint.cache.folder import is_cache, remove
from amplint.cli.arguments import Parser, add_cache_dir
from amplint.cli.check import CLEAN, cache_of, fail
from amplint.config.settings import Overrides, Resolver


def make_parser() -> Parser:
    """The options of the command."""
    description = (
        "Delete the cache of a project: the next run lints all files again. Only amplint's own files\nare deleted."
    )
    parser = Parser("amplint clean", description, examples=("amplint clean", "amplint clean path/to/project"))
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="path",
        help="delete the caches of the projects that contain these paths [default: .]",
    )
    add_cache_dir(parser, "cache directory to delete")
    return parser


def run_clean(arguments: list[str]) -> int:
    """Remove the caches of the projects that `arguments` name and return the exit code."""
    options = make_parser().parse_args(arguments)
    said = {} if options.cache_dir is None else {"cache-dir": options.cache_dir}
    resolver = Resolver(Overrides(said))
    found = dict.fromkeys(cache_of([path], resolver) for path in options.paths or [os.curdir])
    return max(_removed(path) for path in found)


def _removed(path: str | None) -> int:
    if path is None or not os.path.lexists(path):
        print("amplint: no cache" if path is None else f"amplint: no cache in {visible(shown(path))}")
        return CLEAN
    if not is_cache(path):
        return fail(f"{shown(path)}: is not a cache of amplint, and stays")
    try:
        remove(path)
    except OSError as error:
        return fail(f"{shown(path)}: {error.strerror or error}")
    print(f"removed {visible(shown(path))}")
    return CLEAN
