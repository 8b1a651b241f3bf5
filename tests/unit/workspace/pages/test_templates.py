"""What holds for every template, script and file of the pages, whoever writes the next one."""

import hashlib
import json
import re
from pathlib import Path

import pytest

import workspace
from tests.harmless import read_page
from tests.unit.workspace.pages.conftest import Desk
from workspace.pages.keyboard import NAVIGATION

ROOT = Path(workspace.__file__).parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted((ROOT / "static/js").glob("*.js"))
STYLES = sorted((ROOT / "static/css").glob("*.css"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", TEMPLATES, ids=named)
def test_a_template_escapes_everything(path: Path) -> None:
    """`workspace.texts.said` alone makes markup; no template takes escaping off."""
    text = path.read_text()
    assert not re.search(r"\|\s*safe\b|autoescape|Markup|\|\s*(?:tojson|urlize|xmlattr)\b", text)


@pytest.mark.parametrize("path", TEMPLATES, ids=named)
def test_a_template_has_nothing_inline_and_nothing_remote(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\s(?:on[a-z]+|style|hx-on[^=]*|hx-vals|hx-vars|hx-ext|hx-post|hx-put|hx-delete)=[\"']", text)
    assert "<style" not in text
    for script in re.findall(r"<script[^>]*>", text):
        assert 'nonce="{{ csp_nonce() }}"' in script
        assert "src=\"{{ asset('" in script or "src=\"{{ static('" in script
    for address in re.findall(r'(?:src|action|href)="([^"{]*)', text):
        assert not address.startswith(("http", "//", "data:", "javascript:"))


@pytest.mark.parametrize("path", TEMPLATES, ids=named)
def test_what_an_attribute_quotes_is_quoted(path: Path) -> None:
    """Escaping covers quoted values only."""
    assert not re.search(r"\s[a-z-]+=\{[{%]", path.read_text())


@pytest.mark.parametrize("path", TEMPLATES, ids=named)
def test_every_field_has_a_label(path: Path) -> None:
    text = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
    labelled = set(re.findall(r'<label[^>]* for="([^"]+)"', text))
    wrapped = "".join(re.findall(r"<label\b.*?</label>", text, flags=re.DOTALL))
    for field in re.findall(r"<(?:input|select|textarea)\b[^>]*>", text):
        if 'type="hidden"' in field or field in wrapped or "aria-label" in field:
            continue
        found = re.search(r'\sid="([^"]+)"', field)
        assert found is not None, field
        assert found[1] in labelled, field


@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_a_script_makes_no_code_and_no_markup_of_words(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\beval\b|new Function|(?:inner|outer)HTML\s*=|insertAdjacentHTML|document\.write", text)
    assert not re.search(r"https?://|import\(|importScripts", text)
    assert '"use strict";' in text


@pytest.mark.parametrize("path", STYLES, ids=named)
def test_a_style_loads_nothing(path: Path) -> None:
    assert not re.search(r"url\(|@import|expression\(", path.read_text())


def test_what_is_vendored_is_what_was_published() -> None:
    listed = re.findall(r"\| `([^`]+\.js)` .*`([0-9a-f]{64})` \|", (ROOT / "static/vendor/README.md").read_text())
    files = sorted((ROOT / "static/vendor").glob("*.js"))
    assert [name for name, _ in listed] == [path.name for path in files]
    for name, digest in listed:
        assert hashlib.sha256((ROOT / "static/vendor" / name).read_bytes()).hexdigest() == digest
    assert "Zero-Clause BSD" in (ROOT / "static/vendor/htmx-LICENSE").read_text()


def test_htmx_may_do_little(desk: Desk) -> None:
    page = read_page(desk.page("/needs-you"))
    held = next(one for one in page.all("meta") if one.get("name") == "htmx-config")
    found = json.loads(held["content"])
    assert found["allowEval"] is False
    assert found["allowScriptTags"] is False
    assert found["selfRequestsOnly"] is True
    assert found["includeIndicatorStyles"] is False
    assert found["historyCacheSize"] == 0


def test_every_page_of_the_navigation_is_there(desk: Desk) -> None:
    for _, path, label in NAVIGATION:
        page = read_page(desk.page(path))
        here = [one for one in page.all("a") if one.get("aria-current") == "page"]
        assert [one["href"] for one in here] == [path]
        assert label in page.text


def test_the_keyboards_list_and_switch_are_on_every_page(desk: Desk) -> None:
    html = desk.page("/agents")
    assert 'data-single-keys="on"' in html
    assert '<dialog id="keys"' in html
    assert desk.alice.call("POST", "/auth/preferences", {"single_keys": False}).status_code < 300
    assert 'data-single-keys="off"' in desk.page("/agents")


def test_files_are_kept_for_good_by_their_content_alone(desk: Desk) -> None:
    page = read_page(desk.page("/needs-you"))
    for one in (*page.all("script"), *page.all("link")):
        address = one.get("src") or one["href"]
        response = desk.stranger.get(address)
        assert response.status_code == 200
        assert "immutable" in response.headers["Cache-Control"]
        assert desk.stranger.get(address.partition("?")[0]).headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["../pages/inbox.py", "..%2f__init__.py", "none.js", "", "css/", "%00", "%2fetc%2fpasswd"]
)
def test_nothing_but_our_files_is_served(desk: Desk, name: str) -> None:
    assert desk.stranger.get(f"/static/{name}?v=x", follow_redirects=True).status_code == 404


def test_the_front_leads_to_what_needs_the_person(desk: Desk) -> None:
    response = desk.alice.get("/")
    assert (response.status_code, response.headers["Location"]) == (303, "/needs-you")
