// Elements, words and times. Everything that a store holds becomes text nodes and attributes, never markup.

export const root = new URL('..', import.meta.url).pathname.replace(/\/$/, '');
export const $ = (selector, within = document) => within.querySelector(selector);
const svgNames = new Set(['svg', 'path', 'rect', 'line', 'text', 'g', 'circle', 'title']);

/** Makes an element: h('td.num', {title: 'x'}, 'text', child). Children that are null or false are left out. */
export function h(kind, ...rest) {
  const [name, ...classes] = kind.split('.');
  const node = svgNames.has(name) && kind !== 'title'
    ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  if (classes.length) node.setAttribute('class', classes.join(' '));
  const first = rest[0];
  if (first && typeof first === 'object' && !(first instanceof Node) && !Array.isArray(first)) {
    rest.shift();
    for (const [key, value] of Object.entries(first)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === 'class') node.setAttribute('class', [...classes, value].filter(Boolean).join(' '));
      else node.setAttribute(key, value === true ? '' : value);
    }
  }
  for (const child of rest.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Text of a store: characters that reorder, hide or break a line are shown by their numbers. */
export function visible(text) {
  return String(text).replaceAll('\n', '↵').replace(
    // eslint-disable-next-line no-control-regex
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g,
    (sign) => `‹U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);
}
export const cut = (text, most) => (text.length > most ? text.slice(0, most) + '…' : text);
export const bdi = (text, most = 400) => h('bdi', cut(visible(text), most));

// MARK: Numbers and times

export function number(value) {
  const count = Number(value ?? 0);
  if (count >= 1e8) return `${(count / 1e6).toLocaleString('en-US', { maximumSignificantDigits: 4 }).replaceAll(',', '\u202f')} M`;
  return count.toLocaleString('en-US').replaceAll(',', '\u202f');
}
export const many = (count, one, more = one + 's') => `${number(count)} ${Number(count) === 1 ? one : more}`;

const units = [[86400e3, 'd'], [3600e3, 'h'], [60e3, 'min'], [1e3, 's']];
/** A span of milliseconds with at most two units, such as 3 h 5 min. */
export function span(milliseconds) {
  const value = Math.abs(milliseconds);
  if (value < 1000) return `${value >= 10 || value === 0 ? Math.round(value) : Math.round(value * 10) / 10} ms`;
  if (value < 10e3) return `${(value / 1000).toFixed(1).replace('.0', '')} s`;
  const index = units.findIndex(([size]) => value >= size);
  const [size, unit] = units[index];
  const whole = Math.floor(value / size);
  const next = units[index + 1];
  const rest = next && whole < 10 ? Math.floor((value - whole * size) / next[0]) : 0;
  return `${number(whole)} ${unit}${rest ? ` ${rest} ${next[1]}` : ''}`;
}

/** The difference of the store's clock to the one of this machine. */
let clockAhead = 0;
export function setClock(at) {
  const time = Date.parse(at);
  if (Number.isFinite(time)) clockAhead = time - Date.now();
}
export const now = () => Date.now() + clockAhead;

function relative(at, form) {
  const left = at - now();
  if (form === 'age') return span(Math.max(0, -left));
  if (Math.abs(left) < 1000) return 'now';
  return left > 0 ? `in ${span(left)}` : `${span(left)} ago`;
}
const local = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** A time that keeps its words up to date: `ago` (5 s ago, in 3 min), `age` (5 s), or `clock` (local date and time). */
export function time(at, form = 'ago') {
  const value = Date.parse(at);
  if (!Number.isFinite(value)) return at ? bdi(at) : h('span.dim', '–');
  const words = form === 'clock' ? local.format(value) : relative(value, form);
  return h('time', { datetime: at, title: `${local.format(value)} here, ${at}`, 'data-form': form }, words);
}
export function tick() {
  for (const node of document.querySelectorAll('time[data-form]')) {
    const form = node.getAttribute('data-form');
    if (form === 'clock') continue;
    const words = relative(Date.parse(node.getAttribute('datetime')), form);
    if (node.firstChild.data !== words) node.firstChild.data = words;
  }
}

// MARK: JSON

/** A number of a store that JavaScript would round. */
export class Digits {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}
export function parse(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === 'number' && context?.source && !Number.isSafeInteger(value) && String(value) !== context.source
      ? new Digits(context.source) : value);
}
export function json(value) {
  if (value instanceof Digits) return value.text;
  if (Array.isArray(value)) return `[${value.map(json).join(', ')}]`;
  if (value && typeof value === 'object') {
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${json(item)}`).join(', ')}}`;
  }
  return JSON.stringify(value) ?? '';
}

// MARK: Signs

const shapes = {
  quarantined: 'M6 0L12 11H0z', parked: 'M6 0l6 6-6 6-6-6z', running: 'M2 0l10 6-10 6z', pending: 'M6 0a6 6 0 100 12A6 6 0 006 0zm0 2.2a3.8 3.8 0 110 7.6 3.8 3.8 0 010-7.6z',
  paused: 'M1 0h4v12H1zm6 0h4v12H7z', result: 'M0 6.5L2 4.6l2.6 2.6L10 1.5l2 1.9-7.4 7.8z', error: 'M2 0l4 4 4-4 2 2-4 4 4 4-2 2-4-4-4 4-2-2 4-4-4-4z',
  timeout: 'M0 0h12L7.5 6 12 12H0l4.5-6z', invalidated: 'M0 4.5h12v3H0z',
};
const words = { pending: 'waits', running: 'runs' };
export const sign = (kind) => h('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' }, h('path', { d: shapes[kind] ?? shapes.pending }));
export const stateWord = (kind) => words[kind] ?? visible(kind);
export const state = (kind, word) => h('span.state', { class: shapes[kind] ? kind : 'pending' }, sign(kind), word ?? stateWord(kind));

export const link = (path, ...children) => h('a', { href: root + path, 'data-page': true }, ...children);
export const handlerLink = (row, ...children) => link(`/handlers/${encodeURIComponent(row)}`, ...(children.length ? children : [row]));
export const chainLink = (row) => link(`/chains/${encodeURIComponent(row)}`, row);
export const query = (values) => {
  const parts = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ''));
  return parts.size ? `?${parts}` : '';
};

export const section = (title, ...children) => h('section', typeof title === 'string' ? h('h2', title) : title, ...children);
export const empty = (title, ...words) => h('div.empty', h('p', h('strong', title)), words.map((word) => (word instanceof Node ? word : h('p', word))));

/**
 * A table. Columns: {title, cell: row => child or children, kind: class of its cells}. On a phone each row is a card.
 * Rows keep their places while the pointer or the focus is in the table.
 */
export function table(label, columns, rows, key) {
  return h('div.scroll', h('table.cards', { 'aria-label': label },
    h('thead', h('tr', columns.map((column) => h('th', { scope: 'col', class: column.kind }, column.title)))),
    h('tbody', { 'data-list': label }, rows.map((row) => h('tr', { 'data-key': key(row) }, columns.map((column) => {
      const content = column.cell(row);
      const isBlank = content === null || content === undefined || content === '' || Array.isArray(content) && !content.length;
      return h('td', { class: [column.kind, isBlank ? 'blank' : ''].filter(Boolean).join(' ') || null, 'data-label': column.label ?? (typeof column.title === 'string' ? column.title : '') }, h('div', content));
    }))))));
}
