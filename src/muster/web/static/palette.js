// Colours of queues: twelve that can be told apart, by the order of names, so that they stay.

const HUES = [
  "#3b6fd4", "#d9822b", "#2a9d6f", "#b5478f", "#7a6ad8", "#b8a100",
  "#c4483f", "#3aa0b8", "#8a5a2b", "#5f8f2e", "#96408f", "#5c6b7a",
];

/** @type {Map<string, number>} */
const known = new Map();

/** Queues get their colours in the order in which they are named here. @param {string[]} names */
export function know(names) {
  for (const name of [...names].sort()) if (!known.has(name)) known.set(name, known.size);
}

/** @param {string} queue */
export function colour(queue) {
  if (!known.has(queue)) know([queue]);
  return HUES[/** @type {number} */ (known.get(queue)) % HUES.length];
}

/** The letter that says the same without colour. @param {string} queue */
export const letter = (queue) => (queue[0] ?? "?").toUpperCase();

/** A colour for any name: two may share one, neighbours seldom do. @param {string} name */
export function hueOf(name) {
  let sum = 0;
  for (let i = 0; i < name.length; i++) sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
  return HUES[sum % HUES.length];
}

/** What can be read on a colour. @param {string} hue #rrggbb */
export function ink(hue) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hue.slice(at, at + 2), 16) / 255);
  return 0.3 * r + 0.59 * g + 0.11 * b > 0.55 ? "#10151c" : "#fff";
}
