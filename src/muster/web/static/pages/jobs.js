// What runs, what waits, why, since when?

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { amount, since } from "../format.js";

const FILTERS = ["state", "queue", "namespace", "user", "code", "category", "shape", "node", "search"];
const SHAPES = "shapes";

export default {
  title: () => "Jobs",

  async load({ query }, ask) {
    if (query.get("by") === SHAPES) return { shapes: (await ask("shapes")).items };
    const asked = new URLSearchParams();
    for (const name of [...FILTERS, "sort", "cursor"]) {
      const value = query.get(name);
      if (value) asked.set(name, value);
    }
    return ask(`jobs?${asked}`);
  },

  view(data, { query }) {
    return html`${tools(query)} ${data.shapes ? shapes(data.shapes) : list(data, query)}`;
  },
};

const tools = (query) => html`<form class="tools" @submit=${(event) => event.preventDefault()}>
  <label>Search <input type="search" .value=${query.get("search") ?? ""} @change=${(event) => turn(query, "search", event.target.value)} /></label>
  <label>State
    <select @change=${(event) => turn(query, "state", event.target.value)}>
      ${["", "waiting", "running", "starting"].map(
        (state) => html`<option value=${state} ?selected=${(query.get("state") ?? "") === state}>${state || "all"}</option>`,
      )}
    </select></label>
  <label><input type="checkbox" .checked=${query.get("by") === SHAPES} @change=${(event) => turn(query, "by", event.target.checked ? SHAPES : "")} /> by shape</label>
  ${FILTERS.filter((name) => !["search", "state"].includes(name) && query.get(name)).map(
    (name) => html`<button class="chip" @click=${() => turn(query, name, "")} title="remove this filter">${name}=${query.get(name)} ✕</button>`,
  )}
</form>`;

/** Another address: every view can be sent to a colleague. */
function turn(query, name, value) {
  const next = new URLSearchParams(query);
  next.delete("cursor");
  if (value) next.set(name, value);
  else next.delete(name);
  location.hash = `#/jobs?${next}`;
}

function list(data, query) {
  const filters = FILTERS.filter((name) => query.get(name)).map((name) => `${name}=${query.get(name)}`);
  if (!data.items.length && filters.length)
    return html`<p>No job matches ${filters.join(", ")}. <a href="#/jobs">Clear the filters</a></p>`;
  if (!data.items.length)
    return html`<p>No jobs. A pod with <code>schedulerName: kai-scheduler</code> and a queue label makes one.</p>`;
  return html`<p>${amount(data.items.length)} of ${amount(data.total)}${data.total > data.items.length ? "; narrow it, or go on" : ""}</p>
    <section class="card"><div class="scroll" role="region" tabindex="0" aria-label="Jobs"><table class="wide cards">
      <thead><tr>${COLUMNS.map(([name, key]) => html`<th>${key ? header(name, key, query) : name}</th>`)}</tr></thead>
      <tbody>${repeat(data.items, (job) => job.key, row)}</tbody>
    </table></div></section>
    ${data.next ? html`<p><a href="#/jobs?${next(query, data.next)}">Next</a></p>` : nothing}`;
}

const COLUMNS = [
  ["Job", "key"], ["State", "state"], ["Reason", "reason"], ["Queue", "queue"], ["Pods", "pods"], ["GPUs", "gpus"],
  ["Priority", "priority"], ["Age", "created"],
];

function header(name, key, query) {
  const sort = query.get("sort") ?? "";
  const isUp = sort === key, isDown = sort === `-${key}`;
  return html`<button class="plain" @click=${() => turn(query, "sort", isUp ? `-${key}` : key)}>${name}${isUp ? " ▴" : isDown ? " ▾" : ""}</button>`;
}

const next = (query, cursor) => {
  const found = new URLSearchParams(query);
  found.set("cursor", cursor);
  return found;
};

const row = (job) => html`<tr data-row tabindex="-1" @keydown=${(event) => event.key === "Enter" && (location.hash = `#/job/${job.key}`)}>
  <th scope="row"><a href="#/job/${job.key}">${job.key}</a></th>
  <td><span class="state ${job.state.toLowerCase()}">${job.state}</span></td>
  <td title=${job.reason?.message ?? ""}>${job.reason ? html`<a href="#/jobs?state=waiting&code=${job.reason.code}">${job.reason.code}</a>` : nothing}</td>
  <td data-name="queue"><a href="#/queue/${job.queue}">${job.queue}</a></td>
  <td class="number" data-name="pods">${amount(job.pods.running)}/${amount(job.pods.max)}</td>
  <td class="number" data-name="GPUs">${amount(job.gpus.asked)}</td>
  <td class="number" data-name="priority">${amount(job.priority)}${job.preemptible ? "" : " !"}</td>
  <td class="number" data-name="age">${since(job.created)}</td>
</tr>`;

const shapes = (found) =>
  found.length
    ? html`<section class="card"><div class="scroll" role="region" tabindex="0" aria-label="Jobs"><table class="wide">
        <thead><tr><th class="number">Jobs</th><th class="number">Pods</th><th>Each pod</th><th>Queues</th><th class="number">GPUs</th><th>Reason</th><th class="number">Longest</th></tr></thead>
        <tbody>${repeat(found, (shape) => shape.id, (shape) => html`<tr data-row tabindex="-1">
          <td class="number"><a href="#/jobs?state=waiting&shape=${shape.id}">${amount(shape.jobs)}</a></td><td class="number">${amount(shape.pods)}</td>
          <td>${each(shape.each)}</td><td>${shape.queues.slice(0, 4).join(", ")}${shape.queues.length > 4 ? " …" : ""}</td>
          <td class="number">${amount(shape.asked)}</td><td>${shape.reason}</td><td class="number">${since(shape.oldest)}</td>
        </tr>`)}</tbody></table></div></section>`
    : html`<p>Nothing waits.</p>`;

const each = (amounts) =>
  Object.entries(amounts)
    .filter(([name]) => name !== "pods")
    .map(([name, count]) => (name === "memory" ? `${(count / 2 ** 30).toFixed(1)} GiB` : `${amount(count)} ${name === "gpu" ? "GPU" : name}`))
    .join(", ");
