// Forms `data-ceremony` let a person, a key or a shell in: the server begins, the authenticator answers, the server
// finishes. What happens is said in the form's own status line; the page changes only when it is done. Requests and
// confirmations are those of act.js.
"use strict";

(function () {
  const AUTH = "/api/v1/auth";

  function post(path, body) {
    return window.act.send(AUTH + path, body);
  }

  function field(form, name) {
    return form.elements[name].value.trim();
  }

  const CEREMONIES = {
    "sign-in": async (form, say) => {
      const begun = await post("/sign-in/begin", {});
      say("Use your passkey.");
      const credential = await window.passkeys.get(begun.options);
      await post("/sign-in/finish", { ceremony: begun.id, credential });
      return "You are signed in.";
    },
    enrol: async (form, say) => {
      const begun = await post("/enrol/begin", { code: field(form, "code"), label: field(form, "label") });
      say("Create the passkey on this device or on a security key.");
      const credential = await window.passkeys.create(begun.options);
      const done = await post("/enrol/finish", { ceremony: begun.id, credential });
      // A policy that names a person's passkeys lets no other one in, however it was enrolled.
      return done.person
        ? "The passkey is in, and you are signed in."
        : "The passkey is kept, but the policy names others of yours. Sign in with one of them.";
    },
    another: async (form, say) => {
      say("Confirm with a key that you have.");
      const begun = await post("/passkeys/begin", { label: field(form, "label") });
      say("Now create the new passkey: choose the other device or security key.");
      const credential = await window.passkeys.create(begun.options);
      await post("/passkeys/finish", { ceremony: begun.id, credential });
      return "The new passkey is in.";
    },
    shell: async (form, say) => {
      say("Confirm with your passkey.");
      await post("/shells/confirm", { code: form.dataset.code });
      return "The shell is in. Go on there.";
    },
  };

  function goOn(next) {
    const there = new URL(next, window.location.href);
    if (there.origin !== window.location.origin) {
      return;
    }
    if (there.pathname === window.location.pathname && there.search === window.location.search) {
      window.location.reload();
    } else {
      window.location.assign(there.href);
    }
  }

  async function run(form) {
    const button = form.querySelector("button");
    const line = form.querySelector("[data-say]");
    const say = (words, tone) => {
      line.textContent = words;
      line.className = tone ? `say ${tone}` : "say";
    };
    if (button.getAttribute("aria-disabled") === "true") {
      return;
    }
    button.setAttribute("aria-disabled", "true");
    try {
      say(await CEREMONIES[form.dataset.ceremony](form, say), "done");
      goOn(form.dataset.next);
    } catch (error) {
      const known = error instanceof window.act.Refusal || (error && error.name === "PasskeyError");
      say(known ? error.message : "This page failed. Load it again and repeat it.", "refused");
      if (!known) {
        throw error;
      }
    } finally {
      button.removeAttribute("aria-disabled");
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("form[data-ceremony]") && form.dataset.ceremony in CEREMONIES) {
      event.preventDefault();
      run(form);
    }
  });
})();
