"""The page's style and templates. They hold no script, and every value is escaped where it is filled in."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --bg: #fff; --soft: #f6f8fa; --line: #d1d9e0; --text: #1f2328; --dim: #59636e;
  --link: #0969da; --green: #1a7f37; --red: #cf222e; --purple: #8250df; --grey: #59636e; --warn: #ffebe9; }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --soft: #151b23; --line: #3d444d; --text: #f0f6fc;
  --dim: #9198a1; --link: #4493f8; --green: #238636; --red: #da3633; --purple: #8957e5; --grey: #656c76;
  --warn: #490202; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
.bar { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; justify-content: space-between;
  background: var(--soft); border-bottom: 1px solid var(--line); padding: .6rem 1.2rem; }
.bar strong a { color: inherit; text-decoration: none; }
.note { color: var(--dim); font-size: .85rem; }
main { max-width: 58rem; margin: 1.5rem auto; padding: 0 1.2rem 3rem; }
h1 { font-size: 1.6rem; font-weight: 500; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h1 .note { font-size: inherit; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
a { color: var(--link); }
.meta { display: flex; flex-wrap: wrap; gap: .4rem .7rem; align-items: center; color: var(--dim);
  border-bottom: 1px solid var(--line); padding-bottom: .9rem; }
code { background: var(--soft); border: 1px solid var(--line); border-radius: 4px; padding: .1rem .3rem;
  font: .85em ui-monospace, monospace; overflow-wrap: anywhere; }
.state { border-radius: 2rem; padding: .15rem .7rem; background: var(--grey); color: #fff; font-size: .85rem;
  font-weight: 600; white-space: nowrap; }
.open { background: var(--green); } .closed { background: var(--red); } .merged { background: var(--purple); }
article { border: 1px solid var(--line); border-radius: 6px; margin: 1rem 0; overflow: hidden; }
article:target { border-color: var(--link); box-shadow: 0 0 0 1px var(--link); }
article > header { display: flex; flex-wrap: wrap; gap: .2rem .8rem; align-items: baseline; background: var(--soft);
  border-bottom: 1px solid var(--line); padding: .45rem .9rem; color: var(--dim); font-size: .9rem; }
article > header b { color: var(--text); }
article > header .id { margin-left: auto; color: var(--dim); }
pre { margin: 0; padding: .8rem .9rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font: 13px/1.5 ui-monospace, monospace; }
.foot { display: flex; flex-wrap: wrap; gap: .4rem .6rem; align-items: center; padding: .3rem .9rem .7rem; }
.foot details[open] { flex-basis: 100%; }
.pill { border: 1px solid var(--line); border-radius: 2rem; padding: .05rem .6rem; font-size: .85rem; }
details > summary { cursor: pointer; color: var(--dim); font-size: .9rem; }
details.hidden > summary { padding: .5rem .9rem; font-style: italic; }
.before { border-left: 3px solid var(--line); margin: .5rem 0; }
textarea, select, input { font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--line);
  border-radius: 6px; padding: .3rem .5rem; }
textarea { width: 100%; font: 13px/1.5 ui-monospace, monospace; }
form { display: inline; }
form.whole { display: block; }
button { font: 600 .85rem system-ui, sans-serif; color: var(--text); background: var(--soft);
  border: 1px solid var(--line); border-radius: 6px; padding: .3rem .8rem; cursor: pointer; }
button.main { background: var(--green); border-color: var(--green); color: #fff; }
button.risky { color: var(--red); }
.acts { display: flex; flex-wrap: wrap; gap: .5rem; border: 1px solid var(--line); border-radius: 6px; padding: .8rem; }
.error { background: var(--warn); border: 1px solid var(--red); border-radius: 6px; padding: .5rem .9rem; }
ul.list { list-style: none; padding: 0; border: 1px solid var(--line); border-radius: 6px; }
ul.list li { padding: .6rem .9rem; border-top: 1px solid var(--line); }
ul.list li:first-child { border-top: 0; }
"""

LAYOUT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{ title }}</title><link rel="stylesheet" href="/sandbox.css"></head>
<body><div class="bar"><span><strong><a href="/">Sandbox forge</a></strong>
<span class="note">a local stand-in; whoever is here may act as anybody</span></span>
{% if logins %}<form method="get"><label>You act as <select name="as">{% for login in logins %}
<option{% if login == acting %} selected{% endif %}>{{ login }}</option>{% endfor %}</select></label>
<button>Switch</button></form>{% endif %}</div>
<main>{% block body %}{% endblock %}</main></body></html>"""

INDEX: Final = """{% extends "layout" %}{% block body %}<h1>{{ title }}</h1>
{% for name, pulls in repositories %}<h2>{{ name }}</h2>
<ul class="list">{% for pull in pulls %}<li><span class="state {{ pull.state }}">{{ pull.state }}</span>
<a href="/{{ name }}/pull/{{ pull.number }}">{{ pull.title }}</a> <span class="note">#{{ pull.number }}</span></li>
{% else %}<li class="note">No pull request yet.</li>{% endfor %}</ul>
{% else %}<p>No repository yet.</p>{% endfor %}{% endblock %}"""

MACROS: Final = """{% macro act(name, number, acting, what, words, kind="", fields={}) %}
<form method="post" action="/{{ name }}/pull/{{ number }}/{{ what }}"><input type="hidden" name="login"
value="{{ acting }}">{% for key, value in fields.items() %}<input type="hidden" name="{{ key }}" value="{{ value }}">
{% endfor %}<button class="{{ kind }}">{{ words }}</button></form>{% endmacro %}"""

PULL: Final = """{% extends "layout" %}{% import "macros" as m %}{% block body %}
<h1>{{ subject }} <span class="note">#{{ number }}</span></h1>
<div class="meta"><span class="state {{ state }}">{{ state }}</span>{% if locked %}
<span class="state">locked{% if locked != "locked" %}: {{ locked }}{% endif %}</span>{% endif %}
<span><b>{{ author }}</b> wants to merge <code>{{ head_ref }}</code> into <code>{{ base_ref }}</code></span>
<span>head <code>{{ head_sha }}</code></span></div>
{% if error %}<p class="error" role="alert">{{ error }}</p>{% endif %}
<article><header><b>{{ author }}</b> opened this {{ at }}</header><pre>{{ body }}</pre></article>
{% if checks %}<h2>Checks of the head</h2><ul class="list">{% for check in checks %}<li>
<span class="state {{ check.kind }}">{{ check.state }}</span> <b>{{ check.name }}</b> {{ check.title }}
<span class="note">by {{ check.app }}</span><div class="acts">{% for label, identifier in check.buttons %}
{{ m.act(name, number, acting, "press", label, fields={"check": check.id, "identifier": identifier}) }}
{% endfor %}</div></li>
{% endfor %}</ul>{% endif %}
{% for review in reviews %}<article id="pullrequestreview-{{ review.id }}"><header><b>{{ review.author }}</b>
<span>reviewed {{ review.at }}</span><span class="pill">{{ review.state }}</span></header>
<pre>{{ review.body }}</pre></article>{% endfor %}
{% for comment in comments %}<article id="issuecomment-{{ comment.id }}"><header><b>{{ comment.author }}</b>
<span>{{ comment.at }}</span>{% for mark in comment.marks %}<span class="pill">{{ mark }}</span>{% endfor %}
<a class="id" href="#issuecomment-{{ comment.id }}">{{ comment.id }}</a></header>
{% if comment.hidden %}<details class="hidden"><summary>This comment was minimised: {{ comment.hidden }}.</summary>
<pre>{{ comment.body }}</pre></details>{% else %}<pre>{{ comment.body }}</pre>{% endif %}
<div class="foot">{% for pill in comment.reactions %}<span class="pill" title="{{ pill.who }}">{{ pill.content }}
{{ pill.count }}</span>{% endfor %}
{% if comment.history %}<details><summary>History: {{ comment.history|length }} earlier
{{ "text" if comment.history|length == 1 else "texts" }}</summary>{% for past in comment.history %}
<div class="before"><span class="note">until {{ past.until }}, when {{ past.editor }} edited it</span>
<pre>{{ past.text }}</pre></div>{% endfor %}</details>{% endif %}
<details><summary>Edit</summary><form class="whole" method="post" action="/{{ name }}/pull/{{ number }}/edit">
<input type="hidden" name="login" value="{{ acting }}"><input type="hidden" name="comment" value="{{ comment.id }}">
<textarea name="body" rows="4" required aria-label="New text">{{ comment.body }}</textarea>
<button>Save as {{ acting }}</button></form></details>
{% if not comment.hidden %}{{ m.act(name, number, acting, "minimise", "Minimise", fields={"comment": comment.id}) }}
{% endif %}{{ m.act(name, number, acting, "react", "+1", fields={"comment": comment.id, "content": "+1"}) }}
{{ m.act(name, number, acting, "delete", "Delete", "risky", {"comment": comment.id}) }}</div></article>{% endfor %}
<h2>Write a comment</h2>
<form class="whole" method="post" action="/{{ name }}/pull/{{ number }}/comment">
<input type="hidden" name="login" value="{{ acting }}">
<textarea name="body" rows="5" required aria-label="Comment">{{ draft }}</textarea>
<p><button class="main">Comment as {{ acting }}</button>
<button name="event" value="COMMENT" formaction="/{{ name }}/pull/{{ number }}/review">Review as {{ acting }}</button>
</p></form>
<h2>As {{ acting }}</h2><div class="acts">
{% if is_open %}{{ m.act(name, number, acting, "draft" if state != "draft" else "ready",
"Convert to draft" if state != "draft" else "Ready for review") }}
{{ m.act(name, number, acting, "push", "Move the head") }}
{% if state == "open" %}{{ m.act(name, number, acting, "merge", "Merge") }}{% endif %}
{{ m.act(name, number, acting, "close", "Close", "risky") }}
{% elif state != "merged" %}{{ m.act(name, number, acting, "reopen", "Reopen") }}{% endif %}
{% if locked %}{{ m.act(name, number, acting, "unlock", "Unlock the conversation") }}
{% else %}{{ m.act(name, number, acting, "lock", "Lock the conversation") }}{% endif %}
</div>{% endblock %}"""
