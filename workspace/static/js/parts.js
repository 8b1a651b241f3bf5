// The page of an agent or a capture, `data-live-of` ("*": of all agents), reads itself again when something happened
// there, `data-live-kind` where only one kind counts, and takes over its parts, `data-live-part`, that differ. A part that
// somebody is in the middle of waits until they are done.
"use strict";

(function () {
  const CALM = 400;
  const CALM_OF_ALL = 1000;
  const AGAIN = 5000;
  const page = document.querySelector("[data-live-of]");
  let timer = 0;

  // What is waited for already stays: where something happens all the time, the page would never be read again.
  function later(wait) {
    if (timer === 0) {
      timer = window.setTimeout(refresh, wait);
    }
  }

  function concerns(wanted, event) {
    if (wanted.liveKind && wanted.liveKind !== event.kind) {
      return false;
    }
    return wanted.liveOf === "*" ? Boolean(event.agent) : [event.agent, event.capture].includes(wanted.liveOf);
  }

  // What only says how long ago something was differs in every reading.
  function timeless(part) {
    return part.innerHTML.replace(/<time[^>]*>[^<]*<\/time>/g, "");
  }

  function inUse(part) {
    const typed = [...part.querySelectorAll("textarea, input")].some((field) => field.value !== "");
    return typed || part.contains(document.activeElement) || part.querySelector('[aria-busy="true"], .armed') !== null;
  }

  async function refresh() {
    timer = 0;
    let html = "";
    try {
      const response = await fetch(window.location.href, {
        credentials: "same-origin",
        redirect: "error",
        headers: { Accept: "text/html" },
      });
      html = response.ok ? await response.text() : "";
    } catch (error) {
      // The next event asks again.
    }
    if (html !== "") {
      takeOver(new DOMParser().parseFromString(html, "text/html"));
    }
  }

  function takeOver(now) {
    for (const part of document.querySelectorAll("[data-live-part]")) {
      const fresh = now.querySelector(`[data-live-part="${CSS.escape(part.dataset.livePart)}"]`);
      if (fresh && timeless(fresh) !== timeless(part)) {
        if (inUse(part)) {
          later(AGAIN);
        } else {
          part.replaceWith(document.importNode(fresh, true));
        }
      }
    }
    window.live.tick();
  }

  document.addEventListener("live:event", (event) => {
    if (page && concerns(page.dataset, event.detail)) {
      later(page.dataset.liveOf === "*" ? CALM_OF_ALL : CALM);
    }
  });
})();
