// Who may have what, who has it, who is owed?

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { amount } from "../format.js";
import { changed } from "../flash.js";
import { bar, keys, standing } from "./bars.js";

export default {
  title: () => "Queues",

  async load(where, ask) {
    return (await ask("queues")).items;
  },

  /** Amounts change in place: rows stay where they are. */
  heard(queues, told) {
    const byName = new Map(queues.map((queue) => [queue.name, queue]));
    for (const [name, used, share, running, waiting] of told.queues) {
      const queue = byName.get(name);
      if (!queue) return false;
      queue.gpu.used = used;
      queue.gpu.share = share;
      queue.jobs.running = running;
      queue.jobs.waiting = waiting;
    }
    return false; // what asks and stands follows a little later
  },

  view(queues) {
    if (!queues.length)
      return html`<p>No queues yet. Work without a queue waits. <code>kubectl apply -f examples/quick-start</code></p>`;
    const most = Math.max(1, ...queues.map((queue) => Math.max(queue.gpu.used, queue.gpu.share ?? 0)));
    return html`<section class="card"><div class="scroll" role="region" tabindex="0" aria-label="Queues"><table class="wide cards">
      <thead><tr>
        <th>Name</th><th class="number">Quota</th><th class="number">Share</th><th class="number">Used</th>
        <th class="number">Limit</th><th>Use</th><th>Stands</th><th class="number">Run</th><th class="number">Wait</th><th>Because</th>
      </tr></thead>
      <tbody>${repeat(queues, (queue) => queue.name, row(most))}</tbody>
    </table></div>${keys()}</section>`;
  },
};

const row = (most) => (queue) => html`<tr data-row tabindex="-1">
  <th scope="row" class="depth-${Math.min(queue.depth, 5)}"><a href="#/queue/${queue.name}">${queue.name}</a></th>
  <td class="number" data-name="quota">${amount(queue.gpu.quota)}</td>
  <td class="number ${changed(`${queue.name} share`, queue.gpu.share)}" data-name="share">${amount(queue.gpu.share)}</td>
  <td class="number ${changed(`${queue.name} used`, queue.gpu.used)}" data-name="used">${amount(queue.gpu.used)}</td>
  <td class="number" data-name="limit">${amount(queue.gpu.limit)}</td>
  <td class="whole">${bar(queue, most)}</td>
  <td class="stands ${queue.stands.kind}">${standing(queue)}</td>
  <td class="number ${changed(`${queue.name} running`, queue.jobs.running)}" data-name="run">${amount(queue.jobs.running)}</td>
  <td class="number ${changed(`${queue.name} waiting`, queue.jobs.waiting)}" data-name="wait">${amount(queue.jobs.waiting)}</td>
  <td>${reasons(queue)}</td>
</tr>`;

const reasons = (queue) =>
  Object.entries(queue.reasons).length
    ? Object.entries(queue.reasons)
        .sort((a, b) => b[1] - a[1])
        .slice(0, 3)
        .map(([code, count]) => html`<a class="chip" href="#/jobs?queue=${queue.name}&code=${code}&state=waiting">${code} ${amount(count)}</a> `)
    : nothing;
