// Frame, addresses and keys. A page is {title, load(where), view(data, where), heard?(data, told)}.

import { html, render, nothing } from "./vendor/lit-html/lit-html.js";
import { ask, Problem, session, Stream } from "./api.js";
import { age, amount, clock, counted, named } from "./format.js";
import { forget } from "./flash.js";
import { know } from "./palette.js";
import { byCode, form } from "./login.js";
import overview from "./pages/overview.js";
import queues from "./pages/queues.js";
import jobs from "./pages/jobs.js";
import job from "./pages/job.js";
import cluster from "./pages/cluster.js";
import node from "./pages/node.js";
import queue from "./pages/queue.js";
import evictions from "./pages/evictions.js";
import usage from "./pages/usage.js";
import plan from "./pages/plan.js";

const PAGES = [
  { path: "overview", key: "o", name: "Overview", page: overview },
  { path: "queues", key: "q", name: "Queues", page: queues },
  { path: "jobs", key: "j", name: "Jobs", page: jobs },
  { path: "cluster", key: "c", name: "Cluster", page: cluster },
  { path: "evictions", key: "e", name: "Evictions", page: evictions },
  { path: "usage", key: "u", name: "Usage", page: usage },
  { path: "plan", key: "p", name: "Plan", page: plan },
];
const OTHERS = { job, node, queue };
/** Where one of them is listed. */
const UNDER = { job: "jobs", node: "cluster", queue: "queues" };
const STALE_S = 15;
const RELOAD_MS = 2000;
const TOLD_EACH_MS = 10000;
/** What is over by itself: the page asks again. */
const PASSING = ["NotReady", "Unreachable", "TooBusy"];
/** Jobs that could run, and that nobody has started for so long: the scheduler may not be there. */
const UNDONE_S = 60;

const state = {
  where: address(),
  /** @type {any} */ page: overview,
  /** @type {any} */ data: undefined,
  /** @type {any} */ problem: null,
  /** @type {any} */ status: null,
  live: false,
  /** Asked again and again, where something on the way holds the stream back. */
  polls: false,
  /** What time it is for the server, in seconds, less what it is here. */
  ahead: 0,
  /** What a screen reader is told, and when. */
  told: { text: "", at: 0 },
  /** What does not do its work, whatever is shown. @type {any[]} */
  ailments: [],
  /** @type {any} */ hidden: null,
  lostAt: 0,
  keys: true,
  help: false,
};
let asked = 0;
let reloading = 0;
/** The address of each list as it was left: Esc leads back to it. @type {Record<string, string>} */
const lists = {};

/** The address behind "#": page, name of what is shown, and filters. */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return {
    page: page || "overview",
    name: rest.map(decoded).join("/"),
    query: new URLSearchParams(query ?? ""),
  };
}

/** Whatever somebody wrote behind "#". @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** What is shown at an address of no page. */
const nowhere = {
  title: () => "No such page",
  load: async (/** @type {any} */ where) => {
    throw new Problem({ code: "NotFound", message: `There is no page ${where.page}.`, next: "Choose one above." });
  },
  view: () => nothing,
};

async function go() {
  state.where = address();
  forget();
  const known = PAGES.find((entry) => entry.path === state.where.page);
  if (known) lists[known.path] = location.hash;
  state.page = known?.page ?? OTHERS[state.where.page] ?? nowhere;
  state.data = undefined;
  state.problem = null;
  document.title = `${state.page.title(state.where)} · muster`;
  draw();
  await load();
  const main = document.getElementById("main");
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (seeks) search();
  seeks = false;
  // Whoever is typing by now goes on.
  if (main && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

async function load() {
  const mine = ++asked;
  try {
    const data = await state.page.load(state.where, ask, draw);
    if (mine !== asked) return; // another page is wanted by now
    // Rows stay where they are while they are looked at.
    state.data = state.data !== undefined && state.page.kept ? state.page.kept(state.data, data) : data;
    state.problem = null;
  } catch (problem) {
    if (mine !== asked) return;
    if (!(problem instanceof Problem)) throw problem;
    // What was there stays; only a page without anything shows the problem in its place.
    const isRefused = ["NotFound", "Unauthorized"].includes(problem.told.code);
    if (state.data === undefined || isRefused) state.problem = problem.told;
    if (problem.told.code === "Unreachable") state.polls = false;
    if (PASSING.includes(problem.told.code)) later();
  }
  draw();
}

const askStatus = () => ask("status").then((found) => {
  state.status = found;
  state.ailments = found.ailments ?? [];
  tell();
  draw();
}, () => {});

/** Ask again, at most once in a while however much is heard. */
function later() {
  if (reloading) return;
  reloading = window.setTimeout(() => {
    reloading = 0;
    load();
  }, RELOAD_MS);
}

function heard(told) {
  state.status = told.status;
  tell();
  const isTold = state.data !== undefined && state.page.heard?.(state.data, told);
  if (!isTold) later();
  draw();
}

/** One sentence, now and then: who cannot see what moves hears how it stands. */
function tell() {
  if (Date.now() - state.told.at < TOLD_EACH_MS || !state.status) return;
  const { gpus, jobs } = state.status;
  state.told = { text: `${amount(gpus.used)} of ${amount(gpus.all)} GPUs used, ${counted(jobs.waiting, "job")} waiting.`, at: Date.now() };
}

function draw() {
  render(frame(), /** @type {HTMLElement} */ (document.getElementById("frame")));
  state.page.drawn?.(state.data, state.where);
}

const frame = () => html`
  <header>
    <span class="brand"><svg viewBox="0 0 16 16" aria-hidden="true"><rect x="1" y="1" width="6" height="6" rx="1.5" fill="var(--within)"></rect><rect x="9" y="1" width="6" height="6" rx="1.5" fill="var(--owed)"></rect><rect x="1" y="9" width="6" height="6" rx="1.5" fill="var(--over)"></rect><rect x="9" y="9" width="6" height="6" rx="1.5" fill="var(--free)"></rect></svg>
      muster <span class="cluster">${state.status?.cluster ?? nothing}</span></span>
    <nav aria-label="Pages">
      ${PAGES.map(
        (entry) => html`<a
          href="#/${entry.path}"
          aria-current=${entry.path === state.where.page ? "page" : entry.path === UNDER[state.where.page] ? "true" : nothing}
          >${entry.name}</a>`,
      )}
    </nav>
    <span class="grow"></span>
    <span class="live ${state.live ? "on" : "off"}">${freshness()}</span>
    ${state.hidden?.session ? html`<button class="plain" @click=${leave}>Log out</button>` : nothing}
    <button class="plain" @click=${turnTheme} title="light or dark" aria-label="Light or dark">◐</button>
    <button class="plain" @click=${() => toggleHelp()} title="keys" aria-label="Keys">?</button>
  </header>
  <p class="hushed" role="status">${state.told.text}</p>
  ${banner()}${idle()}${state.ailments.map((one) => html`<p class="banner" role="alert">${one.message} So for ${age(Date.now() / 1000 + state.ahead - one.since)}.</p>`)}
  ${state.hidden?.jobs ? html`<aside class="notice" aria-label="What is hidden">Names of ${counted(state.hidden.jobs, "job")} in ${counted(state.hidden.namespaces, "namespace")} are hidden from you; counts and queues stay.</aside>` : nothing}
  <main id="main" tabindex="-1" class=${isStale() ? "stale" : ""}>
    <h1>${state.page.title(state.where)}</h1>
    ${content()}
  </main>
  ${state.help ? help() : nothing}
`;

function content() {
  if (state.problem?.code === "Unauthorized") return form(state.problem);
  if (state.problem) return trouble(state.problem);
  if (state.data === undefined)
    return html`<p class="loading">Loading ${state.page.title(state.where).toLowerCase()}…</p>`;
  return state.page.view(state.data, state.where, draw);
}

const trouble = (told) => html`<section class="problem" role="alert">
  <p><strong>${told.message}</strong></p>
  ${told.because ? html`<p>${told.because}</p>` : nothing}
  ${told.next ? html`<p>${told.next}</p>` : nothing}
  <p class="code">${told.code}</p>
  <button @click=${load}>Try again</button>
</section>`;

const isStale = () => !state.live && !state.polls && state.lostAt > 0 && Date.now() / 1000 - state.lostAt > STALE_S;

const freshness = () =>
  state.live
    ? html`live${state.status ? html`<span class="roomy">, cycle ${amount(state.status.cycle.number)}${state.status.cycle.took_ms ? ` took ${state.status.cycle.took_ms.toFixed(0)} ms` : nothing}</span>` : nothing}`
    : "connecting…";

const banner = () =>
  state.live || !state.lostAt
    ? nothing
    : html`<p class="banner" role="alert">
        ${state.polls
          ? html`No live news: something on the way holds the stream back, so this page asks every few seconds.`
          : html`No news: the connection was lost. What you see is from ${clock(state.lostAt)}.`}
        <button @click=${load}>Try now</button>
      </p>`;

/** By the same rules these would run: somebody who should start them does not. */
function idle() {
  const undone = state.status?.undone;
  const lasts = undone ? Date.now() / 1000 + state.ahead - undone.since : 0;
  return lasts < UNDONE_S
    ? nothing
    : html`<p class="banner" role="alert">
        ${counted(undone.jobs, "job")} could start for ${age(lasts)} and nobody starts ${undone.jobs === 1 ? "it" : "them"}, <a href="#/job/${undone.first}">${named(undone.first)}</a> first.
        The scheduler may be down, or decide by another configuration than this page.
      </p>`;
}

const KEYS = [
  ...PAGES.map((entry) => [`g ${entry.key}`, entry.name]),
  ["/", "search"],
  ["j k", "next and previous row"],
  ["Enter", "open"],
  ["f", "filter"],
  ["?", "this list"],
  ["Esc", "close; from one thing back to its list"],
];

const help = () => html`<dialog open aria-label="Keys">
  <h2>Keys</h2>
  <table>
    ${KEYS.map(([key, does]) => html`<tr><td><kbd>${key}</kbd></td><td>${does}</td></tr>`)}
  </table>
  <label><input type="checkbox" .checked=${state.keys} @change=${(e) => (state.keys = e.target.checked)} /> Keys are on</label>
  <button @click=${() => toggleHelp()}>Close</button>
</dialog>`;

function toggleHelp(shown = !state.help) {
  state.help = shown;
  draw();
}

const leave = () => session("logout").finally(() => location.reload());

function turnTheme() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).colorScheme.startsWith("dark") || matchMedia("(prefers-color-scheme: dark)").matches;
  const next = root.dataset.theme ? (root.dataset.theme === "dark" ? "light" : "dark") : isDark ? "light" : "dark";
  root.dataset.theme = next;
  localStorage.setItem("theme", next);
  draw();
}

/** Whether there is something to type a search into, on this page. */
function search() {
  const field = /** @type {HTMLElement|null} */ (document.querySelector("input[type=search]"));
  field?.focus();
  return Boolean(field);
}

let prefix = "";
/** Whether somebody wants to search, on a page to come. */
let seeks = false;
function pressed(event) {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") {
    if (state.help) toggleHelp(false);
    else if (typing) event.target.blur();
    else if (state.keys && OTHERS[state.where.page]) location.hash = lists[UNDER[state.where.page]] ?? `#/${UNDER[state.where.page]}`;
    return;
  }
  if (!state.keys || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main [data-row]")]);
  const at = rows.indexOf(/** @type {any} */ (document.activeElement?.closest("[data-row]")));
  if (prefix === "g") {
    const entry = PAGES.find((known) => known.key === event.key);
    if (entry) location.hash = `#/${entry.path}`;
  } else if (event.key === "?") toggleHelp();
  else if (event.key === "/") {
    event.preventDefault();
    seeks = !search();
    if (seeks) location.hash = "#/jobs";
  } else if (event.key === "f") {
    event.preventDefault();
    /** @type {HTMLElement|null} */ (document.querySelector("main .tools :is(select, input:not([type=search]))"))?.focus();
  } else if (event.key === "j") rows[Math.min(at + 1, rows.length - 1)]?.focus();
  else if (event.key === "k") rows[Math.max(at - 1, 0)]?.focus();
  prefix = prefix === "g" ? "" : event.key === "g" ? "g" : "";
}

document.getElementById("frame")?.replaceChildren();
const theme = localStorage.getItem("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
window.addEventListener("hashchange", go);
window.addEventListener("keydown", pressed);
function start() {
  new Stream({
    delta: heard,
    reset: load,
    beat: ({ at, ailments }) => {
      state.ahead = at - Date.now() / 1000;
      const isNews = JSON.stringify(ailments) !== JSON.stringify(state.ailments);
      state.ailments = ailments ?? [];
      if (isNews) later();
      draw();
    },
    silent: () => {
      state.polls = true;
      state.lostAt ||= Date.now() / 1000;
      askStatus();
      load();
    },
    state: (live) => {
      if (live) state.polls = false;
      if (state.live && !live) state.lostAt = Date.now() / 1000;
      const changed = state.live !== live;
      state.live = live;
      if (changed) {
        draw();
        if (live && state.lostAt) load();
        if (!live) later(); // it may be that we have to log in again
      }
    },
  });
  askStatus();
  ask("whoami").then((found) => {
    state.hidden = found;
    draw();
  }, () => {});
  ask("queues").then((found) => know(found.items.map((queue) => queue.name)), () => {});
  go();
}
byCode().finally(start);
