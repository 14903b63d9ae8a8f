// Numbers, ages and names as people read them.

/** @param {number|null|undefined} amount */
export const amount = (amount) =>
  amount == null ? "–" : amount.toLocaleString("en", { maximumFractionDigits: Math.abs(amount) < 10 ? 2 : 1 });

/** As kubectl writes ages: 3h12m. @param {number} seconds */
export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  if (d) return h ? `${d}d${h}h` : `${d}d`;
  if (h) return m ? `${h}h${m}m` : `${h}h`;
  return m ? `${m}m` : `${s}s`;
}

/** @param {number|null} at seconds since 1970 */
export const since = (at) => (at ? age(Date.now() / 1000 - at) : "–");

/** @param {number} at */
export const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

/** The day only where it is not today. @param {string|null|undefined} text */
export function moment(text) {
  if (!text) return "–";
  const at = new Date(text), isToday = at.toDateString() === new Date().toDateString();
  return at.toLocaleString("en-GB", isToday ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/** @param {number} count @param {string} noun @param {string} [nouns] where it is not formed by an s */
export const counted = (count, noun, nouns = `${noun}s`) => `${amount(count)} ${count === 1 ? noun : nouns}`;

const OWNED = /\bpg-([a-z0-9.-]+?)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

const KEY = /[a-z0-9-]+\/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/g;
/** What jobs are called that answers spoke of, by key, where the key does not tell it. @type {Map<string, string>} */
const CALLED = new Map();

/** @param {{called?: Record<string, string>}|null} told an answer, or an event of the stream */
export function learn(told) {
  for (const [key, name] of Object.entries(told?.called ?? {})) CALLED.set(key, name);
}

/** A key or a sentence as people read it: groups called by the owners that they were made for. @param {string} text */
export function named(text) {
  const found = text?.includes("pg-") ? text.replace(OWNED, "$1") : text;
  return CALLED.size && found ? found.replace(KEY, (key) => CALLED.get(key) ?? key) : found;
}
