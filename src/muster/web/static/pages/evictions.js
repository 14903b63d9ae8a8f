// Who was evicted or moved, for whom, by which rule, and what was lost.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { age, amount, moment, named } from "../format.js";

const SPANS = { "1 hour": 3600, "1 day": 86400, "7 days": 604800, "30 days": 2592000 };
const MOST = 500;

export default {
  title: () => "Evictions",

  async load({ query }, ask) {
    const span = Number(query.get("span") ?? SPANS["1 day"]) || SPANS["1 day"];
    const queue = query.get("queue") ?? "", taker = query.get("for") ?? "";
    const since = Date.now() / 1000 - span;
    const found = await ask(`history?kind=evicted,moved&limit=${MOST}&since=${since.toFixed(0)}&queue=${encodeURIComponent(queue)}&actor_queue=${encodeURIComponent(taker)}`);
    return { items: found.items, span, queue, taker };
  },

  view({ items, span, queue, taker }) {
    return html`
      <form class="tools" @submit=${(event) => event.preventDefault()}>
        <label>In the last <select @change=${(event) => turn(event.target.value, queue, taker)}>
          ${Object.entries(SPANS).map(([name, seconds]) => html`<option value=${seconds} ?selected=${seconds === span}>${name}</option>`)}
        </select></label>
        ${queue ? html`<button class="chip" @click=${() => turn(span, "", taker)} title="remove this filter">of queue ${queue} ✕</button>` : nothing}
        ${taker ? html`<button class="chip" @click=${() => turn(span, queue, "")} title="remove this filter">for queue ${taker} ✕</button>` : nothing}
      </form>
      ${items.length ? html`${totals(items)}${table(items)}` : html`<p class="card">Nobody was evicted or moved in that time.</p>`}`;
  },
};

const turn = (span, queue, taker) => (location.hash = `#/evictions?${new URLSearchParams({ span, ...(queue && { queue }), ...(taker && { for: taker }) })}`);
export const lost = (items) => items.reduce((sum, event) => sum + ((event.lost_s ?? 0) * event.gpus) / 3600, 0);

function totals(items) {
  const queues = new Map();
  for (const event of items) {
    if (!queues.has(event.queue)) queues.set(event.queue, []);
    queues.get(event.queue).push(event);
  }
  return html`<ul class="tiles">
      <li><b>${amount(items.length)}</b> evictions and moves</li>
      <li><b>${amount(items.reduce((sum, event) => sum + event.gpus, 0))}</b> GPUs changed hands</li>
      <li><b>${lost(items).toFixed(1)}</b> GPU-hours of work lost</li>
    </ul>
    <section class="card"><h2>By queue</h2><div class="scroll" role="region" tabindex="0" aria-label="By queue"><table class="wide">
      <thead><tr><th>Queue</th><th class="number">Times</th><th class="number">GPUs</th><th class="number">GPU-hours lost</th></tr></thead>
      <tbody>${[...queues].sort((a, b) => b[1].length - a[1].length).map(([name, its]) => html`<tr data-row tabindex="-1">
        <th scope="row"><a href="#/queue/${name}">${name}</a></th><td class="number">${amount(its.length)}</td>
        <td class="number">${amount(its.reduce((sum, event) => sum + event.gpus, 0))}</td><td class="number">${lost(its).toFixed(1)}</td></tr>`)}</tbody>
    </table></div></section>`;
}

const table = (items) => html`<section class="card"><h2>One by one</h2>
  <div class="scroll" role="region" tabindex="0" aria-label="Evictions"><table class="wide cards">
    <thead><tr><th>Job</th><th>When</th><th>What</th><th class="number">Pods</th><th class="number">GPUs</th><th class="number">Ran</th><th class="number">Lost</th><th>For</th><th>Because</th></tr></thead>
    <tbody>${items.map((event) => html`<tr data-row tabindex="-1">
      <th scope="row"><a href="#/job/${event.job}">${named(event.job)}</a></th>
      <td>${moment(event.at)}</td><td>${event.kind}${event.by ? html` by ${event.by}` : nothing}</td>
      <td class="number" data-name="pods">${amount(event.pods)}</td><td class="number" data-name="GPUs">${amount(event.gpus)}</td>
      <td class="number" data-name="ran">${event.ran_s == null ? "–" : age(event.ran_s)}</td><td class="number" data-name="lost">${event.lost_s == null ? "–" : age(event.lost_s)}</td>
      <td data-name="for">${event.for ? html`<a href="#/job/${event.for}">${named(event.for)}</a>` : "–"}</td>
      <td class="text">${named(event.because)}${event.moves_to.length ? html`: ${event.nodes.join(", ")} → ${event.moves_to.join(", ")}` : nothing}</td></tr>`)}</tbody>
  </table></div>
  ${items.length === MOST ? html`<p>${MOST} shown: take a shorter time, or <code>muster history --evictions --until</code>.</p>` : nothing}</section>`;
