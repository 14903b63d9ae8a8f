// Lines over time, as SVG: a few hundred points that the server has averaged already.

import { html, svg } from "../vendor/lit-html/lit-html.js";
import { amount } from "../format.js";
import { colour } from "../palette.js";

const WIDE = 1000, HIGH = 240;
const DASHES = ["", "6 3", "2 3", "10 3 2 3"];

/** @param {{t: number[], lines: Record<string, (number|null)[]>}} series @param {string} what */
export function chart(series, what) {
  const names = Object.keys(series.lines);
  const most = Math.max(1, ...names.flatMap((name) => series.lines[name].map((y) => y ?? 0)));
  const top = nice(most), end = series.t.length - 1;
  const x = (at) => (WIDE * at) / Math.max(end, 1);
  const y = (value) => HIGH * (1 - value / top);
  const said = `${what}: ${names.map((name) => `${name || "all nodes"} up to ${amount(round(Math.max(0, ...series.lines[name].map((v) => v ?? 0))))}`).join(", ")}`;
  return html`<div class="plot"><ol aria-hidden="true">${[1, 0.75, 0.5, 0.25, 0].map((part) => html`<li>${amount(round(top * part))}</li>`)}</ol><svg class="chart" role="img" aria-label=${said} viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none">
      ${[0, 0.25, 0.5, 0.75, 1].map((part) => svg`<line class="grid" x1="0" x2=${WIDE} y1=${y(top * part)} y2=${y(top * part)}></line>`)}
      ${names.map((name, at) => svg`<path class="line" stroke=${name ? colour(name) : "currentColor"} stroke-dasharray=${DASHES[at % DASHES.length]} d=${path(series.lines[name], x, y)}></path>`)}
    </svg><p class="times"><span>${day(series.t[0])}</span><span>${day(series.t[end])}</span></p></div>
    <p class="keys">${names.map((name, at) => html`<span><svg width="26" height="8" aria-hidden="true"><line x1="0" x2="26" y1="4" y2="4" stroke=${name ? colour(name) : "currentColor"} stroke-width="3" stroke-dasharray=${DASHES[at % DASHES.length]}></line></svg> ${name || "all nodes"}</span>`)}</p>`;
}

/** A gap where nobody looked. */
function path(values, x, y) {
  let text = "", isOn = false;
  values.forEach((value, at) => {
    if (value == null) isOn = false;
    else {
      text += `${isOn ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      isOn = true;
    }
  });
  return text;
}

/** What a quarter of is easily read, too. @param {number} most */
function nice(most) {
  const step = 10 ** Math.floor(Math.log10(most));
  return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].map((part) => part * step).find((top) => top >= most) ?? most;
}

const round = (value) => Math.round(value * 10) / 10;
const day = (at) => (at ? new Date(at * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }) : "–");
