// One job: why it waits and what would start it, what became of it, its pods.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { amount, counted, moment, named, since } from "../format.js";
import { changes, story } from "./answers.js";

const AGAIN_S = 15;
/** Categories of what waiting does not mend. */
const UNCHANGED = ["never", "broken"];
/** Answers that take long are kept for a while. @type {{key: string, at: number, why: any, start: any}} */
let known = { key: "", at: 0, why: undefined, start: undefined };

export default {
  title: (where) => named(where.name) || "Job",

  async load(where, ask, redraw) {
    const key = where.name;
    const past = ask(`history?job=${encodeURIComponent(key)}&limit=40`).then((found) => found.items, () => null);
    let found;
    try {
      found = await ask(`jobs/${key}`);
    } catch (problem) {
      // A job that ended keeps its page: the journal knows it.
      const ended = await past;
      if (problem.told?.code !== "NotFound" || !ended?.length) throw problem;
      return { ended, key };
    }
    if (known.key !== key || Date.now() / 1000 - known.at > AGAIN_S) {
      known = { key, at: Date.now() / 1000, why: known.key === key ? known.why : undefined, start: known.key === key ? known.start : undefined };
      const keep = (part) => {
        if (known.key !== key) return;
        Object.assign(known, part);
        redraw();
      };
      if (found.job.state === "Waiting") {
        const told = ask(`why/${key}`).then((why) => keep({ why }), () => keep({ why: null }));
        // An estimate takes longer, and questions are answered one at a time.
        told.then(() => ask(`when/${key}`)).then((start) => keep({ start }), () => {});
      }
    }
    return { ...found, past: await past };
  },

  view(data) {
    if (data.ended) return html`<p>It ended: it is no longer in the cluster. This is what the journal knows of it.</p><section class="card"><h2>What happened</h2>${story(data.ended)}</section>`;
    const { job, pods, reasons, no_eviction_because: kept, past } = data;
    const waits = job.state === "Waiting";
    return html`
      <ul class="facts">
        <li><span class="state ${job.state.toLowerCase()}">${job.state}</span></li>
        ${job.user ? html`<li>user <a href="#/jobs?user=${job.user}">${job.user}</a></li>` : nothing}
        <li>queue <a href="#/queue/${job.queue}">${job.queue}</a></li>
        <li>priority ${amount(job.priority)}, ${job.preemptible ? "preemptible" : "not preemptible"}</li>
        <li>${amount(job.pods.running)} of ${counted(job.pods.max, "pod")} run, ${amount(job.pods.min)} must</li>
        <li>${amount(job.gpus.held)} of ${counted(job.gpus.asked, "GPU")} held</li>
        <li>created ${since(job.created)} ago${job.started ? `, started ${since(job.started)} ago` : ""}</li>
      </ul>
      <div class="columns"><div>
        ${waits ? html`<section class="card ${UNCHANGED.includes(reasons[0]?.category) ? "never" : "later"}"><h2>Why it waits</h2>${why(reasons, kept)}</section>` : nothing}
        <section class="card"><h2>Pods</h2>${podTable(pods)}</section></div>
        <section class="card"><h2>What happened</h2>${past?.length
          ? story(past)
          : html`<p class="quiet">${past ? "Nothing was decided about it yet." : "No journal is read here: start muster web with --journal-folder."}</p>`}</section></div>`;
  },
};

function why(reasons, kept) {
  const { why, start } = known;
  if (!reasons.length) return html`<p>It has not been tried yet.</p>`;
  const [first, ...others] = reasons;
  return html`<p class="verdict">${first.code}</p><p>${named(first.message)} ${first.next}</p>
    ${others.length ? html`<ul>${others.map(said)}</ul>` : nothing}
    ${kept.length ? html`<h3>Why nobody makes way</h3><ul>${kept.map(said)}</ul>` : nothing}
    ${why === undefined ? html`<p class="quiet">Looking for the smallest change that would start it…</p>` : nothing}
    ${why?.place ? html`<p>Place ${amount(why.place.at)} of ${amount(why.place.of)} in ${why.place.queue}${why.place.behind ? html`, behind <a href="#/job/${why.place.behind}">${named(why.place.behind)}</a>: ${why.place.because}` : nothing}.</p>` : nothing}
    ${start?.at ? html`<p>Expected to start about ${moment(start.at)} (between ${moment(start.earliest)} and ${moment(start.latest)}).</p>` : nothing}
    ${why && why.state !== "waiting" ? html`<p>${why.state === "clearing" ? "Room is being made for it" : "It is being started"}: ${why.because || "nothing is to be done"}</p>` : nothing}
    ${why?.state === "waiting" ? (why.changes.length ? changes(why.changes) : why.is_complete ? html`<p>No single change of the job, its queue or its place would start it now.</p>` : html`<p class="quiet">No change was found in the time that there is; not all were tried.</p>`) : nothing}`;
}

const said = (reason) => html`<li><strong>${reason.code}</strong> ${named(reason.message)}</li>`;

const podTable = (pods) => html`<div class="scroll" role="region" tabindex="0" aria-label="Pods"><table class="wide cards">
    <thead><tr><th>Pod</th><th>State</th><th>Node</th><th class="number">GPUs</th></tr></thead>
    <tbody>${pods.slice(0, 500).map((pod) => html`<tr><th scope="row">${pod.name}</th><td>${pod.state}</td>
      <td data-name="node">${pod.node ? html`<a href="#/node/${pod.node}">${pod.node}</a>` : "–"}</td><td class="number" data-name="GPUs">${amount(pod.gpus)}</td></tr>`)}</tbody></table></div>
  ${pods.length > 500 ? html`<p>500 of ${amount(pods.length)} pods shown.</p>` : nothing}`;
