// The page that an OpenID provider sends a browser back to: what it was given is sent to the API once, by this page of
// the workspace, and taken out of the address. Nothing of it is shown.
"use strict";

(function () {
  const place = document.querySelector("[data-provided]");
  if (!place) {
    return;
  }
  const given = new URLSearchParams(window.location.search);
  window.history.replaceState(null, "", window.location.pathname);

  function say(text) {
    place.textContent = text;
  }

  async function finish() {
    const code = given.get("code");
    const state = given.get("state");
    if (given.get("error") || !code || !state) {
      say("The provider signed nobody in. Nothing was done; go back and try again.");
      return;
    }
    const response = await fetch("/api/v1/auth/oidc/finish", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ code: code, state: state }),
    });
    const answer = await response.json();
    if (!response.ok) {
      say(answer.detail || "That did not work. Go back and try again.");
      return;
    }
    window.location.replace(answer.next);
  }

  finish().catch(() => say("The workspace could not be reached. Go back and try again."));
})();
