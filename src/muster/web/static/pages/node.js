// One node: its devices and who holds them.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { amount, counted, named, since } from "../format.js";

export default {
  title: (where) => where.name || "Node",

  load: (where, ask) => ask(`nodes/${encodeURIComponent(where.name)}`),

  view(node) {
    return html`
      <ul class="facts">
        <li><span class="state ${node.state === "ready" ? "running" : "waiting"}">${node.state}</span>${node.since ? ` for ${since(node.since)}` : nothing}</li>
        ${node.gpu ? html`<li>${node.gpu}</li>` : nothing}
        ${node.pool ? html`<li>pool ${node.pool}</li>` : nothing}
        ${node.rack ? html`<li>rack ${node.rack}</li>` : nothing}
        <li>${amount(node.used)} of ${counted(node.gpus, "GPU")} used, ${amount(node.free)} free</li>
        <li><a href="#/jobs?node=${node.name}">its jobs</a></li>
      </ul>
      <section class="card"><h2>Devices and who holds them</h2><ol class="devices">${node.devices.map(
        (device) => html`<li>${device.holders.length
          ? device.holders.map((holder) => html`<a href="#/job/${holder.job}">${named(holder.job)}</a>${holder.part < 1 ? ` ${(100 * holder.part).toFixed(0)}%` : ""} `)
          : "free"}</li>`,
      )}</ol>
      <p class="quiet">Which device of the node a whole GPU is, only its kubelet knows: the order here is that of arrival.</p></section>
      <section class="card"><h2>What would fit</h2><p>${fits(node)}</p></section>`;
  },
};

/** Of whole GPUs: what else a pod asks for may lack. @param {any} node */
const fits = (node) =>
  node.state !== "ready"
    ? `Nothing new comes while it is ${node.state}.`
    : node.free
      ? `A pod of up to ${counted(node.free, "GPU")}, where cores and memory allow it.`
      : "No pod that asks for a whole GPU: none is free.";
