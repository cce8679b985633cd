from pathlib import Path

from marrow import outline, parse, to_html

SAMPLES = Path(__file__).parent.parent / "samples"


def test_manual():
    html = to_html((SAMPLES / "manual.md").read_text(encoding="utf-8"))
    for tag in ("h1", "h2", "h3", "p", "ul", "ol", "li", "table", "tr", "pre", "code", "em", "strong", "a", "blockquote"):
        assert html.count(f"<{tag}>") + html.count(f"<{tag} ") == html.count(f"</{tag}>")
    assert "\ue000" not in html


def test_outline():
    lines = outline(parse((SAMPLES / "manual.md").read_text(encoding="utf-8"))).splitlines()
    assert lines[0] == "Handbook of the Harbour Model 3 #handbook-of-the-harbour-model-3"
    assert len(lines) > 30
