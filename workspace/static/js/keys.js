// The keyboard. Keys without a modifier act only where nobody types, and only while the person has them switched on.
// Approve and deny act on the open card that has the focus, or on the batch that is marked while the list has it; what
// the policy marks as high risk, and every batch, is armed first and confirmed with Enter or y within five seconds.
"use strict";

(function () {
  const CHORD_FOR = 1500;
  let chord = 0;
  let place = 0;

  const card = () => document.querySelector("#card");
  const links = () => [...document.querySelectorAll(".ask-link")];
  const inCard = () => Boolean(card() && card().contains(document.activeElement));

  function typing(target) {
    return target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
  }

  function selected() {
    const open = card() && document.getElementById(`row-${card().dataset.card}`);
    const row = document.activeElement.closest(".ask") || open;
    return row ? row.querySelector(".ask-link") : null;
  }

  function move(by) {
    const all = links();
    if (!all.length) {
      return;
    }
    const now = all.indexOf(selected());
    // A row that is gone leaves its place to the one that came after it.
    const wanted = now >= 0 ? now + by : by > 0 ? place : place - 1;
    const next = all[Math.max(0, Math.min(all.length - 1, wanted))];
    place = all.indexOf(next);
    const more = next === all[all.length - 1] && document.querySelector(".asks .more a");
    if (more) {
      more.click();
    }
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    return next;
  }

  function step(by) {
    const through = inCard();
    const next = move(by);
    if (through && next && !next.hasAttribute("aria-current")) {
      // From card to card is one step back for the browser's history, however many there were.
      next.setAttribute("hx-replace-url", next.getAttribute("href"));
      next.removeAttribute("hx-push-url");
      next.click();
    } else if (through && card()) {
      card().focus({ preventScroll: true });
    }
  }

  function toList() {
    const back = card() && card().querySelector("[data-back-link]");
    if (!document.querySelector("[data-panes]")) {
      if (back) {
        back.click();
      }
      return;
    }
    const current = document.querySelector(".ask-link[aria-current]") || links()[Math.min(place, links().length - 1)];
    closeDetail(current);
  }

  // On a narrow screen the card covers the list, so that going back takes it away.
  function closeDetail(row) {
    const narrow = window.matchMedia("(max-width: 719px)").matches;
    if (narrow && card()) {
      const detail = document.querySelector("#detail");
      window.history.pushState({}, "", detail.dataset.back || "/needs-you");
      detail.replaceChildren();
    }
    if (row) {
      row.focus();
      row.scrollIntoView({ block: "nearest" });
    }
  }

  function press(key) {
    const button = inCard() && card().querySelector(`button[data-key="${key}"]:not(:disabled)`);
    const batch = document.querySelector("[data-batch]:not([hidden])");
    if (button) {
      button.form.requestSubmit(button);
    } else if (!inCard() && batch) {
      const all = batch.querySelector(`button[value="${key === "a" ? "approve" : "deny"}"]`);
      all.form.requestSubmit(all);
    } else if (card() && !inCard()) {
      window.act.toast("Open the card first: Enter on its row. Then a and d act on it.");
    } else {
      window.act.toast("There is nothing here that this key answers.");
    }
  }

  function choose(digit) {
    const radio = inCard() && card().querySelector(`input[data-digit="${digit}"]:not(:disabled)`);
    if (!radio) {
      return;
    }
    radio.checked = true;
    card().querySelector("[data-send]").focus();
    window.act.toast(`Option ${digit} is chosen. Enter sends it.`);
  }

  function handle() {
    const details = inCard() && card().querySelector("[data-snooze], [data-hold]");
    if (details) {
      details.open = true;
      details.querySelector("button, input").focus();
    }
  }

  function comment() {
    const field = inCard() && card().querySelector("[data-comment]");
    if (field) {
      field.focus();
    }
  }

  function mark() {
    const row = selected();
    const box = row && row.closest(".ask").querySelector("[data-mark]");
    if (box) {
      box.click();
    } else if (row) {
      window.act.toast("This one is answered on its own: only bound asks that are not of high risk go into a batch.");
    }
  }

  function help() {
    const sheet = document.querySelector("#keys");
    if (!sheet.open) {
      sheet.showModal();
    }
  }

  function search() {
    const field = document.querySelector("[data-search]");
    if (field) {
      field.focus();
      field.select();
    }
  }

  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    u: toList,
    x: mark,
    a: () => press("a"),
    d: () => press("d"),
    c: comment,
    h: handle,
    "/": search,
    "?": help,
    g: () => { chord = Date.now(); },
  };
  const REPEATS = ["j", "k"];

  function goTo(letter) {
    chord = 0;
    const link = document.querySelector(`[data-chord="${CSS.escape(letter)}"]`);
    if (link) {
      link.click();
    }
  }

  function confirmArmed(event) {
    const button = window.act.armed();
    if (!button || (event.key !== "Enter" && event.key !== "y")) {
      return false;
    }
    event.preventDefault();
    if (!event.repeat) {
      button.form.requestSubmit(button);
    }
    return true;
  }

  function sendFromText(event) {
    const form = event.target.form;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form && form.matches("[data-decide]")) {
      const wanted = form.querySelector(`button[value="${form.dataset.wanted || ""}"]`) || form.querySelector("[data-send]");
      if (wanted) {
        event.preventDefault();
        form.requestSubmit(wanted);
      }
    } else if (event.key === "Escape" && card() && card().contains(event.target)) {
      card().focus({ preventScroll: true });
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.keyCode === 229) {
      return;
    }
    if (typing(event.target)) {
      sendFromText(event);
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) {
      return;
    }
    if (confirmArmed(event) || document.body.dataset.singleKeys === "off") {
      return;
    }
    if (chord && Date.now() - chord < CHORD_FOR) {
      event.preventDefault();
      goTo(event.key);
      return;
    }
    const act = KEYS[event.key] || (/^[1-9]$/.test(event.key) ? () => choose(event.key) : null);
    if (act && (!event.repeat || REPEATS.includes(event.key))) {
      event.preventDefault();
      act();
    }
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open-keys]")) {
      help();
    }
    const back = event.target.closest("[data-back-link]");
    if (back && document.querySelector("[data-panes]") && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      closeDetail(document.querySelector(".ask-link[aria-current]"));
    }
  });

  // ---- the open card and its row

  function follow() {
    const open = card() ? card().dataset.card : "";
    for (const link of links()) {
      const its = link.closest(".ask").dataset.ask === open;
      if (its) {
        link.setAttribute("aria-current", "true");
        place = links().indexOf(link);
      } else {
        link.removeAttribute("aria-current");
      }
    }
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    const where = event.detail.target || event.target;
    if (where.id === "detail" && card()) {
      follow();
      window.scrollTo(0, 0);
      card().focus({ preventScroll: true });
    } else if (where.id === "list") {
      follow();
    }
  });
  document.addEventListener("rows:changed", follow);
  document.addEventListener("htmx:responseError", () => window.act.toast("The workspace did not show it. Load the page again."));
  document.addEventListener("htmx:sendError", () => window.act.toast("The workspace cannot be reached just now."));

  if (card()) {
    card().focus({ preventScroll: true });
  }
})();
