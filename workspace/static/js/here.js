// A link from another site (a pull request, a chat) reaches a page without the session's cookie, which is SameSite=Strict,
// and ends at the page to sign in. Asked from there, by a page of the workspace, the cookie is sent: whoever is signed in
// goes on to what they wanted.
"use strict";

(function () {
  const form = document.querySelector('form[data-ceremony="sign-in"]');
  if (!form) {
    return;
  }
  fetch("/api/v1/auth/session", { headers: { Accept: "application/json" } })
    .then((response) => {
      if (response.ok) {
        window.location.replace(form.dataset.next);
      }
    })
    .catch(() => {});
})();
