// What runs, what waits, why, since when?

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { amount, named, since } from "../format.js";
import { changed } from "../flash.js";
import { save } from "./csv.js";

const FILTERS = ["state", "queue", "namespace", "user", "code", "category", "shape", "node", "labels", "search"];
const SHAPES = "shapes";
const GONE_S = 10;

export default {
  title: () => "Jobs",

  async load({ query }, ask) {
    const isByShape = query.get("by") === SHAPES;
    const asked = new URLSearchParams();
    for (const name of isByShape ? FILTERS.filter((one) => one !== "state") : [...FILTERS, "sort", "cursor"]) {
      const value = query.get(name);
      if (value) asked.set(name, value);
    }
    return isByShape ? { shapes: (await ask(`shapes?${asked}`)).items } : ask(`jobs?${asked}`);
  },

  /** Rows stay where they are: what is new waits until somebody wants it, what is gone stays a moment. */
  kept(before, found) {
    if (before.shapes || found.shapes || !before.items.length) return found;
    const now = Date.now() / 1000, byKey = new Map(found.items.map((job) => [job.key, job]));
    const isWhole = !found.next && found.items.length === found.total;
    const items = before.items
      .map((job) => byKey.get(job.key) ?? (isWhole ? { ...job, gone: job.gone ?? now } : null))
      .filter((job) => job && (!job.gone || now - job.gone < GONE_S));
    if (!items.length) return found;
    const shown = new Set(items.map((job) => job.key));
    return { ...found, items, fresh: found.items.filter((job) => !shown.has(job.key)).length, whole: found.items };
  },

  view(data, { query }, redraw) {
    return html`${tools(query, data)} ${data.shapes ? shapes(data.shapes) : list(data, query, redraw)}`;
  },
};

const tools = (query, data) => html`<form class="tools" @submit=${(event) => event.preventDefault()}>
  <label>Search <input type="search" .value=${query.get("search") ?? ""} @change=${(event) => turn(query, "search", event.target.value)} /></label>
  ${query.get("by") === SHAPES ? nothing : html`<label>State
    <select @change=${(event) => turn(query, "state", event.target.value)}>
      ${["", "waiting", "running", "starting", "ended"].map(
        (state) => html`<option value=${state} ?selected=${(query.get("state") ?? "") === state}>${state || "all"}</option>`,
      )}
    </select></label>`}
  <label><input type="checkbox" .checked=${query.get("by") === SHAPES} @change=${(event) => turn(query, "by", event.target.checked ? SHAPES : "")} /> by shape</label>
  ${FILTERS.filter((name) => !["search", "state"].includes(name) && query.get(name)).map(
    (name) => html`<button class="chip" @click=${() => turn(query, name, "")} title="remove this filter">${name}=${query.get(name)} ✕</button>`,
  )}
  ${data.items?.length ? html`<button @click=${() => save(data.items.map(line), "jobs")}>CSV</button>` : nothing}
</form>`;

/** A job as a line of a file. */
const line = (job) => ({
  job: job.key, state: job.state, reason: job.reason?.code, queue: job.queue, user: job.user, pods: job.pods.max,
  gpus: job.gpus.asked, priority: job.priority, created: new Date(job.created * 1000).toISOString(), message: job.reason?.message,
});

function show(data, redraw) {
  Object.assign(data, { items: data.whole, fresh: 0 });
  redraw();
}

/** Another address: every view can be sent to a colleague. */
function turn(query, name, value) {
  const next = new URLSearchParams(query);
  next.delete("cursor");
  if (value) next.set(name, value);
  else next.delete(name);
  location.hash = `#/jobs?${next}`;
}

function list(data, query, redraw) {
  const filters = FILTERS.filter((name) => query.get(name)).map((name) => `${name}=${query.get(name)}`);
  if (!data.items.length && filters.length)
    return html`<p>No job matches ${filters.join(", ")}. <a href="#/jobs">Clear the filters</a></p>`;
  if (!data.items.length)
    return html`<p>No jobs. A pod with <code>schedulerName: kai-scheduler</code> and a queue label makes one.</p>`;
  return html`<p>${amount(data.items.length)} of ${amount(data.total)}${data.total > data.items.length ? "; narrow it, or go on" : ""}
      ${data.fresh ? html`<button class="chip" @click=${() => show(data, redraw)}>${amount(data.fresh)} new, show</button>` : nothing}</p>
    <section class="card"><div class="scroll" role="region" tabindex="0" aria-label="Jobs"><table class="wide cards">
      <thead><tr>${COLUMNS.map(([name, key, kind]) => html`<th class=${kind ?? ""}>${key ? header(name, key, query) : name}</th>`)}</tr></thead>
      <tbody>${repeat(data.items, (job) => job.key, row)}</tbody>
    </table></div></section>
    ${data.next ? html`<p><a href="#/jobs?${next(query, data.next)}">Next</a></p>` : nothing}`;
}

const COLUMNS = [
  ["Job", "key"], ["State", "state"], ["Reason", "reason"], ["Queue", "queue"], ["User", ""], ["Pods", "pods", "number"], ["GPUs", "gpus", "number"],
  ["Priority", "priority", "number"], ["Age", "created", "number"],
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

const row = (job) => html`<tr data-row tabindex="-1" class=${job.gone ? "gone" : ""} @keydown=${(event) => event.key === "Enter" && (location.hash = `#/job/${job.key}`)}>
  <th scope="row"><a href="#/job/${job.key}">${named(job.key)}</a></th>
  <td class=${changed(`${job.key} state`, job.state)}>${job.gone ? "gone" : html`<span class="state ${job.state.toLowerCase()}">${job.state}</span>`}</td>
  <td title=${named(job.reason?.message ?? "")}>${job.reason ? html`<a href="#/jobs?state=waiting&code=${job.reason.code}">${job.reason.code}</a>` : nothing}</td>
  <td data-name="queue"><a href="#/queue/${job.queue}">${job.queue}</a></td>
  <td data-name="user">${job.user ? html`<a href="#/jobs?user=${job.user}">${job.user}</a>` : nothing}</td>
  <td class="number ${changed(`${job.key} pods`, job.pods.running)}" data-name="pods">${amount(job.pods.running)}/${amount(job.pods.max)}</td>
  <td class="number" data-name="GPUs">${amount(job.gpus.asked)}</td>
  <td class="number" data-name="priority">${amount(job.priority)}${job.preemptible ? "" : " !"}</td>
  <td class="number" data-name="age">${since(job.created)}</td>
</tr>`;

const shapes = (found) =>
  found.length
    ? html`<section class="card"><div class="scroll" role="region" tabindex="0" aria-label="Jobs"><table class="wide cards">
        <thead><tr><th class="number">Jobs</th><th class="number">Pods</th><th>Each pod</th><th>Queues</th><th class="number">GPUs</th><th>Reason</th><th class="number">Longest</th></tr></thead>
        <tbody>${repeat(found, (shape) => shape.id, (shape) => html`<tr data-row tabindex="-1">
          <td class="number" data-name="jobs"><a href="#/jobs?state=waiting&shape=${shape.id}">${amount(shape.jobs)}</a></td><td class="number" data-name="pods">${amount(shape.pods)}</td>
          <td data-name="each pod">${each(shape.each)}</td><td data-name="queues">${shape.queues.slice(0, 4).join(", ")}${shape.queues.length > 4 ? " …" : ""}</td>
          <td class="number" data-name="GPUs">${amount(shape.asked)}</td><td>${shape.reason ? html`<a href="#/jobs?state=waiting&code=${shape.reason}">${shape.reason}</a>` : "–"}</td><td class="number" data-name="longest">${since(shape.oldest)}</td>
        </tr>`)}</tbody></table></div></section>`
    : html`<p>Nothing waits that matches.</p>`;

const each = (amounts) =>
  Object.entries(amounts)
    .filter(([name]) => name !== "pods")
    .map(([name, count]) => (name === "memory" ? `${(count / 2 ** 30).toFixed(1)} GiB` : `${amount(count)} ${name === "gpu" ? "GPU" : name}`))
    .join(", ");
