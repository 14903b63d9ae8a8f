// Would it start now? And what if a quota were another? Nothing is submitted or changed.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { amount, counted, named } from "../format.js";
import { Problem, ask } from "../api.js";
import { changes, evicted } from "./answers.js";

/** Kept while the page is left and come back to. */
const typed = { manifest: "", namespace: "default", queue: "", quota: "" };
const answers = { plan: null, whatif: null, problem: null, asking: "" };

export default {
  title: () => "Plan",

  load: async (where, ask) => ({ queues: (await ask("queues")).items }),
  heard: () => true,

  view({ queues }, where, redraw) {
    return html`<div class="halves">
      <section class="card"><h2>Would it start now?</h2>
        <form @submit=${(event) => send(event, redraw, "plan", { manifest: typed.manifest, namespace: typed.namespace, search: true })}>
          <label>Manifests, as for <code>kubectl apply</code>
            <textarea spellcheck="false" required placeholder="apiVersion: batch/v1&#10;kind: Job&#10;…" .value=${typed.manifest} @input=${(event) => (typed.manifest = event.target.value)}></textarea></label>
          <p class="tools"><label>Namespace <input .value=${typed.namespace} @input=${(event) => (typed.namespace = event.target.value)} /></label>
            <button class="first">${answers.asking === "plan" ? "Asking…" : "Ask"}</button></p>
        </form></section>
      <section class="card"><h2>What if a quota were another?</h2>
        <form @submit=${(event) => send(event, redraw, "whatif", { queues: { [typed.queue || queues[0]?.name]: { quota: { gpu: Number(typed.quota) } } } })}>
          <p class="tools"><label>Queue <select @change=${(event) => (typed.queue = event.target.value)}>
              ${queues.map((queue) => html`<option value=${queue.name} ?selected=${queue.name === typed.queue}>${queue.name} (${amount(queue.gpu.quota)})</option>`)}</select></label>
            <label>GPUs <input type="number" min="0" required .value=${typed.quota} @input=${(event) => (typed.quota = event.target.value)} /></label>
            <button class="first">${answers.asking === "whatif" ? "Asking…" : "Ask"}</button></p>
          <p class="quiet">One cycle is decided with it and one without: who starts, who goes, whose share moves.</p>
        </form></section></div>
      <div role="status">${answers.problem ? trouble(answers.problem) : nothing}
        ${answers.plan ? plan(answers.plan) : nothing}${answers.whatif ? whatif(answers.whatif) : nothing}</div>`;
  },
};

async function send(event, redraw, path, body) {
  event.preventDefault();
  Object.assign(answers, { plan: null, whatif: null, problem: null, asking: path });
  redraw();
  try {
    answers[path] = await ask(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    answers.problem = problem.told;
  }
  answers.asking = "";
  redraw();
}

const trouble = (told) => html`<section class="problem" role="alert"><p><strong>${told.message}</strong></p>${told.because ? html`<p>${told.because}</p>` : nothing}
  ${told.next ? html`<p>${told.next}</p>` : nothing}<p class="code">${told.code}</p></section>`;

const plan = (found) => html`<section class="card ${found.starts ? "done" : found.verdict === "never" ? "never" : "later"}">
  <p class="verdict">${found.starts ? (found.evicts.length ? "It would start now, after evictions." : "It would start now.") : `It would not start now: ${found.verdict}.`}</p>
  ${Object.keys(found.where).length ? html`<p>On ${Object.entries(found.where).slice(0, 12).map(([node, count], at) => html`${at ? ", " : ""}<a href="#/node/${node}">${node}</a> (${counted(count, "pod")})`)}</p>` : nothing}
  ${found.evicts.length ? html`<p>Evicts ${evicted(found.evicts)}.</p>` : nothing}
  ${found.reasons.map((reason) => html`<p><strong>${reason.code}</strong> ${named(reason.message)} ${reason.next}</p>`)}
  ${found.problems.map((text) => html`<p>${text}</p>`)}
  ${changes(found.changes)}
  ${found.starts ? html`<p class="quiet">Start it: <code>muster submit -f FILE --plan ${found.token}</code></p>` : nothing}</section>`;

const whatif = (found) => html`<section class="card ${found.evicted_only_with.length ? "later" : "done"}">
  ${found.verdict.map((line) => html`<p class="verdict">${named(line)}</p>`)}
  ${found.starts_only_with.length ? html`<p>Starts: ${named(found.starts_only_with.slice(0, 20).join(", "))}</p>` : nothing}
  ${found.starts_only_without.length ? html`<p>No longer starts: ${named(found.starts_only_without.slice(0, 20).join(", "))}</p>` : nothing}
  ${found.evicted_only_with.length ? html`<p>Evicts ${evicted(found.evicted_only_with)}.</p>` : nothing}
  ${found.evicted_only_without.length ? html`<p>Spares ${evicted(found.evicted_only_without)}.</p>` : nothing}
  ${Object.keys(found.shares).length
    ? html`<table><thead><tr><th>Share of</th><th class="number">now</th><th class="number">then</th></tr></thead><tbody>${Object.entries(found.shares).map(
        ([queue, [before, after]]) => html`<tr><th scope="row">${queue}</th><td class="number">${amount(before)}</td><td class="number">${amount(after)}</td></tr>`,
      )}</tbody></table>`
    : html`<p>Nobody's share moves.</p>`}</section>`;
