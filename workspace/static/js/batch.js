// A batch: at most twenty marked asks of one verb, none of high risk. It shows exactly which, is armed and confirmed, and
// one passkey signs the ordered list; each answer is decided on its own and its outcome stands beside it.
"use strict";

(function () {
  const MOST = 20;
  const OUTCOMES = { settled: "settled", counted: "counts, more votes are needed", revoked: "takes back what had ended" };
  const bar = document.querySelector("[data-batch]");
  if (!bar) {
    return;
  }
  const form = bar.querySelector("[data-batch-form]");
  const list = bar.querySelector("[data-batch-items]");
  const fields = form.querySelector("[data-batch-fields]");
  const answer = form.querySelector("[data-answer]");
  let sending = false;
  let reported = false;

  const marked = () => [...document.querySelectorAll("[data-mark]:checked")].map((box) => box.closest(".ask"));

  function say(text, tone) {
    answer.className = tone || "";
    answer.textContent = text;
  }

  function describe(row) {
    const item = document.createElement("li");
    item.dataset.ask = row.dataset.ask;
    const what = row.querySelector(".ask-what").textContent.trim();
    const who = row.querySelector(".agent").textContent.trim();
    item.textContent = `${what} (${who})`;
    return item;
  }

  function draw() {
    if (sending) {
      return;
    }
    const rows = marked();
    if (reported && rows.length === 0) {
      return;
    }
    reported = false;
    window.act.disarm();
    list.replaceChildren(...rows.map(describe));
    bar.hidden = rows.length === 0;
    if (rows.length) {
      bar.querySelector("[data-batch-count]").textContent = `${rows.length} × ${rows[0].dataset.verb}`;
      fields.hidden = false;
      say("");
    }
  }

  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-mark]")) {
      return;
    }
    const rows = marked();
    if (rows.length > MOST) {
      event.target.checked = false;
      window.act.toast(`A batch holds at most ${MOST}.`);
    } else if (new Set(rows.map((row) => row.dataset.verb)).size > 1) {
      event.target.checked = false;
      window.act.toast(`A batch holds one verb, and this one is of ${rows.find((row) => row !== event.target.closest(".ask")).dataset.verb}.`);
    }
    draw();
  });

  function given(option, text) {
    return marked().map((row) => ({
      ask: row.dataset.ask,
      option,
      ...(text ? { text } : {}),
      action_hash: row.dataset.hash,
      policy: row.dataset.policy,
      run_version: Number.parseInt(row.dataset.version, 10),
    }));
  }

  function report(results) {
    let done = 0;
    for (const result of results) {
      const item = list.querySelector(`li[data-ask="${CSS.escape(result.ask)}"]`);
      const refused = result.problem || null;
      done += refused ? 0 : 1;
      if (item) {
        item.dataset.outcome = refused ? "refused" : "done";
        item.append(`: ${refused ? `${refused.detail || refused.title} What to do: ${refused.remedy}` : OUTCOMES[result.result]}`);
      }
    }
    say(`${done} of ${results.length} answered.`, done === results.length ? "done" : "refused");
    return results.map((result) => result.ask);
  }

  async function send(option) {
    sending = true;
    form.setAttribute("aria-busy", "true");
    say("Waiting for your passkey…");
    try {
      const items = given(option, form.elements.text.value);
      const answered = await window.act.answerBatch(items);
      const asks = report(answered.items || []);
      reported = true;
      fields.hidden = true;
      form.elements.text.value = "";
      clearMarks();
      asks.forEach((ask) => document.dispatchEvent(new CustomEvent("ask:moved", { detail: { ask, own: true } })));
    } catch (error) {
      say(error.message || "It was not sent.", "refused");
    } finally {
      sending = false;
      form.removeAttribute("aria-busy");
    }
  }

  function clearMarks() {
    document.querySelectorAll("[data-mark]:checked").forEach((box) => { box.checked = false; });
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!sending && event.submitter && marked().length && window.act.arm(event.submitter)) {
      send(event.submitter.value);
    }
  });

  bar.addEventListener("click", (event) => {
    if (event.target.closest("[data-batch-clear]")) {
      reported = false;
      clearMarks();
      draw();
      bar.hidden = true;
    }
  });

  document.addEventListener("rows:changed", draw);
  document.addEventListener("htmx:afterSwap", (event) => {
    if ((event.detail.target || event.target).id === "list") {
      draw();
    }
  });
})();
