// Where each GPU is drawn, and the drawing: by pixels, all cells in one go.

import { ink } from "./palette.js";

const LABEL = 56;
const GAP = 3;

/** Nodes of a rack side by side, racks below each other. Cells get smaller where there are many. */
export class Layout {
  /** @param {any} map @param {number} width @param {string} [only] a rack; otherwise all of them */
  constructor(map, width, only) {
    this.per = map.per;
    this.width = Math.max(200, width);
    this.size = sizeOf(map);
    this.node = this.per * this.size + GAP;
    const across = Math.max(1, Math.floor((this.width - LABEL) / this.node));
    /** @type {number[]} */ this.x = new Array(map.nodes.length);
    /** @type {number[]} */ this.y = new Array(map.nodes.length);
    /** @type {[string, number][]} */ this.labels = [];
    /** @type {Map<number, number>} */ this.cells = new Map();
    const byRack = map.racks.map(() => /** @type {number[]} */ ([]));
    map.rack.forEach((rack, row) => byRack[rack].push(row));
    let y = 0;
    byRack.forEach((rows, rack) => {
      if (only && map.racks[rack] !== only) return;
      this.labels.push([map.racks[rack], y]);
      rows.forEach((row, i) => {
        this.x[row] = LABEL + (i % across) * this.node;
        this.y[row] = y + Math.floor(i / across) * (this.size + GAP);
        this.cells.set(this.#place(this.x[row], this.y[row]), row);
      });
      y += Math.ceil(rows.length / across) * (this.size + GAP) + 2 * GAP;
    });
    this.height = Math.max(y, 20);
  }

  #place(x, y) {
    return Math.round(x / this.node) * 100000 + Math.floor(y);
  }

  /** The cell at a point; -1: none. @param {number} x @param {number} y */
  cellAt(x, y) {
    const column = Math.floor((x - LABEL) / this.node), left = LABEL + column * this.node;
    if (column < 0) return -1;
    for (let top = Math.floor(y); top > y - this.size - 1; top--) {
      const row = this.cells.get(this.#place(left, top));
      const cell = Math.floor((x - left) / this.size);
      if (row !== undefined && cell < this.per) return row * this.per + cell;
    }
    return -1;
  }
}

const sizeOf = (map) => (map.gpu.length > 20000 ? 4 : map.gpu.length > 4000 ? 6 : map.gpu.length > 1024 ? 12 : 18);

/** @param {HTMLCanvasElement} sheet @param {Layout} layout @param {any} map
 *  @param {{isLit: ((cell: number) => boolean)|null, at: number, hue: (job: number) => string, letter: (job: number) => string}} how */
export function paint(sheet, layout, map, { isLit, at, hue, letter }) {
  const ratio = window.devicePixelRatio || 1;
  sheet.width = layout.width * ratio;
  sheet.height = layout.height * ratio;
  sheet.setAttribute("height", String(sheet.height));
  const pen = sheet.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const free = style.getPropertyValue("--free"), shut = style.getPropertyValue("--shut"), held = style.getPropertyValue("--within");
  const inset = layout.size > 5 ? 1 : 0;
  const isRoomy = layout.size >= 12;
  pen.font = `700 ${Math.round(layout.size * 0.6)}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let row = 0; row < map.nodes.length; row++) {
    if (layout.x[row] === undefined) continue; // of another rack
    const isShut = map.state[row] !== "ready";
    for (let i = 0; i < map.per; i++) {
      const cell = row * map.per + i, job = map.gpu[cell];
      if (job < 0) continue;
      pen.globalAlpha = isLit && !isLit(cell) ? 0.15 : 1;
      const x = layout.x[row] + i * layout.size, y = layout.y[row], size = layout.size - inset;
      const fill = job > 0 ? hue(job) || held : isShut ? shut : free;
      pen.fillStyle = fill;
      pen.fillRect(x, y, size, size);
      // Nothing by colour alone, where there is room for more.
      const sign = !isRoomy ? "" : job > 0 ? letter(job) : isShut ? "×" : "";
      if (!sign) continue;
      pen.fillStyle = job > 0 ? ink(fill) : style.getPropertyValue("--text");
      pen.fillText(sign, x + size / 2, y + size / 2 + 0.5);
    }
  }
  pen.globalAlpha = 1;
  pen.textAlign = "left";
  pen.fillStyle = style.getPropertyValue("--text");
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "top";
  for (const [label, y] of layout.labels) pen.fillText(label, 0, y, LABEL - 6);
  const row = Math.floor(at / map.per), i = at % map.per;
  if (at >= 0 && layout.x[row] !== undefined) {
    pen.strokeStyle = style.getPropertyValue("--text");
    pen.lineWidth = 2;
    pen.strokeRect(layout.x[row] + i * layout.size - 1, layout.y[row] - 1, layout.size + 1, layout.size + 1);
  }
}
