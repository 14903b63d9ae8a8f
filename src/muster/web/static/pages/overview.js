// How is the cluster?

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { amount, counted } from "../format.js";
import { bar, standing } from "./bars.js";

export default {
  title: () => "Overview",

  async load(where, ask) {
    const [status, queues] = await Promise.all([ask("status"), ask("queues")]);
    return { status, queues: queues.items };
  },

  heard(data, told) {
    data.status = told.status;
    return false; // queues are asked for again
  },

  view({ status, queues }) {
    const { gpus, fits, jobs } = status;
    const most = Math.max(1, ...queues.filter((queue) => queue.depth === 0).map((queue) => Math.max(queue.gpu.used, queue.gpu.share ?? 0)));
    return html`
      <ul class="facts">
        <li><b>${amount(gpus.used)}</b> of ${amount(gpus.all)} GPUs used</li>
        <li><b>${amount(gpus.free)}</b> free${fits.node ? html`, most on one node: <a href="#/node/${fits.node_name}">${amount(fits.node)} (${fits.node_name})</a>` : nothing}${fits.rack ? `, in one rack: ${amount(fits.rack)} (${fits.rack_name})` : nothing}</li>
        ${gpus.out ? html`<li><b>${amount(gpus.out)}</b> out of service</li>` : nothing}
        <li><b>${amount(jobs.running)}</b> ${jobs.running === 1 ? "job runs" : "jobs run"}</li>
        <li><b>${amount(jobs.waiting)}</b> ${jobs.waiting === 1 ? "waits" : "wait"} for ${counted(jobs.asked, "GPU")}</li>
      </ul>
      ${status.owed.length
        ? html`<section><h2>Owed</h2>
            <ul class="plain">${status.owed.slice(0, 8).map(
              (owed) => html`<li><a href="#/jobs?queue=${owed.queue}&state=waiting">${owed.queue}</a> is owed ${counted(owed.gpus, "GPU")}${owed.borrowers.length ? html` — ${owed.borrowers.slice(0, 3).join(", ")} ${owed.borrowers.length === 1 ? "borrows" : "borrow"}` : nothing}</li>`,
            )}</ul></section>`
        : nothing}
      <section><h2>Waiting</h2>${waiting(jobs)}</section>
      <section><h2>Queues</h2>
        ${queues.length
          ? html`<div class="queues">${queues.slice(0, 40).map((queue) => row(queue, most))}</div>
              ${queues.length > 40 ? html`<p><a href="#/queues">${amount(queues.length - 40)} more queues</a></p>` : nothing}`
          : html`<p>No queues yet. Work without a queue waits. <code>kubectl apply -f examples/quick-start</code></p>`}
      </section>
      ${status.nodes.length
        ? html`<section><h2>Nodes closed to work</h2><ul class="plain">
            ${status.nodes.map((node) => html`<li><a href="#/node/${node.name}">${node.name}</a> ${node.state}</li>`)}
          </ul></section>`
        : nothing}
    `;
  },
};

function waiting(jobs) {
  const codes = Object.entries(jobs.by_code).sort((a, b) => b[1] - a[1]);
  if (!jobs.waiting) return html`<p>Nothing waits.</p>`;
  if (!codes.length) return html`<p>${counted(jobs.waiting, "job")}, not looked at yet.</p>`;
  const most = codes[0][1];
  return html`<table class="codes"><tbody>${codes.map(
    ([code, count]) => html`<tr>
      <th scope="row"><a href="#/jobs?state=waiting&code=${code}">${code}</a></th>
      <td class="number">${amount(count)}</td>
      <td><meter min="0" max=${most} value=${count} aria-label="${count} of them"></meter></td>
    </tr>`,
  )}</tbody></table>`;
}

const row = (queue, most) => html`<div class="queue depth-${Math.min(queue.depth, 5)}">
  <a href="#/jobs?queue=${queue.name}">${queue.name}</a>
  <span class="number">${amount(queue.gpu.used)} / ${amount(queue.gpu.share)}</span>
  ${bar(queue, most)}
  <span>${standing(queue)}</span>
  <span>${queue.jobs.waiting ? `${amount(queue.jobs.waiting)} wait` : nothing}</span>
</div>`;
