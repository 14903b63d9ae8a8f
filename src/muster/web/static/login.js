// Who looks from another machine shows a token once. It is kept nowhere here: the server answers
// with a cookie that no script can read.

import { html, nothing } from "./vendor/lit-html/lit-html.js";
import { Problem, session } from "./api.js";

/** @param {any} told why nothing is shown */
export const form = (told) => html`<form class="card login" aria-label="Log in" @submit=${send}>
  <p>${told.message}</p>
  <label>Token <input type="password" name="token" required autocomplete="off" spellcheck="false" /></label>
  <button>Log in</button>
  <p class="quiet">In Kubernetes: <code>kubectl create token SERVICE-ACCOUNT</code>. Or let <code>muster dashboard --server ${location.origin} --token-file FILE</code> open this page.</p>
  <p class="refused" role="alert"></p>
</form>`;

/** @param {SubmitEvent} event */
async function send(event) {
  event.preventDefault();
  const sent = /** @type {HTMLFormElement} */ (event.target);
  const field = /** @type {HTMLInputElement} */ (sent.elements.namedItem("token"));
  const said = /** @type {HTMLElement} */ (sent.querySelector(".refused"));
  try {
    await session("login", { token: field.value });
    location.reload();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    field.value = "";
    said.textContent = problem.told.message;
    field.focus();
  }
}

/** The code that `muster dashboard` put behind "#": used once, and out of the address at once. */
export async function byCode() {
  const code = location.hash.match(/^#code=([\w-]+)$/)?.[1];
  if (!code) return nothing;
  history.replaceState(null, "", location.pathname + location.search);
  return session("login", { code }).catch(() => nothing);
}
