"""The HTML page in a real headless Chromium: nothing is requested, nothing of what a model said is run."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "report"))

from page_facts import measured_comparison, report_arm, two_arms
from report_facts import summary

from soak.facts import Gate
from soak.report.html import comparison_page, runs_page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")

HOSTILE = (
    "<script>window.__pwned=1</script></script><img src=x onerror='window.__pwned=2'>\"><svg onload=window.__pwned=3>"
    "</pre></details></style>{{ 7*7 }}javascript:window.__pwned=4//<!--]]>&lt;b&gt;\x1b[31m\x00\u202edesrever\u2028"
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'><link rel=stylesheet href=http://127.0.0.1:9/x>"
)


class Visit:
    """A page that was opened, with all it requested and complained about."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())

    def count(self, selector: str) -> int:
        """How many elements match and can be seen."""
        return sum(element.is_visible() for element in self.page.query_selector_all(selector))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison's page with hostile text in every place that foreign text can reach."""
    gate = Gate(text=HOSTILE, holds=True, seen={HOSTILE: HOSTILE})
    path = tmp_path_factory.mktemp("pages") / "hostile.html"
    arms = two_arms(HOSTILE, refusal=HOSTILE, error=HOSTILE, defects=(HOSTILE,))
    page = comparison_page(measured_comparison(HOSTILE, invalid=[HOSTILE]), arms, [gate])
    path.write_text(page, encoding="utf-8")
    return path


def test_hostile_text_is_inert(browser: Any, hostile: Path) -> None:
    """No script of the data runs, not even when every turn is opened; the text stands there as text."""
    visit = Visit(browser, hostile)
    visit.page.click("#open-all")
    assert visit.page.evaluate("window.__pwned") is None
    assert visit.page.evaluate("document.scripts.length") == 1
    assert (
        visit.page.evaluate("document.querySelectorAll('img, iframe, object, embed, form, [onload], [onerror]').length")
        == 0
    )
    assert "<script>window.__pwned=1</script>" in visit.page.inner_text("#list")
    assert "\\u{202e}desrever" in visit.page.inner_text("#list")
    assert "{{ 7*7 }}" in visit.page.inner_text(".verdict")
    assert visit.complaints == []


def test_nothing_is_requested_but_the_file_itself(browser: Any, hostile: Path) -> None:
    """Opening the page and all its turns loads nothing, from nowhere."""
    visit = Visit(browser, hostile)
    visit.page.click("#open-all")
    visit.page.wait_for_load_state("networkidle")
    assert visit.requests == [hostile.as_uri()]
    assert visit.page.url == hostile.as_uri()


def test_the_page_shows_the_counts_and_every_plot(browser: Any, hostile: Path) -> None:
    """The table's counts are those of the comparison, and nine plots are drawn with a size."""
    visit = Visit(browser, hostile)
    assert visit.page.inner_text("#failures tbody tr:first-child").split("\t")[:3] == [
        "garbage_loop",
        "11 of 500",
        "7 of 500",
    ]
    plots = visit.page.query_selector_all("figure svg")
    assert len(plots) == 9
    assert all(
        box is not None and box["width"] > 200 and box["height"] > 50 for box in (p.bounding_box() for p in plots)
    )


def test_turns_are_filtered_by_class_arm_and_text(browser: Any, tmp_path: Path) -> None:
    """The list shows all 26 bad turns, then those of a class, of an arm, and containing a text; a link opens one."""
    path = tmp_path / "page.html"
    path.write_text(comparison_page(measured_comparison(), two_arms()), encoding="utf-8")
    visit = Visit(browser, path)
    assert (visit.count("details.turn"), visit.page.inner_text("#matching")) == (26, "26 of 26")
    visit.page.select_option("#by-class", "garbage_loop")
    assert visit.count("details.turn") == 18
    visit.page.select_option("#by-arm", "candidate")
    assert (visit.count("details.turn"), visit.page.inner_text("#matching")) == (7, "7 of 26")
    visit.page.fill("#by-text", "no such text anywhere")
    assert visit.count("details.turn") == 0
    visit.page.goto(f"{path.as_uri()}#turn-3")
    visit.page.reload()
    assert visit.page.get_attribute("#turn-3", "open") is not None
    assert visit.count("#turn-3 mark") == 3
    assert visit.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_narrow_and_wide_in_light_and_dark(browser: Any, hostile: Path, scheme: Any, width: int) -> None:
    """Nothing makes the page scroll sideways, and text and paper contrast in both schemes."""
    visit = Visit(browser, hostile, viewport={"width": width, "height": 800}, color_scheme=scheme)
    visit.page.click("#open-all")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    colours = "getComputedStyle(document.body).{}.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    ink, paper = (visit.page.evaluate(colours.format(name)) for name in ("color", "backgroundColor"))
    assert (ink < 200 < 600 < paper) if scheme == "light" else (paper < 200 < 600 < ink)


def test_a_page_of_one_run_opens_too(browser: Any, tmp_path: Path) -> None:
    """A single run's page has its verdict, plots and turns, and no complaint."""
    path, arm = tmp_path / "page.html", report_arm("candidate", 5)
    path.write_text(runs_page([summary(arms={"candidate": arm.summary})], [arm]), encoding="utf-8")
    visit = Visit(browser, path)
    assert visit.page.inner_text(".badge").lower() == "fail"
    assert visit.count("figure svg") == 5
    assert visit.count("details.turn") == 8
    assert (visit.requests, visit.complaints) == ([path.as_uri()], [])
