// What changes while a page is open: events by number and kind only, read again from the workspace where they matter.
// One stream serves all tabs of a browser. A card that settles elsewhere settles here and says by whom; what somebody
// was typing stays. Without a stream the same is done after each act of one's own.
"use strict";

(function () {
  const PATH = "/api/v1/events";
  const CALM = 250;
  const AGAIN = 10000;
  const WORDS = { on: "live", again: "reconnecting", off: "not live", ended: "signed out" };

  // ---- the stream, held by one tab

  let last = null;
  let state = "off";
  let source = null;
  const tabs = "BroadcastChannel" in window ? new BroadcastChannel("gitops-bot-live") : null;

  function show(now) {
    state = now;
    const place = document.querySelector("[data-live]");
    if (place && place.dataset.live !== now) {
      place.dataset.live = now;
      place.querySelector("[data-live-text]").textContent = WORDS[now];
    }
  }

  function tell(message) {
    take(message);
    if (tabs) {
      tabs.postMessage(message);
    }
  }

  function take(message) {
    if (message.state) {
      show(message.state);
    }
    if (message.seq) {
      last = message.seq;
    }
    if (message.reset) {
      window.location.reload();
    }
    if (message.kind) {
      happened(message);
    }
  }

  function connect() {
    source = new EventSource(last === null ? PATH : `${PATH}?after=${last}`);
    source.addEventListener("ready", (event) => {
      tell({ state: "on", seq: JSON.parse(event.data).seq });
      refreshBadge();
    });
    source.addEventListener("reset", () => tell({ reset: true }));
    // A stream that ends for any other reason, a restart among them, is opened again by the browser.
    source.addEventListener("ended", (event) => {
      if (JSON.parse(event.data).reason === "signed_out") {
        source.close();
        tell({ state: "ended" });
      }
    });
    source.onmessage = (event) => tell({ state: "on", ...JSON.parse(event.data) });
    source.onerror = () => {
      if (state === "ended") {
        return;
      }
      tell({ state: "again" });
      if (source.readyState === EventSource.CLOSED) {
        window.setTimeout(connect, AGAIN);
      }
    };
  }

  function start() {
    if (!("EventSource" in window)) {
      return;
    }
    if (!tabs || !navigator.locks) {
      connect();
      return;
    }
    tabs.onmessage = (event) => {
      if (event.data.ask_state) {
        if (source) {
          tabs.postMessage({ state });
        }
      } else {
        take(event.data);
      }
    };
    tabs.postMessage({ ask_state: true });
    // Held until this tab goes away; then the next one connects and goes on from what it has seen.
    navigator.locks.request("gitops-bot-live", () => new Promise(connect));
  }

  // ---- what an event means for what is on screen

  const moved = new Set();
  let opened = false;
  let timer = 0;

  function happened(event) {
    document.dispatchEvent(new CustomEvent("live:event", { detail: event }));
    if (event.ask) {
      moved.add(event.ask);
      opened = opened || !document.getElementById(`row-${event.ask}`);
      later();
    }
  }

  function later() {
    window.clearTimeout(timer);
    timer = window.setTimeout(flush, CALM);
  }

  function flush() {
    const asks = [...moved];
    moved.clear();
    refreshBadge();
    for (const ask of asks) {
      refreshCard(ask, "");
      refreshRow(ask);
    }
    if (opened) {
      opened = false;
      refreshList();
    }
  }

  function setBadge(words) {
    const badge = document.querySelector("[data-badge]");
    if (badge) {
      badge.hidden = words === "";
      badge.querySelector("[data-badge-count]").textContent = words;
    }
    const plain = document.title.replace(/^\(\d+\+?\) /, "");
    document.title = words === "" ? plain : `(${words}) ${plain}`;
    const count = document.querySelector("[data-list-count]");
    if (count) {
      count.textContent = `${words || "Nothing"} ${words === "" || words === "1" ? "needs" : "need"} you · newest first`;
    }
  }

  async function refreshBadge() {
    try {
      const response = await fetch("/needs-you/badge", { credentials: "same-origin", redirect: "error" });
      if (response.ok) {
        setBadge((await response.text()).trim());
      }
    } catch (error) {
      // The next event asks again.
    }
  }

  // A piece is taken over only where it differs from what stands there, so that nothing moves under somebody's hands;
  // what they typed or unfolded is looked at in the moment of the exchange, not when the piece was asked for.
  const known = new WeakMap();

  async function exchange(find, path, before, after) {
    let response;
    try {
      response = await fetch(path + window.location.search, {
        credentials: "same-origin",
        redirect: "error",
        headers: { "HX-Request": "true", Accept: "text/html" },
      });
    } catch (error) {
      return;
    }
    const html = response.ok ? await response.text() : "";
    const place = find();
    const plain = html.replace(/<time[^>]*>[^<]*<\/time>/g, "");
    if (!place || html === "" || known.get(place) === plain) {
      return;
    }
    const kept = before(place);
    window.htmx.swap(place, html, { swapStyle: "outerHTML", swapDelay: 0, settleDelay: 0 });
    const now = find();
    if (now) {
      known.set(now, plain);
      after(now, kept);
    }
  }

  function refreshRow(ask) {
    const find = () => document.getElementById(`row-${ask}`);
    if (!find()) {
      return;
    }
    const before = (row) => ({
      focused: row.contains(document.activeElement),
      marked: row.querySelector("[data-mark]:checked") !== null,
    });
    exchange(find, `/asks/${ask}/row`, before, (row, kept) => {
      const mark = row.querySelector("[data-mark]");
      if (kept.marked && mark) {
        mark.checked = true;
      }
      if (kept.focused) {
        row.querySelector(".ask-link").focus();
      }
      document.dispatchEvent(new CustomEvent("rows:changed"));
    });
  }

  // The list is read again where nobody is in the middle of it; else a line above it says that there is something new.
  function refreshList() {
    const list = document.querySelector("[data-list]");
    if (!list) {
      return;
    }
    const inUse = list.contains(document.activeElement) || list.scrollTop > 0 || list.querySelector("[data-mark]:checked");
    if (inUse || new URLSearchParams(window.location.search).has("before")) {
      document.querySelector("[data-fresh]").hidden = false;
    } else {
      readList();
    }
  }

  function readList() {
    const list = document.querySelector("[data-list]");
    const current = document.querySelector("#card");
    const url = new URL("/needs-you/list", window.location.href);
    url.search = window.location.search;
    url.searchParams.delete("before");
    url.searchParams.delete("ask");
    if (current) {
      url.searchParams.set("ask", current.dataset.card);
    }
    document.querySelector("[data-fresh]").hidden = true;
    return window.htmx.ajax("GET", url.pathname + url.search, { target: list, swap: "innerHTML" });
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-show-fresh]")) {
      readList().then(() => document.querySelector(".ask-link, [data-list]").focus());
    }
  });

  // ---- a card read again

  function typed(card) {
    const kept = [];
    for (const field of card.querySelectorAll("textarea, input[type=text], input[type=radio]:checked")) {
      if (field.type === "radio" || field.value !== "") {
        kept.push({ id: field.id, name: field.name, value: field.value, radio: field.type === "radio" });
      }
    }
    return kept;
  }

  function putBack(card, kept, words) {
    const homeless = [];
    for (const one of kept) {
      const field = one.radio
        ? card.querySelector(`input[type=radio][value="${CSS.escape(one.value)}"]`)
        : one.id && card.querySelector(`#${CSS.escape(one.id)}`);
      if (field && one.radio) {
        field.checked = true;
      } else if (field) {
        field.value = one.value;
      } else if (!one.radio) {
        homeless.push(one.value);
      }
    }
    if (words || homeless.length) {
      const note = document.createElement("div");
      note.className = "note warn kept";
      note.setAttribute("role", "alert");
      const lines = words ? [words] : [];
      if (homeless.length) {
        lines.push("What you had typed was not sent:");
      }
      for (const line of lines) {
        note.appendChild(document.createElement("p")).textContent = line;
      }
      for (const text of homeless) {
        note.appendChild(document.createElement("pre")).textContent = text;
      }
      card.querySelector(".card-head").after(note);
    }
  }

  function held(card) {
    return {
      typed: typed(card),
      unfolded: [...card.querySelectorAll("details[data-part][open]")].map((one) => one.dataset.part),
      state: card.dataset.state,
      focused: card.contains(document.activeElement) ? document.activeElement.id || "card" : "",
    };
  }

  function settled(card, kept, words) {
    putBack(card, kept.typed, words);
    for (const part of card.querySelectorAll("details[data-part]")) {
      part.open = part.open || kept.unfolded.includes(part.dataset.part);
    }
    if (kept.focused) {
      (document.getElementById(kept.focused) || card).focus({ preventScroll: true });
    }
    const outcome = card.querySelector("[data-outcome] .outcome-head");
    if (kept.state === "OPEN" && outcome) {
      const who = card.querySelector("[data-outcome-who]").textContent.split("·");
      window.act.toast(`${outcome.textContent} By ${who[0].trim()}.`);
    }
  }

  function refreshCard(ask, words) {
    const find = () => document.querySelector(`#card[data-card="${CSS.escape(ask)}"]`);
    const card = find();
    if (!card) {
      return;
    }
    if (card.querySelector('[aria-busy="true"]') || window.act.armed()) {
      window.setTimeout(() => refreshCard(ask, words), 1000);
      return;
    }
    exchange(find, `/asks/${ask}/card`, held, (now, kept) => settled(now, kept, words));
  }

  document.addEventListener("ask:moved", (event) => {
    refreshCard(event.detail.ask, event.detail.words || "");
    refreshRow(event.detail.ask);
    refreshBadge();
    if (event.detail.leaves) {
      refreshList();
    }
  });

  // ---- times stay true

  function span(milliseconds) {
    const seconds = Math.max(0, Math.floor(milliseconds / 1000));
    for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= length) {
        return `${Math.floor(seconds / length)} ${unit}`;
      }
    }
    return `${seconds} s`;
  }

  function tick() {
    const now = Date.now();
    for (const place of document.querySelectorAll("time[data-at]")) {
      const since = now - Number(place.dataset.at);
      place.textContent = since < 10000 ? "just now" : `${span(since)} ago`;
    }
    for (const place of document.querySelectorAll("time[data-until]")) {
      const rest = Number(place.dataset.until) - now;
      place.textContent = rest > 0 ? `${span(rest)} left` : "time is over";
      place.classList.toggle("soon", rest < 3600000);
    }
  }

  window.setInterval(tick, 15000);
  start();
  window.live = { refreshCard, refreshRow, readList, tick, state: () => state };
})();
