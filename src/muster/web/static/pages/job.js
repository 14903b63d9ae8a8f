// One job: its state, why it waits, its pods.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { amount, counted, since } from "../format.js";

export default {
  title: (where) => where.name || "Job",

  load: (where, ask) => ask(`jobs/${where.name}`),

  view({ job, pods, reasons }) {
    return html`
      <ul class="facts">
        <li><span class="state ${job.state.toLowerCase()}">${job.state}</span></li>
        <li>queue <a href="#/jobs?queue=${job.queue}">${job.queue}</a></li>
        <li>priority ${amount(job.priority)}, ${job.preemptible ? "preemptible" : "not preemptible"}</li>
        <li>${amount(job.pods.running)} of ${counted(job.pods.max, "pod")} run, ${amount(job.pods.min)} must</li>
        <li>${amount(job.gpus.held)} of ${counted(job.gpus.asked, "GPU")} held</li>
        <li>created ${since(job.created)} ago${job.started ? `, started ${since(job.started)} ago` : ""}</li>
      </ul>
      ${reasons.length && job.state === "Waiting"
        ? html`<section><h2>Why it waits</h2>
            <ul>${reasons.map((reason) => html`<li><strong>${reason.code}</strong> ${reason.message}</li>`)}</ul></section>`
        : nothing}
      <section><h2>Pods</h2>
        <div class="scroll" role="region" tabindex="0" aria-label="Pods"><table class="wide">
          <thead><tr><th>Pod</th><th>State</th><th>Node</th><th class="number">GPUs</th></tr></thead>
          <tbody>${pods.slice(0, 500).map((pod) => html`<tr>
            <th scope="row">${pod.name}</th><td>${pod.state}</td>
            <td>${pod.node ? html`<a href="#/node/${pod.node}">${pod.node}</a>` : "–"}</td>
            <td class="number">${amount(pod.gpus)}</td></tr>`)}</tbody>
        </table></div>
        ${pods.length > 500 ? html`<p>500 of ${amount(pods.length)} pods shown.</p>` : nothing}
      </section>`;
  },
};
