// One queue: what it may have and has, over time; its jobs in order; what it gave and took.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { age, amount, clock, counted, named } from "../format.js";
import { bar, keys, standing } from "./bars.js";
import { lost } from "./evictions.js";
import { chart } from "./chart.js";

const DAY = 86400;
/** What takes longer comes later, and stays while it is asked for again. */
const nothingYet = (name) => ({ name, waiting: undefined, series: undefined, late: undefined, given: undefined, taken: undefined });
let known = nothingYet("");

export default {
  title: (where) => where.name || "Queue",

  async load({ name }, ask, redraw) {
    const to = Math.floor(Date.now() / 1000), coded = encodeURIComponent(name);
    if (known.name !== name) known = nothingYet(name);
    const mine = known;
    const keep = (part, answer) => answer.then((found) => { mine[part] = found; }, () => { mine[part] ??= null; }).then(redraw);
    const queue = await ask(`queues/${coded}`);
    keep("late", Promise.all(["held", "share", "asked"].map((what) => ask(`series?what=${what}&queue=${coded}&points=300`))).then(together(name)));
    keep("waiting", ask(`priority?queue=${coded}&limit=20`).then((found) => found.items));
    keep("series", ask(`series?what=used&queue=${coded}&from=${to - 7 * DAY}&to=${to}&points=300`));
    const evictions = `history?kind=evicted,moved&limit=1000&since=${to - 7 * DAY}`;
    keep("given", ask(`${evictions}&queue=${coded}`).then((found) => found.items));
    keep("taken", ask(`${evictions}&actor_queue=${coded}`).then((found) => found.items));
    return { queue };
  },

  view({ queue }) {
    const { gpu } = queue, { waiting, series, late, given, taken } = known;
    return html`
      <ul class="tiles">
        <li><b>${amount(gpu.used)}</b> GPUs used</li><li><b>${amount(gpu.share)}</b> is its share now</li>
        <li><b>${amount(gpu.quota)}</b> guaranteed (quota)</li><li><b>${amount(gpu.limit)}</b> at most (limit)</li>
        <li><b>${amount(queue.jobs.running)}</b> ${queue.jobs.running === 1 ? "job runs" : "jobs run"}, <a href="#/jobs?queue=${queue.name}">all its jobs</a></li><li><b>${amount(queue.jobs.waiting)}</b> ${queue.jobs.waiting === 1 ? "waits" : "wait"}</li>
      </ul>
      <section class="card"><h2>${standing(queue)}</h2>${bar(queue, Math.max(gpu.used, gpu.share ?? 0, gpu.limit ?? 0))}${keys()}
        <p class="quiet">weight ${amount(gpu.weight)}, priority ${amount(queue.priority)}, ${amount(gpu.non_preemptible)} GPUs not preemptible${gpu.past == null ? nothing : `, past use ${(100 * gpu.past).toFixed(1)} % of the cluster's GPUs`}${queue.parent ? html`, below <a href="#/queue/${queue.parent}">${queue.parent}</a>` : nothing}${queue.min_runtime.reclaim_s ? `, runs ${age(queue.min_runtime.reclaim_s)} undisturbed by reclaim` : nothing}</p></section>
      ${late?.t.length ? html`<section class="card"><h2>Held, its share, and asked for, since ${clock(late.t[0])}</h2>${chart(late, "GPUs")}</section>` : nothing}
      ${series ? html`<section class="card"><h2>GPUs held in the last 7 days</h2>${chart(series, "GPUs held")}</section>` : nothing}
      <section class="card"><h2>Waiting, in order</h2>${waiting === undefined ? html`<p class="quiet">Loading…</p>` : waiting === null ? html`<p>It could not be asked who is next.</p>` : waiting.length
        ? html`<div class="scroll" role="region" tabindex="0" aria-label="Waiting"><table class="wide cards"><thead><tr><th class="number">Place</th><th>Job</th><th class="number">Priority</th><th>Behind</th><th>Because</th></tr></thead>
            <tbody>${waiting.map((one) => html`<tr data-row tabindex="-1"><td class="number" data-name="place">${one.at} of ${one.of}</td><th scope="row"><a href="#/job/${one.job}">${named(one.job)}</a></th>
              <td class="number" data-name="priority">${amount(one.priority)}</td><td data-name="behind">${named(one.behind_in_queue) || "–"}</td><td class="text" data-name="because">${one.because_in_queue || "–"}</td></tr>`)}</tbody></table></div>`
        : queue.jobs.waiting
          ? html`<p>None is next: what <a href="#/jobs?queue=${queue.name}&state=waiting">waits in it</a> is on hold, or not whole yet.</p>`
          : html`<p>Nothing waits in it.</p>`}</section>
      ${given && taken ? html`<section class="card"><h2>Evictions in the last 7 days</h2><ul class="plain">
        <li>${evicted(given, "of its jobs for others or by its own rules")}${given.length ? html` <a href="#/evictions?span=${7 * DAY}&queue=${encodeURIComponent(queue.name)}">Which</a>` : nothing}</li>
        <li>${evicted(taken, "for its jobs")}${taken.length ? html` <a href="#/evictions?span=${7 * DAY}&for=${encodeURIComponent(queue.name)}">Which</a>` : nothing}</li></ul></section>` : nothing}`;
  },
};

const evicted = (items, whose) =>
  items.length
    ? `${counted(items.length, "eviction or move", "evictions and moves")} ${whose}: ${counted(items.reduce((sum, event) => sum + event.gpus, 0), "GPU")}, ${lost(items).toFixed(1)} GPU-hours of work lost.`
    : `None ${whose}.`;

/** Three answers as the lines of one chart. @param {string} name */
const together = (name) => (found) => ({ t: found[0].t, lines: Object.fromEntries(found.map((one) => [one.what, one.lines[name]])) });
