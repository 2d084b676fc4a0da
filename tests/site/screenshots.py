"""The site in a real browser: `python -m tests.site.screenshots [FOLDER]` builds it and takes pictures of its pages.

It needs Debian's `chromium` (`apt-get install chromium`) and amplint's extra `docs`. Each page is taken light and dark,
wide and as wide as a phone. It fails if a page is wider than a phone's screen, or if the search doesn't find a page.
How the pages look is for a person to say.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep

from tests import ROOT

# Pages of each kind.
PAGES = ("", "getting-started/", "rules/", "rules/AMP401/", "rules/AMP505/", "configuration/", "evidence/", "nan/")
STORIES = ("stories/no-inf-checks/", "verify/", "integrations/", "amp-facts/", "architecture/")
_TRIES = 5
WIDE, PHONE = (1280, 1600), (390, 1600)
# A frame of a phone's width says how wide its page wants to be: chromium itself opens no window that is as narrow.
_MEASURE = """<!doctype html><title>?</title>
<iframe id="frame" src="/{page}" style="width: 390px; height: 900px; border: 0"></iframe>
<script>
frame.onload = () => {{
  const page = frame.contentDocument;
  document.title = "width " + page.documentElement.scrollWidth;
}}
</script>
"""
# What a reader types, and the page that has to be found.
SEARCHES = {"clip-without-unscale": "rules/AMP401/", "no inf checks": "stories/no-inf-checks/", "loss is NaN": "nan/"}
_SEARCH = """<!doctype html><title>?</title>
<iframe id="frame" src="/" style="width: 1200px; height: 900px; border: 0"></iframe>
<script>
frame.onload = async () => {{
  const page = frame.contentDocument;
  const query = page.querySelector("[data-md-component=search-query]");
  for (let time = 0; time < 60; time++) {{
    query.value = "{words}";
    for (const name of ["focus", "keyup", "input"]) query.dispatchEvent(new Event(name, {{bubbles: true}}));
    await fetch("/wait?" + time);
    const found = [...page.querySelectorAll(".md-search-result__item a")].map((each) => each.pathname);
    if (found.length) {{
      document.title = "found " + found.join(" ");
      break;
    }}
  }}
}};
</script>
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer, to /wait after a while: the browser's clock runs only while nothing is loading."""
        if self.path.startswith("/wait"):
            sleep(0.2)
        super().do_GET()


def chromium(*arguments: str) -> str:
    """Run the browser without a window, and return the page that it has made."""
    program = shutil.which("chromium") or sys.exit("chromium is not installed: apt-get install chromium")
    words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    for _ in range(_TRIES):  # now and then it hangs
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, suppress(subprocess.TimeoutExpired):
            own = [*words, f"--user-data-dir={profile}"]
            return subprocess.run(own, capture_output=True, text=True, check=True, timeout=30).stdout
    sys.exit(f"chromium hangs: {' '.join(words)}")


def too_wide(address: str, site: Path) -> Iterator[str]:
    """The pages that a phone has to move sideways."""
    for page in (*PAGES, *STORIES):
        (site / "measure.html").write_text(_MEASURE.format(page=page))
        shown = chromium("--virtual-time-budget=5000", "--dump-dom", f"{address}/measure.html")
        width = re.search(r"<title>width (\d+)", shown)
        if width is None or int(width[1]) > PHONE[0]:
            yield f"{page or 'index'}: {width[1] if width else '?'} pixels wide"


def not_found(address: str, site: Path) -> Iterator[str]:
    """What the search doesn't find."""
    for words, page in SEARCHES.items():
        (site / "measure.html").write_text(_SEARCH.format(words=words))
        shown = chromium("--virtual-time-budget=20000", "--dump-dom", f"{address}/measure.html")
        found = re.search(r"<title>found ([^<]*)", shown)
        if found is None or f"/{page}" not in found[1].split():
            yield f"the search for {words!r} doesn't find {page}"


def take(address: str, folder: Path) -> None:
    """Pictures of all pages."""
    for page in (*PAGES, *STORIES):
        for scheme in ("light", "dark"):
            for name, (width, height) in (("wide", WIDE), ("phone", PHONE)):
                place = folder / f"{page.strip('/').replace('/', '-') or 'index'}-{scheme}-{name}.png"
                dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
                chromium(
                    *dark,
                    f"--window-size={width},{height}",
                    "--virtual-time-budget=3000",
                    f"--screenshot={place}",
                    f"{address}/{page}",
                )
                print(place, flush=True)


def main() -> None:
    """Build, take, measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.site.screenshots", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "screenshots")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as site:
        words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site]
        subprocess.run(words, cwd=ROOT, check=True)
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site))
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        take(address, folder)
        wrong = [*too_wide(address, Path(site)), *not_found(address, Path(site))]
    if wrong:
        sys.exit("\n".join(wrong))
    print(
        f"{len(PAGES) + len(STORIES)} pages, each light and dark, wide and on a phone; none wider than a phone; "
        f"{len(SEARCHES)} searches found their page"
    )


if __name__ == "__main__":
    main()
