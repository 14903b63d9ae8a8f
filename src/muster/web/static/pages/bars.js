// The bar of a queue: what it uses within its share, what it borrows, what it is owed.

import { html, svg } from "../vendor/lit-html/lit-html.js";
import { amount } from "../format.js";

/** @param {any} queue @param {number} most */
export function bar(queue, most) {
  const { used, share, limit } = queue.gpu;
  const scale = (x) => `${Math.min(100, (100 * x) / Math.max(most, 1))}`;
  const within = share == null ? used : Math.min(used, share);
  const over = share == null ? 0 : Math.max(0, used - share);
  const owed = queue.stands.kind === "owed" ? queue.stands.gpus : 0;
  const said = `${amount(used)} used of a share of ${amount(share)}, ${standing(queue)}`;
  return html`<svg class="bar" role="img" aria-label=${said} viewBox="0 0 100 8" preserveAspectRatio="none">
    <rect class="room" x="0" y="0" width="100" height="8"></rect>
    <rect class="within" x="0" y="0" width=${scale(within)} height="8"></rect>
    <rect class="over" x=${scale(within)} y="0" width=${scale(over)} height="8"></rect>
    <rect class="owed" x=${scale(used)} y="2" width=${scale(owed)} height="4"></rect>
    ${share == null ? "" : mark(scale(share), "share")}
    ${limit == null ? "" : mark(scale(limit), "limit")}
  </svg>`;
}

/** What the colours of a bar mean. */
export const keys = () => html`<p class="keys"><span><span class="swatch within"></span>within its share</span><span><span class="swatch over"></span>borrowed</span><span><span class="swatch owed"></span>owed</span><span>│ share</span><span>┊ limit</span></p>`;

/** One length beside others. @param {number} value @param {number} most @param {string} said */
export const length = (value, most, said) => html`<svg class="bar thin" role="img" aria-label=${said} viewBox="0 0 100 8" preserveAspectRatio="none">
  <rect class="room" x="0" y="0" width="100" height="8"></rect><rect class="within" x="0" y="0" width=${(100 * value) / Math.max(most, 1)} height="8"></rect></svg>`;

const mark = (x, kind) => svg`<line class=${kind} x1=${x} x2=${x} y1="0" y2="8"></line>`;

/** @param {any} queue */
export const standing = (queue) =>
  queue.stands.kind === "even" ? "even" : `${queue.stands.kind} ${amount(queue.stands.gpus)}`;
