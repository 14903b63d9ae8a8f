// What changed while somebody looks lights up once.

const LASTS_MS = 1500;

/** @type {Map<string, {value: any, at: number}>} */
const seen = new Map();

/** Another page is looked at: nothing on it has changed yet. */
export const forget = () => seen.clear();

/** The class of a cell. @param {string} cell @param {any} value what it shows */
export function changed(cell, value) {
  const known = seen.get(cell);
  if (known === undefined || known.value !== value) seen.set(cell, { value, at: known === undefined ? 0 : Date.now() });
  return Date.now() - (seen.get(cell)?.at ?? 0) < LASTS_MS ? "changed" : "";
}
