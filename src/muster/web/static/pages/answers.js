// Parts of answers that several pages show.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { age, counted, moment, named } from "../format.js";

const SHOWN = 8;

/** @param {any[]} evicts */
export const evicted = (evicts) =>
  html`${evicts.slice(0, SHOWN).map((one, at) => html`${at ? ", " : ""}<a href="#/job/${one.job}">${named(one.job)}</a> (${counted(one.pods, "pod")}, ${counted(one.gpus, "GPU")})`)}${evicts.length > SHOWN ? ` and ${evicts.length - SHOWN} more` : nothing}`;

/** What would start it. @param {any[]} found */
export const changes = (found) =>
  found.length
    ? html`<h3>What would start it</h3><div class="scroll" role="region" tabindex="0" aria-label="What would start it"><table class="changes cards"><tbody>
        ${found.map((one) => html`<tr><td class="text whole"><strong>${named(one.do)}</strong></td><td class="text">${outcome(one)}</td></tr>`)}</tbody></table></div>`
    : nothing;

const outcome = (one) =>
  one.starts === "not before" ? "not before that; others may take the room" : one.evicts.length ? html`starts after evictions: ${evicted(one.evicts)}` : "starts now, evicts nobody";

/** What became of a job, the newest first. @param {any[]} events */
export const story = (events) => html`<ol class="story">${events.map(
  (event) => html`<li class=${event.kind}><time datetime=${event.at}>${moment(event.at)}</time><strong>${event.kind === "refused" ? "waits" : event.kind}</strong> ${told(event)}</li>`,
)}</ol>`;

function told(event) {
  if (event.kind === "refused") return html`${event.code}. ${named(event.because)}`;
  const size = `${counted(event.pods, "pod")}, ${counted(event.gpus, "GPU")}`;
  const where = event.nodes.length ? ` on ${event.nodes.slice(0, 4).join(", ")}${event.nodes.length > 4 ? " …" : ""}` : "";
  const ran = event.kind === "ended" && event.ran_s != null ? `, ran ${age(event.ran_s)}` : "";
  return html`${size}${ran}${where}${event.by ? ` by ${event.by}` : nothing}${event.for ? html` for <a href="#/job/${event.for}">${named(event.for)}</a>` : nothing}${event.because ? html`: ${named(event.because)}` : nothing}`;
}
