// Drawings. Each stands beside a table or a sentence that says the same.
import { bdi, cut, Digits, h, many, now, number, root, span, stateWord, visible } from './core.js';

const at = (value) => Math.round(value * 10) / 10;

/** Throughput: a column for each part of the time, what failed for good in front of it. */
export function throughput(series, period, since) {
  const width = Math.max(280, document.getElementById('main').clientWidth - 50);
  const [height, left, bottom] = [170, 46, 24];
  const end = Math.ceil(now() / period) * period;
  const start = end - Math.ceil(since / period) * period;
  const slots = Math.max(1, Math.round((end - start) / period));
  const top = Math.max(4, ...series.map((part) => part.ended + part.failed));
  const step = 10 ** Math.floor(Math.log10(top));
  const most = Math.ceil(top / step) * step;
  const [wide, high] = [(width - left - 4) / slots, height - bottom - 10];
  const y = (value) => at(10 + high * (1 - value / most));
  const bars = series.flatMap((part) => {
    const slot = Math.round((Date.parse(part.at) - start) / period);
    if (slot < 0 || slot >= slots) return [];
    const x = at(left + slot * wide + Math.min(1, wide * 0.1));
    const bar = Math.max(1, at(wide - Math.min(2, wide * 0.2)));
    const failed = part.failed ? Math.max(2, at(high * part.failed / most)) : 0;
    return [
      h('rect.ended', { x, y: y(part.ended), width: bar, height: at(high * part.ended / most) }),
      failed && h('rect.failed', { x, y: at(10 + high - failed), width: bar, height: failed }),
    ];
  });
  const day = since > 36 * 3600e3;
  const ticks = [0, 1, 2, 3, 4].map((index) => start + (end - start) * index / 4);
  const label = (value) => new Intl.DateTimeFormat('en-GB', day ? { weekday: 'short', hour: '2-digit', minute: '2-digit' } : { hour: '2-digit', minute: '2-digit' }).format(value);
  const sum = (key) => series.reduce((total, part) => total + part[key], 0);
  return h('figure',
    h('svg.chart', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `In the last ${span(since)}: ${many(sum('ended'), 'handler')} ended, ${number(sum('failed'))} failed for good. At most ${number(top)} in ${span(period)}.` },
      [0, 0.5, 1].map((part) => [
        h('line.grid', { x1: left, x2: width, y1: y(most * part), y2: y(most * part) }),
        h('text', { x: left - 6, y: y(most * part) + 4, 'text-anchor': 'end' }, number(most * part)),
      ]),
      bars, h('line.axis', { x1: left, x2: width, y1: y(0), y2: y(0) }),
      ticks.map((value, index) => h('text', { x: at(left + (width - left) * index / 4), y: height - 6, 'text-anchor': ['start', 'middle', 'middle', 'middle', 'end'][index] }, label(value)))),
    h('figcaption.legend',
      h('span', h('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' }, h('rect', { class: 'ended', width: 12, height: 12, fill: 'var(--bar)' })), `${number(sum('ended'))} ended`),
      h('span', h('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' }, h('rect', { class: 'failed', width: 12, height: 12, fill: 'var(--quarantined)' })), `${number(sum('failed'))} failed for good`),
      h('span', `each column is ${span(period)}`)));
}

/** A bar or a point of a handler in the time of its chain. */
export function track(item, start, end) {
  const [width, size] = [300, Math.max(1, end - start)];
  const x = (value) => at(6 + (width - 12) * Math.min(1, Math.max(0, (value - start) / size)));
  const last = item.endedAt ? Date.parse(item.endedAt) : end;
  const kind = item.outcome ?? item.state;
  const first = item.boundAt ? Date.parse(item.boundAt) : null;
  const run = item.startedAt ? Date.parse(item.startedAt) : null;
  return h('svg.track', { viewBox: `0 0 ${width} 14`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    h('rect.rail', { x: 0, y: 6, width, height: 2 }),
    first === null
      ? h('rect.span', { class: kind, x: x(last) - 3, y: 1, width: 6, height: 12 })
      : [h('rect.span', { class: kind, x: x(first), y: 4, width: Math.max(3, at(x(last) - x(first))), height: 6 }),
        run !== null && h('rect.span', { class: 'running', x: x(run), y: 1, width: Math.max(3, at(x(last) - x(run))), height: 12 })]);
}

export function meter(part, whole, words) {
  const full = whole ? Math.min(100, 100 * part / whole) : 0;
  return h('svg.meter', { viewBox: '0 0 100 8', preserveAspectRatio: 'none', role: 'img', 'aria-label': words },
    h('rect.rail', { width: 100, height: 8, rx: 2 }), h('rect.full', { width: at(full), height: 8, rx: 2 }));
}

/** The joins of a chain: each handler in the column after those that wait for it. */
export function graph(items, joins) {
  const rows = new Map(items.map((item) => [item.row, item]));
  const edges = joins.filter((join) => rows.has(join.parent) && rows.has(join.child)).slice(0, 60);
  if (!edges.length) return null;
  const level = new Map();
  const names = [...new Set(edges.flatMap((edge) => [edge.parent, edge.child]))];
  for (const name of names) level.set(name, 0);
  // A parent stands left of its children; a damaged store may hold a circle, so the rounds are limited.
  for (let round = 0; round < 12; round += 1) {
    for (const { parent, child } of edges) if (level.get(child) <= level.get(parent)) level.set(child, Math.min(12, level.get(parent) + 1));
  }
  const columns = [];
  for (const name of names) (columns[level.get(name)] ??= []).push(name);
  const [wide, high] = [230, 46];
  const places = new Map();
  columns.filter(Boolean).forEach((column, x) => column.forEach((name, y) => places.set(name, { x: x * wide + 2, y: y * high + 4 })));
  const width = columns.filter(Boolean).length * wide - 40;
  const height = Math.max(...columns.filter(Boolean).map((column) => column.length)) * high + 4;
  return h('div.wide', { tabindex: '0', role: 'group', 'aria-label': 'Graph of joins' },
    h('svg.graph', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'group', 'aria-label': `${many(edges.length, 'handler')} for which others wait; the table below has the same` },
      edges.map(({ parent, child }) => {
        const [from, to] = [places.get(parent), places.get(child)];
        return h('path.edge', { d: `M${from.x + 186} ${from.y + 17}C${from.x + 208} ${from.y + 17} ${to.x - 22} ${to.y + 17} ${to.x} ${to.y + 17}` });
      }),
      [...places].map(([row, { x, y }]) => {
        const item = rows.get(row);
        const node = document.createElementNS('http://www.w3.org/2000/svg', 'a');
        node.setAttribute('href', `${root}/handlers/${encodeURIComponent(row)}`);
        node.setAttribute('data-page', '');
        node.append(h('rect', { x, y, width: 186, height: 34, rx: 5 }), h('rect.span', { class: item.outcome ?? item.state, x, y, width: 5, height: 34 }),
          h('text', { x: x + 13, y: y + 15 }, cut(visible(item.handler), 24)), h('text', { x: x + 13, y: y + 29 }, `${row} ${stateWord(item.outcome ?? item.state)}`));
        return node;
      })));
}

export function tree(value, key) {
  const name = key === undefined ? null : [h('span.key', cut(visible(key), 200)), ': '];
  if (value === null || typeof value !== 'object' || value instanceof Digits) {
    const isText = typeof value === 'string';
    const kind = value === '<secret>' ? 'span.mask' : isText ? 'span.text' : 'span.digit';
    return [name, h(kind, value === '<secret>' ? 'secret, not shown' : isText ? ['"', bdi(value, 4000), '"'] : String(value))];
  }
  const entries = Object.entries(value);
  if (!entries.length) return [name, Array.isArray(value) ? '[ ]' : '{ }'];
  return [name, h(key === undefined ? 'ul.tree' : 'ul', entries.slice(0, 200).map(([part, item]) => h('li', tree(item, part))),
    entries.length > 200 && h('li.dim', `and ${number(entries.length - 200)} more`))];
}
