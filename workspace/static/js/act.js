// Forms that act. A `<form data-act action="/api/v1/…">` is sent as one JSON object with the token of this page; what the
// API refuses is shown in its own words and what was typed stays. Where a passkey must speak, it is asked: over the
// statement of a bound answer, or to confirm an act of its own. A form is never sent twice at once, and what the policy
// marks as high risk is armed first and sent by a second press or key within five seconds.
"use strict";

(function () {
  const API = "/api/v1";
  const ARMED_FOR = 5000;
  const ID = /^[0-9a-hjkmnp-tv-z]{26}$/;
  const NO_ANSWER = "The workspace did not answer. Nothing that is not told was done; try again.";

  class Refusal extends Error {
    constructor(status, problem) {
      super([problem.detail || problem.title || NO_ANSWER, problem.remedy].filter(Boolean).join(" What to do: "));
      this.name = "Refusal";
      this.status = status;
      this.reason = problem.reason || null;
      this.facts = problem.facts || {};
    }
  }

  function csrf() {
    const meta = document.querySelector('meta[name="csrf"]');
    return meta ? meta.content : "";
  }

  async function call(path, body, method) {
    let response;
    try {
      response = await fetch(path, {
        method: method || "POST",
        credentials: "same-origin",
        redirect: "error",
        headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRF-Token": csrf() },
        body: JSON.stringify(body),
      });
    } catch (error) {
      throw new Refusal(0, { detail: NO_ANSWER });
    }
    const text = await response.text();
    let document_ = {};
    try {
      document_ = text ? JSON.parse(text) : {};
    } catch (error) {
      throw new Refusal(response.status, { detail: NO_ANSWER });
    }
    if (response.ok) {
      return document_;
    }
    if (response.status === 401) {
      document_.remedy = "";
      document_.detail = "You are no longer signed in. Open another tab, sign in, and send this again; it is kept here.";
    }
    throw new Refusal(response.status, document_);
  }

  // An act that only a passkey can confirm is refused with the act as the API knows it; the same request goes again
  // with the confirmation of this very act.
  async function send(path, body, method) {
    try {
      return await call(path, body, method);
    } catch (error) {
      if (!(error instanceof Refusal) || error.reason !== "assertion_required" || !error.facts.act) {
        throw error;
      }
      const asked = await call(API + "/auth/fresh/begin", { act: JSON.parse(error.facts.act) });
      const credential = await window.passkeys.get(asked.options);
      return call(path, { ...body, fresh: { ceremony: asked.id, credential } }, method);
    }
  }

  async function sendBound(path, asking, body, place) {
    const asked = await call(asking, body);
    const credential = await window.passkeys.get(asked.options);
    return call(path, place(body, { ceremony: asked.id, credential }));
  }

  function answerBound(ask, body) {
    const path = `${API}/asks/${ask}`;
    return sendBound(`${path}/answer`, `${path}/statement`, body, (sent, assertion) => ({ ...sent, assertion }));
  }

  function answerBatch(items) {
    const path = `${API}/answers`;
    return sendBound(path, `${path}/statement`, { answers: items }, (sent, assertion) => ({ ...sent, assertion }));
  }

  // ---- fields

  const CONVERT = {
    integer: (field) => Number.parseInt(field.value, 10),
    boolean: (field) => field.checked,
    json: (field) => JSON.parse(field.value),
    hours: (field) => `${Number.parseInt(field.value, 10)}h`,
    tomorrow: () => `${minutesUntilNine()}m`,
  };

  function read(form, submitter) {
    const body = {};
    for (const field of form.elements) {
      const plain = field.name && !field.disabled && field.type !== "submit" && field.type !== "button";
      if (!plain || (field.type === "radio" && !field.checked)) {
        continue;
      }
      const convert = CONVERT[field.dataset.type];
      if (convert) {
        body[field.name] = convert(field);
      } else if (field.type === "checkbox" ? field.checked : field.value !== "") {
        body[field.name] = field.value;
      }
    }
    if (submitter && submitter.name) {
      const convert = CONVERT[submitter.dataset.type];
      body[submitter.name] = convert ? convert(submitter) : submitter.value;
    }
    return body;
  }

  // Tomorrow is the reader's, so that it is nine where they are.
  function minutesUntilNine() {
    const at = new Date();
    at.setDate(at.getDate() + 1);
    at.setHours(9, 0, 0, 0);
    return Math.max(1, Math.round((at.getTime() - Date.now()) / 60000));
  }

  function tell(form, text, tone) {
    const place = form.querySelector("[data-answer]");
    if (place) {
      place.className = tone || "";
      place.textContent = text;
    } else {
      toast(text);
    }
  }

  let toasted = 0;

  function toast(text) {
    const place = document.querySelector("[data-toast]");
    if (!place) {
      return;
    }
    place.textContent = text;
    window.clearTimeout(toasted);
    toasted = window.setTimeout(() => { place.textContent = ""; }, 6000);
  }

  // ---- arming

  let armed = null;

  function disarm() {
    if (!armed) {
      return false;
    }
    const { button, words, timer } = armed;
    armed = null;
    window.clearTimeout(timer);
    button.classList.remove("armed");
    button.querySelector("[data-words]").textContent = words;
    return true;
  }

  // Gives true when the button was armed already, so that this press is the second one.
  function arm(button) {
    if (armed && armed.button === button) {
      disarm();
      return true;
    }
    disarm();
    const label = button.querySelector("[data-words]");
    armed = { button, words: label.textContent, timer: window.setTimeout(lapse, ARMED_FOR) };
    button.classList.add("armed");
    label.textContent = button.dataset.armed || `${label.textContent}: press again`;
    toast(`${armed.words} is armed. Enter or y sends it within 5 seconds, Escape cancels.`);
    button.focus();
    return false;
  }

  function lapse() {
    if (disarm()) {
      toast("Not sent: it was not confirmed within 5 seconds.");
    }
  }

  // ---- sending a form

  const busy = new WeakSet();

  function setBusy(form, is) {
    (is ? busy.add : busy.delete).call(busy, form);
    for (const button of form.querySelectorAll("button")) {
      button.setAttribute("aria-disabled", String(is));
    }
    form.setAttribute("aria-busy", String(is));
  }

  function lacks(form, body, submitter) {
    if (form.dataset.ask && body.option === "deny" && !body.text && !form.dataset.unexplained) {
      form.dataset.unexplained = "asked";
      form.dataset.wanted = "deny";
      const field = form.querySelector("textarea");
      if (field) {
        field.focus();
      }
      return "Say why in a sentence: the agent reads it. Deny once more to send it without.";
    }
    if (form.dataset.needs && !form.dataset.needs.split(" ").some((name) => body[name])) {
      return submitter && submitter.dataset.lacking ? submitter.dataset.lacking : "Choose an option or write an answer.";
    }
    return "";
  }

  async function submit(form, submitter) {
    if (busy.has(form)) {
      return;
    }
    const body = read(form, submitter);
    const missing = lacks(form, body, submitter);
    if (missing) {
      tell(form, missing, "refused");
      return;
    }
    if (submitter && submitter.dataset.armed && !arm(submitter)) {
      return;
    }
    setBusy(form, true);
    tell(form, form.dataset.bound === "yes" ? "Waiting for your passkey…" : "");
    try {
      const path = form.getAttribute("action");
      const bound = form.dataset.bound === "yes";
      const answer = bound ? await answerBound(form.dataset.ask, body) : await send(path, body, form.dataset.method);
      settle(form, answer);
    } catch (error) {
      refused(form, error);
    } finally {
      setBusy(form, false);
    }
  }

  function refused(form, error) {
    const known = error instanceof Refusal || (error && error.name === "PasskeyError");
    tell(form, known ? error.message : "This page failed to send it. Load it again; what you typed is still here.", "refused");
    form.dispatchEvent(new CustomEvent("act:refused", { bubbles: true, detail: error }));
    if (form.dataset.ask && error instanceof Refusal && [409, 410, 403].includes(error.status)) {
      // The card is not what it was any more: show what is, with the refusal and what was typed kept.
      document.dispatchEvent(new CustomEvent("ask:moved", { detail: { ask: form.dataset.ask, words: error.message } }));
    }
    if (!known) {
      throw error;
    }
  }

  function settle(form, answer) {
    const done = form.dataset.done || "stay";
    form.dispatchEvent(new CustomEvent("act:done", { bubbles: true, detail: answer }));
    if (done === "reload") {
      window.location.reload();
    } else if (done === "ask" && ID.test(answer.id)) {
      window.location.assign(`/asks/${answer.id}`);
    } else if (done.startsWith("go:/") && !done.startsWith("go://")) {
      window.location.assign(done.slice(3));
    } else {
      tell(form, form.dataset.said || "Done.", "done");
    }
    if (form.dataset.ask) {
      forget(form);
      const said = answer.result === "counted" ? "Your vote counts. More are needed before it is decided." : form.dataset.said;
      if (said) {
        toast(said);
      }
      const moved = { ask: form.dataset.ask, own: true, leaves: "leaves" in form.dataset };
      document.dispatchEvent(new CustomEvent("ask:moved", { detail: moved }));
    }
    if (done === "single-keys") {
      document.body.dataset.singleKeys = form.elements.single_keys.checked ? "on" : "off";
    }
  }

  function forget(form) {
    for (const field of form.querySelectorAll("textarea, input[type=text]")) {
      field.value = "";
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("form[data-act]")) {
      event.preventDefault();
      submit(form, event.submitter);
    }
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-act] [data-auto]")) {
      event.target.form.requestSubmit();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && disarm()) {
      event.preventDefault();
      toast("Cancelled; nothing was sent.");
    }
  });

  // The second press of a double click is no decision of its own.
  document.addEventListener("click", (event) => {
    if (event.detail > 1 && event.target.closest("[data-armed]")) {
      event.preventDefault();
    }
  }, true);

  // ---- copying

  function offerCopies(root) {
    if (navigator.clipboard) {
      root.querySelectorAll("[data-copy][hidden]").forEach((button) => { button.hidden = false; });
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) {
      const text = button.closest(".copyable").querySelector("[data-copied]").textContent;
      try {
        await navigator.clipboard.writeText(text);
        toast("Copied.");
      } catch (error) {
        toast("The browser did not let this be copied; select the text instead.");
      }
    }
  });

  document.addEventListener("htmx:load", (event) => offerCopies(event.detail.elt));
  offerCopies(document);

  window.act = {
    send, answerBound, answerBatch, read, submit, toast, arm, disarm, Refusal, armed: () => (armed ? armed.button : null),
  };
})();
