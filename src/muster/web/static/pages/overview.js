// How is the cluster?

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { amount, counted, moment, named, since } from "../format.js";
import { bar, keys, length, standing } from "./bars.js";

/** Within so long a scheduler that is there starts what it can. */
const UNDONE_S = 60;

/** Comes later than the rest. Without a journal nothing is said of evictions: that is not the same
 *  as none. @type {any} */
let past = null;

export default {
  title: () => "Overview",

  async load(where, ask, redraw) {
    const since = (Date.now() / 1000 - 86400).toFixed(0);
    ask(`history?kind=evicted,moved&limit=5&since=${since}`).then((found) => { past = found.items; }, () => { past = null; }).then(redraw);
    const [status, queues] = await Promise.all([ask("status"), ask("queues")]);
    return { status, queues: queues.items };
  },

  heard(data, told) {
    data.status = { ...told.status, ailments: data.status.ailments };
    return false; // queues are asked for again
  },

  view({ status, queues }) {
    const { gpus, fits, jobs } = status;
    const most = Math.max(1, ...queues.filter((queue) => queue.depth === 0).map((queue) => Math.max(queue.gpu.used, queue.gpu.share ?? 0)));
    return html`
      <ul class="tiles facts-of-all">
        <li><b>${amount(gpus.used)}</b> of ${amount(gpus.all)} GPUs used</li>
        <li><b>${amount(gpus.free)}</b> free${fits.node ? html`, <a href="#/node/${fits.node_name}">${amount(fits.node)} on ${fits.node_name}</a>` : nothing}${fits.rack ? `, ${amount(fits.rack)} in rack ${fits.rack_name}` : nothing}</li>
        ${gpus.shared ? html`<li><b>${amount(gpus.shared)}</b> left of shared GPUs</li>` : nothing}
        ${gpus.out ? html`<li><b>${amount(gpus.out)}</b> out of service</li>` : nothing}
        <li><b>${amount(jobs.running)}</b> ${jobs.running === 1 ? "job runs" : "jobs run"}</li>
        <li><b>${amount(jobs.waiting)}</b> ${jobs.waiting === 1 ? "waits" : "wait"} for ${counted(jobs.asked, "GPU")}</li>
      </ul>
      <div class="columns"><div>
      <section class="card"><h2>Queues</h2>
        ${queues.length
          ? html`<div class="queues">${queues.slice(0, 40).map((queue) => row(queue, most))}</div>${keys()}
              ${queues.length > 40 ? html`<p><a href="#/queues">${amount(queues.length - 40)} more queues</a></p>` : nothing}`
          : html`<p>No queues yet. Work without a queue waits. <code>kubectl apply -f examples/quick-start</code></p>`}
      </section>
      ${past === null ? nothing : html`<section class="card"><h2>Evicted in the last day</h2>${past.length
        ? html`<ul class="plain">${past.slice(0, 5).map((event) => html`<li><span class="quiet">${moment(event.at)}</span> <a href="#/job/${event.job}">${named(event.job)}</a> ${event.for ? html`for <a href="#/job/${event.for}">${named(event.for)}</a>` : nothing} (${event.by}, ${counted(event.gpus, "GPU")})</li>`)}</ul><p><a href="#/evictions">All of them</a></p>`
        : html`<p class="quiet">Nobody.</p>`}</section>`}
      </div><div>
      ${status.owed.length
        ? html`<section class="card"><h2>Owed</h2>
            <ul class="plain">${status.owed.slice(0, 8).map(
              (owed) => html`<li><a href="#/jobs?queue=${owed.queue}&state=waiting">${owed.queue}</a> is owed ${counted(owed.gpus, "GPU")}${owed.borrowers.length ? html`; ${owed.borrowers.slice(0, 3).map((name, at) => html`${at ? ", " : ""}<a href="#/queue/${name}">${name}</a>`)} ${owed.borrowers.length === 1 ? "borrows" : "borrow"}` : nothing}</li>`,
            )}</ul></section>`
        : nothing}
      <section class="card"><h2>Waiting, by reason</h2>${waiting(jobs)}</section>
      <section class="card"><h2>Health</h2><ul class="plain">
        ${part("Scheduler", idle(status.undone), "starts all that can start")}
        ${part("Binder", ill(status, "binder"), "binds what has a node")}
        ${part("Watches", ill(status, "watch"), "hear every change")}</ul></section>
      ${status.nodes.length
        ? html`<section class="card"><h2>Nodes closed to work</h2><ul class="plain">
            ${status.nodes.map((node) => html`<li><a href="#/node/${node.name}">${node.name}</a> ${node.state}${node.since ? ` for ${since(node.since)}` : nothing}</li>`)}
          </ul></section>`
        : nothing}
      </div></div>
    `;
  },
};

/** @param {string} name @param {string} trouble @param {string} well */
const part = (name, trouble, well) =>
  html`<li><span class="state ${trouble ? "ill" : "running"}">${name}</span> ${trouble || well}</li>`;

const idle = (undone) =>
  undone && Date.now() / 1000 - undone.since > UNDONE_S ? `has not started ${counted(undone.jobs, "job")} that could start for ${since(undone.since)}.` : "";

/** @param {any} status @param {string} name */
function ill(status, name) {
  const found = (status.ailments ?? []).find((one) => one.part === name);
  return found ? `${found.message} So for ${since(found.since)}.` : "";
}

function waiting(jobs) {
  const codes = Object.entries(jobs.by_code).sort((a, b) => b[1] - a[1]);
  if (!jobs.waiting) return html`<p class="quiet">Nothing waits.</p>`;
  if (!codes.length) return html`<p>${counted(jobs.waiting, "job")}, not looked at yet.</p>`;
  const most = codes[0][1];
  return html`<table class="codes"><tbody>${codes.map(
    ([code, count]) => html`<tr>
      <th scope="row"><a href="#/jobs?state=waiting&code=${code}">${code}</a></th>
      <td class="number">${amount(count)}</td>
      <td>${length(count, most, `${count} of them`)}</td>
    </tr>`,
  )}</tbody></table>`;
}

const row = (queue, most) => html`<div class="queue depth-${Math.min(queue.depth, 5)}">
  <a href="#/queue/${queue.name}">${queue.name}</a>
  <span class="number">${amount(queue.gpu.used)} / ${amount(queue.gpu.share)}</span>
  ${bar(queue, most)}
  <span class="stands ${queue.stands.kind}">${standing(queue)}</span>
  <span class="number">${queue.jobs.waiting ? html`<a href="#/jobs?queue=${queue.name}&state=waiting">${amount(queue.jobs.waiting)} wait</a>` : nothing}</span>
</div>`;
