// The map of every GPU: a square a device, by rack; and the same as a list.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { amount, named } from "../format.js";
import { colour, hueOf, letter } from "../palette.js";
import { Layout, paint } from "../map.js";

/** @type {Layout|null} */
let layout = null;
let marked = "";
let at = -1;
/** By what cells are coloured. */
const BY = ["queue", "job", "state"];
let by = BY[0];

export default {
  title: () => "Cluster",

  load: (where, ask) => ask("map"),

  /** Cells change in place. */
  heard(map, told) {
    const change = told.map;
    if (!change) return false;
    for (const [cell, job, queue] of change.cells) {
      let number = job ? map.jobs.indexOf(job) + 1 : 0;
      if (job && !number) {
        map.jobs.push(job);
        map.queues.push(queue);
        number = map.jobs.length;
      }
      map.gpu[cell] = number;
    }
    for (const [row, state] of change.states) map.state[row] = state;
    return true;
  },

  view(map, { query }) {
    const isList = query.get("as") === "list", rack = query.get("rack") ?? "";
    by = BY.includes(query.get("by") ?? "") ? query.get("by") : BY[0];
    if (!map.nodes.length) return html`<p>No nodes. The map shows every GPU of the cluster.</p>`;
    return html`
      <form class="tools" @submit=${(event) => event.preventDefault()}>
        <label>Light up <input type="search" placeholder="job, queue or node" .value=${marked} @input=${(event) => light(event.target.value, map)} /></label>
        ${isList ? nothing : html`<label>Colour <select @change=${(event) => turn(query, "by", event.target.value)}>${BY.map((name) => html`<option ?selected=${name === by}>${name}</option>`)}</select></label>`}
        ${map.racks.length > 1 ? html`<label>Rack <select @change=${(event) => turn(query, "rack", event.target.value)}>
          <option value="" ?selected=${!rack}>all</option>${[...map.racks].sort().map((name) => html`<option value=${name} ?selected=${name === rack}>${name || "none"}</option>`)}</select></label>` : nothing}
        <button class="plain" @click=${() => turn(query, "as", isList ? "" : "list")}>${isList ? "as a map" : "as a list"}</button>
        <span class="legend">${legend(map)}</span>
      </form>
      ${isList ? list(map, rack) : canvas(map)}
      <p class="hint" aria-live="polite"></p>`;
  },

  drawn(map, { query }) {
    const sheet = /** @type {HTMLCanvasElement|null} */ (document.getElementById("map"));
    if (!map || !sheet || query.get("as") === "list") return;
    layout = new Layout(map, sheet.parentElement?.clientWidth ?? 800, query.get("rack") ?? "");
    redraw(map);
  },
};

function turn(query, name, value) {
  const next = new URLSearchParams(query);
  if (value) next.set(name, value);
  else next.delete(name);
  location.hash = `#/cluster?${next}`;
}

/** What is drawn for a job. @param {any} map @param {number} job */
const hue = (map, job) => (by === "state" ? "" : by === "job" ? hueOf(map.jobs[job - 1]) : colour(map.queues[job - 1]));

const used = (map) => map.gpu.filter((cell) => cell > 0).length;
const devices = (map) => map.gpu.filter((cell) => cell >= 0).length;

const canvas = (map) => html`<div class="sheet"><canvas
  id="map" tabindex="0" role="img"
  aria-label="Map of ${amount(devices(map))} GPUs on ${amount(map.nodes.length)} nodes, ${amount(used(map))} held. Arrow keys move, Enter opens the job; the list shows the same."
  @mousemove=${(event) => point(event, map)} @click=${(event) => { point(event, map); open(map); }}
  @keydown=${(event) => move(event, map)}></canvas></div>`;

function light(text, map) {
  marked = text;
  redraw(map);
}

/** Which cells belong to what is searched for. */
function isLit(map) {
  const wanted = marked.trim();
  if (!wanted) return null;
  const jobs = map.jobs.map((job, i) => job.includes(wanted) || map.queues[i].includes(wanted));
  return (cell) => (map.gpu[cell] > 0 && jobs[map.gpu[cell] - 1]) || map.nodes[Math.floor(cell / map.per)].includes(wanted);
}

/** The sheet and the line below it: they follow the mouse, so they are not made anew each time. */
function redraw(map) {
  const sheet = /** @type {HTMLCanvasElement|null} */ (document.getElementById("map"));
  if (sheet && layout) paint(sheet, layout, map, { isLit: isLit(map), at, hue: (job) => hue(map, job), letter: (job) => (by === "queue" ? letter(map.queues[job - 1]) : "") });
  const hint = document.querySelector(".hint");
  if (hint) hint.textContent = at >= 0 ? said(map, at) : "";
}

function point(event, map) {
  const found = layout?.cellAt(event.offsetX, event.offsetY) ?? -1;
  if (found === at) return;
  at = found;
  redraw(map);
}

function move(event, map) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: map.per, ArrowUp: -map.per }[event.key];
  if (step) {
    event.preventDefault();
    at = Math.max(0, Math.min(map.gpu.length - 1, at + step));
    redraw(map);
  } else if (event.key === "Enter") open(map);
}

function open(map) {
  if (at < 0) return;
  const job = map.gpu[at];
  location.hash = job > 0 ? `#/job/${map.jobs[job - 1]}` : `#/node/${map.nodes[Math.floor(at / map.per)]}`;
}

function said(map, cell) {
  const row = Math.floor(cell / map.per), job = map.gpu[cell];
  const rack = map.racks[map.rack[row]];
  const held = job > 0 ? `${named(map.jobs[job - 1])} (${map.queues[job - 1]})` : job === 0 ? "free" : "no device";
  return `${map.nodes[row]}${rack ? `, rack ${rack}` : ""}, ${map.state[row]}: ${held}`;
}

function legend(map) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const cell of map.gpu) if (cell > 0) counts.set(map.queues[cell - 1], (counts.get(map.queues[cell - 1]) ?? 0) + 1);
  const kinds = [["free", "free"], ["shut", "closed"]];
  const others = (by === "state" ? [["held", "held"], ...kinds] : kinds).map(
    ([name, said]) => html`<span class="key"><svg class=${name} width="10" height="10" aria-hidden="true"><rect width="10" height="10"></rect></svg> ${said}</span> `,
  );
  if (by !== "queue") return others;
  return [...[...counts].sort((a, b) => b[1] - a[1]).slice(0, 12).map(
    ([queue, count]) => html`<span class="key"><svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" fill=${colour(queue)}></rect></svg> ${letter(queue)} ${queue || "no queue"} ${amount(count)}</span> `,
  ), ...others];
}

function list(map, rack) {
  const rows = [...map.nodes.keys()].filter((row) => !rack || map.racks[map.rack[row]] === rack);
  return html`<div class="scroll" role="region" tabindex="0" aria-label="Nodes"><table class="wide">
  <thead><tr><th>Node</th><th>Rack</th><th>State</th><th>GPUs</th></tr></thead>
  <tbody>${rows.slice(0, 1000).map((row) => html`<tr data-row tabindex="-1">
    <th scope="row"><a href="#/node/${map.nodes[row]}">${map.nodes[row]}</a></th><td>${map.racks[map.rack[row]]}</td><td>${map.state[row]}</td>
    <td><code>${map.gpu.slice(row * map.per, (row + 1) * map.per).map((cell) => (cell > 0 ? letter(map.queues[cell - 1]) : cell === 0 ? "." : "")).join("")}</code></td>
  </tr>`)}</tbody></table></div>
  ${rows.length > 1000 ? html`<p>1,000 of ${amount(rows.length)} nodes shown: choose a rack.</p>` : nothing}`;
}
