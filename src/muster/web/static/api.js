// The one way to the server: questions with answers, and one stream a page.

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

/** @param {string} path @param {RequestInit} [options] */
export async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`api/v1/${path}`, options);
  } catch {
    throw new Problem(LOST);
  }
  let body;
  try {
    body = await answer.json();
  } catch {
    throw new Problem({ code: "NoAnswer", message: `The server answered ${answer.status} and no JSON.` });
  }
  if (!answer.ok) throw new Problem(body.error ?? LOST);
  return body;
}

/** Changes nothing but who we are to the server. @param {"login"|"logout"} what @param {object} shown */
export const session = (what, shown = {}) => ask(what, { method: "POST", body: JSON.stringify(shown) });

const AGAIN_MS = 5000;

/** News of the cluster. Closed while nobody looks: a browser has six connections for all tabs. */
export class Stream {
  /** @param {{delta: (told: any) => void, reset: () => void, state: (live: boolean) => void}} hears */
  constructor(hears) {
    this.hears = hears;
    /** @type {EventSource|null} */
    this.source = null;
    this.last = 0;
    document.addEventListener("visibilitychange", () => this.open(!document.hidden));
    this.open(!document.hidden);
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
    if (this.last) this.hears.reset();
    const heard = () => {
      this.last = Date.now();
      this.hears.state(true);
    };
    source.addEventListener("delta", (event) => {
      heard();
      this.hears.delta(JSON.parse(event.data));
    });
    source.addEventListener("beat", heard);
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
