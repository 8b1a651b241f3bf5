// The page of an agent or a capture, `data-live-of`, reads itself again when something happened there, and takes over its
// parts, `data-live-part`, that differ. A part that somebody is in the middle of waits until they are done.
"use strict";

(function () {
  const CALM = 400;
  const AGAIN = 5000;
  const page = document.querySelector("[data-live-of]");
  let timer = 0;

  function later(wait) {
    window.clearTimeout(timer);
    timer = window.setTimeout(refresh, wait);
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
    if (page && [event.detail.agent, event.detail.capture].includes(page.dataset.liveOf)) {
      later(CALM);
    }
  });
})();
