// Shows a token that the API gave once: in the form that asked for it, as text, until the page is left. It is kept
// nowhere else.
"use strict";

(function () {
  document.addEventListener("act:done", (event) => {
    const form = event.target;
    if (!form.matches("form[data-token]") || !event.detail || typeof event.detail.token !== "string") {
      return;
    }
    const place = form.querySelector("[data-token-place]");
    place.querySelector("[data-copied]").textContent = event.detail.token;
    place.querySelector("[data-copy]").hidden = !navigator.clipboard;
    place.hidden = false;
    for (const field of form.querySelectorAll(".field input")) {
      field.value = "";
    }
    place.querySelector("pre").focus();
  });
})();
