// Where each GPU is drawn, and the drawing: by pixels, all cells in one go.

import { ink } from "./palette.js";

const LABEL = 56;
const GAP = 3;
/** What is drawn smaller than that stands in blocks, a rack each, so that all of it fits one screen. */
const DENSE = 5;
const TITLE = 10;

/** Nodes of a rack side by side, racks below each other; where there are many, in blocks side by side. */
export class Layout {
  /** @param {any} map @param {number} width @param {string} [only] a rack; otherwise all of them */
  constructor(map, width, only) {
    this.per = map.per;
    this.width = Math.max(200, width);
    const byRack = map.racks.map(() => /** @type {number[]} */ ([]));
    map.rack.forEach((rack, row) => byRack[rack].push(row));
    const racks = [...byRack.keys()].filter((rack) => (!only || map.racks[rack] === only) && byRack[rack].length);
    this.size = sizeOf(racks.reduce((sum, rack) => sum + byRack[rack].length, 0) * map.per);
    this.isDense = this.size < DENSE;
    /** @type {number[]} */ this.x = new Array(map.nodes.length);
    /** @type {number[]} */ this.y = new Array(map.nodes.length);
    /** @type {[string, number, number][]} text, left, top */ this.labels = [];
    this.height = Math.max(20, this.isDense ? this.#blocks(map, racks, byRack) : this.#rows(map, racks, byRack));
  }

  /** @param {any} map @param {number[]} racks @param {number[][]} byRack */
  #rows(map, racks, byRack) {
    const node = this.per * this.size + GAP, line = this.size + GAP;
    const across = Math.max(1, Math.floor((this.width - LABEL) / node));
    let top = 0;
    for (const rack of racks) {
      this.labels.push([map.racks[rack], 0, top]);
      byRack[rack].forEach((row, i) => {
        this.x[row] = LABEL + (i % across) * node;
        this.y[row] = top + Math.floor(i / across) * line;
      });
      top += Math.ceil(byRack[rack].length / across) * line + 2 * GAP;
    }
    return top;
  }

  /** Each rack about as wide as it is high, and as wide as the others.
   *  @param {any} map @param {number[]} racks @param {number[][]} byRack */
  #blocks(map, racks, byRack) {
    const node = this.per * this.size + 1, most = Math.max(1, ...racks.map((rack) => byRack[rack].length));
    const room = Math.max(1, Math.floor(this.width / node));
    const across = racks.length > 1 ? Math.min(room, Math.max(1, Math.round(Math.sqrt((most * this.size) / node)))) : room;
    const wide = across * node + GAP, beside = Math.max(1, Math.floor((this.width + GAP) / wide));
    let top = 0;
    for (let first = 0; first < racks.length; first += beside) {
      const line = racks.slice(first, first + beside);
      line.forEach((rack, place) => {
        this.labels.push([map.racks[rack], place * wide, top]);
        byRack[rack].forEach((row, i) => {
          this.x[row] = place * wide + (i % across) * node;
          this.y[row] = top + TITLE + Math.floor(i / across) * this.size;
        });
      });
      top += TITLE + Math.max(...line.map((rack) => Math.ceil(byRack[rack].length / across))) * this.size + GAP;
    }
    return top;
  }

  /** The cell at a point; -1: none. @param {number} x @param {number} y */
  cellAt(x, y) {
    const wide = this.per * this.size;
    const row = this.x.findIndex((left, at) => left !== undefined && x >= left && x < left + wide && y >= this.y[at] && y < this.y[at] + this.size);
    return row < 0 ? -1 : row * this.per + Math.floor((x - this.x[row]) / this.size);
  }
}

const sizeOf = (cells) => (cells > 20000 ? 4 : cells > 4000 ? 6 : cells > 1024 ? 12 : 18);

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
  pen.font = `${layout.isDense ? TITLE - 1 : 11}px system-ui, sans-serif`;
  pen.textBaseline = "top";
  for (const [label, x, y] of layout.labels) pen.fillText(label, x, y, LABEL - 6);
  const row = Math.floor(at / map.per), i = at % map.per;
  if (at >= 0 && layout.x[row] !== undefined) {
    pen.strokeStyle = style.getPropertyValue("--text");
    pen.lineWidth = 2;
    pen.strokeRect(layout.x[row] + i * layout.size - 1, layout.y[row] - 1, layout.size + 1, layout.size + 1);
  }
}
