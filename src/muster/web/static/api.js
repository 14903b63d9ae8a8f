// The one way to the server: questions with answers, and one stream a page.

import { learn } from "./format.js";

export class Problem extends Error {
  /** @param {{code: string, message: string, because?: string, next?: string}} told */
  constructor(told) {
    super(told.message);
    this.told = told;
  }
}

const LOST = {
  code: "Unreachable",
  message: "The server does not answer.",
  because: "muster web may have ended, or the connection was lost.",
  next: "It is asked again by itself.",
};

/** Nothing is waited for without end. */
const WITHIN_MS = 60000;
const LATE = {
  code: "TooLate",
  message: "The server has not answered within a minute.",
  because: "It may have much to do, or something on the way keeps the answer.",
  next: "Try again.",
};

/** @param {string} path @param {RequestInit} [options] */
export async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`api/v1/${path}`, { ...options, signal: AbortSignal.timeout(WITHIN_MS) });
  } catch (error) {
    throw new Problem(/** @type {any} */ (error).name === "TimeoutError" ? LATE : LOST);
  }
  let body;
  try {
    body = await answer.json();
  } catch {
    throw new Problem({ code: "NoAnswer", message: `The server answered ${answer.status} and no JSON.` });
  }
  if (!answer.ok) throw new Problem(body.error ?? LOST);
  learn(body);
  return body;
}

/** Changes nothing but who we are to the server. @param {"login"|"logout"} what @param {object} shown */
export const session = (what, shown = {}) => ask(what, { method: "POST", body: JSON.stringify(shown) });

const AGAIN_MS = 5000;
/** The server says every ten seconds that it is there. */
const SILENT_MS = 25000;

/** What was told; null: it cannot be read, and all of it is to be asked for. @param {string} text */
function read(text) {
  try {
    const told = JSON.parse(text);
    learn(told);
    return told;
  } catch {
    return null;
  }
}

/** News of the cluster. Closed while nobody looks: a browser has six connections for all tabs. */
export class Stream {
  /** @param {{delta: (told: any) => void, reset: () => void, beat: (told: any) => void, silent: () => void, state: (live: boolean) => void}} hears */
  constructor(hears) {
    this.hears = hears;
    /** @type {EventSource|null} */
    this.source = null;
    this.last = 0;
    this.opened = 0;
    window.setInterval(() => this.listen(), AGAIN_MS);
    document.addEventListener("visibilitychange", () => this.open(!document.hidden));
    this.open(!document.hidden);
  }

  /** Something between us and the server may keep what it sends: then there is no news, and no error. */
  listen() {
    if (!this.source || Date.now() - Math.max(this.last, this.opened) < SILENT_MS) return;
    this.hears.state(false);
    this.hears.silent();
  }

  /** @param {boolean} wanted */
  open(wanted) {
    if (!wanted) {
      this.source?.close();
      this.source = null;
      return;
    }
    if (this.source) return;
    const source = (this.source = new EventSource("api/v1/stream"));
    this.opened = Date.now();
    if (this.last) this.hears.reset();
    const heard = () => {
      this.last = Date.now();
      this.hears.state(true);
    };
    source.addEventListener("delta", (event) => {
      heard();
      const told = read(event.data);
      if (told) this.hears.delta(told);
      else this.hears.reset();
    });
    source.addEventListener("beat", (event) => {
      heard();
      const told = read(event.data);
      if (told) this.hears.beat(told);
    });
    source.addEventListener("reset", () => {
      heard();
      this.hears.reset();
    });
    source.onerror = () => {
      this.hears.state(false);
      // A browser tries again by itself, but not where it was refused: a proxy may have said so.
      if (source.readyState !== EventSource.CLOSED || this.source !== source) return;
      this.source = null;
      window.setTimeout(() => this.open(!document.hidden), AGAIN_MS);
    };
  }
}
