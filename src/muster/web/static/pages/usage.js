// GPU-hours, waits and losses: who used how much?

import { html } from "../vendor/lit-html/lit-html.js";
import { ask } from "../api.js";
import { age, amount, named } from "../format.js";
import { chart } from "./chart.js";
import { save } from "./csv.js";

const SPANS = { "1 day": 86400, "7 days": 604800, "30 days": 2592000 };
const BY = ["queue", "user", "job", "day"];
const LINES = 6;
const SHOWN = 200;
const ALL = 100000; // more than any server gives

export default {
  title: () => "Usage",

  async load({ query }, ask) {
    const span = Number(query.get("span") ?? SPANS["7 days"]) || SPANS["7 days"];
    const by = BY.includes(query.get("by") ?? "") ? query.get("by") : "queue";
    const to = Math.floor(Date.now() / 1000), from = to - span;
    const asked = `usage?by=${by}&from=${from}&to=${to}`;
    const [usage, queues] = await Promise.all([ask(`${asked}&limit=${SHOWN}`), ask("queues")]);
    const names = queues.items.filter((queue) => queue.leaf).sort((a, b) => b.gpu.used - a.gpu.used).slice(0, LINES).map((queue) => queue.name);
    const series = await ask(`series?what=used&queue=${["", ...names].map(encodeURIComponent).join(",")}&from=${from}&to=${to}&points=300`);
    return { usage, series, span, by, asked };
  },

  heard: () => true, // hours do not change within seconds

  view({ usage, series, span, by, asked }) {
    return html`
      <form class="tools" @submit=${(event) => event.preventDefault()}>
        <label>In the last <select @change=${(event) => turn(event.target.value, by)}>
          ${Object.entries(SPANS).map(([name, seconds]) => html`<option value=${seconds} ?selected=${seconds === span}>${name}</option>`)}
        </select></label>
        <label>by <select @change=${(event) => turn(span, event.target.value)}>
          ${BY.map((name) => html`<option ?selected=${name === by}>${name}</option>`)}</select></label>
        <button @click=${async () => save((await ask(`${asked}&limit=${ALL}`)).items, `usage-by-${by}`)}>CSV</button>
      </form>
      <section class="card"><h2>GPUs held over time</h2>${chart(series, "GPUs held")}</section>
      <section class="card"><h2>By ${by}</h2>${usage.items.length ? table(usage, by) : html`<p>Nobody used GPUs in that time.</p>`}</section>`;
  },
};

const turn = (span, by) => (location.hash = `#/usage?span=${span}&by=${by}`);
const part = (value) => (value == null ? "–" : `${Math.round(100 * value)} %`);
const hours = (value) => (value == null ? "–" : amount(Math.round(value * 10) / 10));

const table = ({ items, total }, by) => html`<div class="scroll" role="region" tabindex="0" aria-label="Usage"><table class="wide cards">
  <thead><tr><th>${by[0].toUpperCase() + by.slice(1)}</th><th class="number">GPU-hours</th><th class="number">Of quota</th><th class="number">Borrowed</th>
    <th class="number">Idle</th><th class="number">Jobs</th><th class="number">Wait, half</th><th class="number">Wait, 95 %</th><th class="number">Evicted</th><th class="number">GPU-hours lost</th></tr></thead>
  <tbody>${items.map((one) => html`<tr data-row tabindex="-1">
    <th scope="row">${named(one.name) || "–"}</th><td class="number" data-name="GPU-hours">${hours(one.gpu_hours)}</td>
    <td class="number" data-name="of quota">${part(one.of_quota)}</td><td class="number" data-name="borrowed">${hours(one.borrowed_gpu_hours)}</td>
    <td class="number" data-name="idle">${part(one.idle)}</td><td class="number" data-name="jobs">${amount(one.jobs)}</td>
    <td class="number" data-name="wait">${age(one.wait_p50_s)}</td><td class="number" data-name="95 %">${age(one.wait_p95_s)}</td>
    <td class="number" data-name="evicted">${amount(one.evictions)}</td><td class="number" data-name="lost">${hours(one.lost_gpu_hours)}</td></tr>`)}</tbody>
</table></div>${total > items.length ? html`<p>${amount(items.length)} of ${amount(total)}; take CSV for all of them.</p>` : ""}`;
