'use strict';
// One canvas draws what is in view; everything else is plain elements, so that it can be read aloud and selected.
const data = JSON.parse(document.getElementById('data').textContent);
const element = id => document.getElementById(id);
const canvas = element('chart'), panel = element('panel'), find = element('find');
const context = canvas.getContext('2d');

// MARK: The run

const OUTCOMES = ['result', 'error', 'timeout', 'invalidated', 'waiting', 'running', 'parked', 'quarantined', 'unknown'];
const WORDS = {
  result: 'result', error: 'error', timeout: 'timed out', invalidated: 'invalidated', waiting: 'still waits',
  running: 'runs', parked: 'parked', quarantined: 'quarantined', unknown: 'unknown',
};
const end = Math.max(1, data.duration);
// A page of a store has the dates of its start and of the present; that of a run has neither.
const isStore = data.since !== undefined, now = isStore ? data.now : end, isGrouped = data.groups.length > 0;
if (isStore) WORDS.waiting = 'waits';
// Columns as TimelinePage.Bar writes them. Of a handler without a known binding only the end is drawn, as a point.
const handlers = data.handlers.map(([id, name, args, bound, ended, outcome, boundBy, endedBy, reason, trace, failures, more]) => ({
  id, name: data.names[name], args, bound: bound === null ? ended : bound, isPoint: bound === null, ended,
  outcome: OUTCOMES[outcome], boundBy, endedBy, reason, trace, failures: failures || [],
  until: ended === null ? now : ended, row: 0, hidden: false, group: 0, ...more,
}));
handlers.sort((a, b) => a.bound - b.bound || a.id - b.id);
const byId = new Map(handlers.map(handler => [handler.id, handler]));
const chains = new Map();
for (const handler of handlers) {
  if (!chains.has(handler.trace)) chains.set(handler.trace, []);
  chains.get(handler.trace).push(handler);
}
const kills = data.processes.filter(process => process.fate === 'killed').map(process => process.end).sort((a, b) => a - b);
const off = new Set();
let rows = [];

/** Places every visible handler in the first row of its group that is free at its binding. */
function pack() {
  rows = [];
  const groups = data.groups.map(() => []);
  for (const handler of handlers) {
    handler.hidden = off.has(handler.outcome);
    if (isGrouped && !handler.hidden) groups[handler.group].push(handler);
  }
  if (!isGrouped) return packGroup(handlers.filter(handler => !handler.hidden));
  groups.forEach((group, index) => {
    const first = rows.length;
    packGroup(group);
    if (rows[first]) rows[first].label = data.groups[index];
  });
}

function packGroup(group) {
  const least = end / 4000, first = rows.length;
  for (const handler of group) {
    let row = first;
    while (row < rows.length && rows[row].busy > handler.bound) row += 1;
    if (row === rows.length) rows.push({ busy: 0, bars: [] });
    rows[row].bars.push(handler);
    rows[row].busy = Math.max(handler.until, handler.bound + least);
    handler.row = row;
  }
}

/** The index of the first bar in a row that ends at `time` or later. */
function firstFrom(bars, time) {
  let low = 0, high = bars.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bars[middle].until < time) low = middle + 1; else high = middle;
  }
  return low;
}

// MARK: The view

const AXIS = 22, LANE = 26, LANES = data.lanes, TOP = AXIS + LANE * LANES.length + 8;
let LABEL = 58;
const view = { start: 0, scale: 0, scroll: 0, width: 0, height: 0, row: 8 };
let selected = null, hovered = null, colors = {};

const x = time => LABEL + (time - view.start) * view.scale;
const timeAt = position => view.start + (position - LABEL) / view.scale;
const fittingScale = () => (view.width - LABEL - 12) / end;

function clamp() {
  view.scale = Math.min(Math.max(view.scale, fittingScale()), Math.max(fittingScale(), 40));
  const span = (view.width - LABEL - 12) / view.scale;
  view.start = Math.min(Math.max(view.start, 0), Math.max(0, end - span));
  view.row = isGrouped ? 18 : Math.min(20, Math.max(5, Math.floor((view.height - TOP) / Math.max(1, rows.length))));
  view.scroll = Math.min(Math.max(view.scroll, 0), Math.max(0, rows.length * view.row - (view.height - TOP) + 8));
}

function zoom(factor, position) {
  const time = timeAt(position);
  view.scale *= factor;
  clamp();
  view.start = time - (position - LABEL) / view.scale;
  clamp();
  redraw();
}

function fit() {
  view.scale = 0;
  view.start = 0;
  view.scroll = 0;
  clamp();
  redraw();
}

function reveal(handler) {
  const left = x(handler.bound), right = x(handler.until);
  if (right < LABEL + 20 || left > view.width - 20) {
    view.start = (handler.bound + handler.until) / 2 - (view.width - LABEL) / 2 / view.scale;
  }
  const y = handler.row * view.row - view.scroll;
  if (y < 0 || y > view.height - TOP - view.row * 2) view.scroll = handler.row * view.row - (view.height - TOP) / 2;
}

// MARK: Drawing

let isDrawing = false;
function redraw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => { isDrawing = false; draw(); });
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  colors = {};
  for (const name of ['paper', 'ink', 'faint', 'line', 'lane', 'focus', 'main', 'worker', 'kill'].concat(OUTCOMES)) {
    colors[name] = style.getPropertyValue('--' + name).trim();
  }
  for (const name of OUTCOMES) colors[name + 'Fill'] = pattern(name) || colors[name];
}

/** Outcomes differ by pattern as well as by color. */
function pattern(name) {
  if (name === 'result') return null;
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const brush = tile.getContext('2d');
  brush.fillStyle = colors[name];
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = brush.fillStyle = colors.paper;
  brush.lineWidth = 1.2;
  brush.beginPath();
  if (name === 'error') for (const shift of [-6, 0, 6]) { brush.moveTo(shift, 6); brush.lineTo(shift + 6, 0); }
  if (name === 'timeout') brush.fillRect(2, 2, 2, 2);
  if (name === 'invalidated') { brush.moveTo(3, 0); brush.lineTo(3, 6); }
  if (name === 'waiting') { brush.moveTo(0, 3); brush.lineTo(6, 3); }
  if (name === 'running') for (const shift of [-6, 0, 6]) { brush.moveTo(shift, 0); brush.lineTo(shift + 6, 6); }
  if (name === 'parked') { brush.moveTo(0, 3); brush.lineTo(6, 3); brush.moveTo(3, 0); brush.lineTo(3, 6); }
  if (name === 'quarantined') { brush.moveTo(0, 0); brush.lineTo(6, 6); brush.moveTo(0, 6); brush.lineTo(6, 0); }
  brush.stroke();
  return context.createPattern(tile, 'repeat');
}

function draw() {
  if (!view.width) return;
  clamp();
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.fillStyle = colors.paper;
  context.fillRect(0, 0, view.width, view.height);
  context.font = '12px system-ui, sans-serif';
  context.textBaseline = 'middle';
  drawBars();
  if (isStore) drawLinks();
  drawKills();
  if (isGrouped) drawLabels();
  drawLanes();
  drawAxis();
}

function drawAxis() {
  context.fillStyle = colors.faint;
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 1.8e6, 3.6e6].concat(
    isStore ? [7.2e6, 2.16e7, 4.32e7, ...[1, 2, 7, 14, 30, 90, 365, 1825, 7300].map(days => days * DAY)] : []);
  const step = steps.find(step => step * view.scale >= (isStore ? 110 : 70)) || steps[steps.length - 1];
  context.textAlign = 'center';
  // Dates are round ones.
  const shift = isStore ? data.since % step : 0;
  for (let time = Math.ceil((Math.max(0, view.start) + shift) / step) * step - shift; time <= end; time += step) {
    const place = x(time);
    if (place > view.width) break;
    if (place < LABEL) continue;
    context.fillRect(place, AXIS - 5, 1, 5);
    if (place > LABEL + 12 && place < view.width - 16) context.fillText(seconds(time, step), place, 9);
  }
}

function drawLanes() {
  LANES.forEach((role, index) => {
    const top = AXIS + index * LANE;
    context.fillStyle = colors.lane;
    context.fillRect(0, top, view.width, LANE - 4);
    const lives = data.processes.filter(process => process.role === role);
    for (const process of lives) drawProcess(process, top);
    // Drawn over the process that came next.
    for (const process of lives) if (process.fate === 'killed') cross(x(process.end), top + LANE / 2 - 2);
    if (role === 'server') for (const mark of data.marks) drawMark(mark, top);
    context.fillStyle = colors.lane;
    context.fillRect(0, top, LABEL - 4, LANE - 4);
    context.fillStyle = colors.ink;
    context.textAlign = 'left';
    context.fillText(role, 8, top + LANE / 2 - 1);
  });
  context.fillStyle = colors.line;
  context.fillRect(0, TOP - 5, view.width, 1);
}

function drawProcess(process, top) {
  const left = Math.max(x(process.start), LABEL - 4), right = Math.max(left + 2, x(process.end));
  if (right < LABEL || left > view.width) return;
  context.fillStyle = colors[process.role] || colors.main;
  context.fillRect(left, top + 3, right - left, LANE - 10);
  for (const [from, to] of process.frozen || []) {
    context.fillStyle = colors.invalidatedFill;
    context.fillRect(x(from), top + 3, Math.max(2, (to - from) * view.scale), LANE - 10);
  }
  if (process === hovered) outline(left, top + 3, right - left, LANE - 10);
  const text = String(process.pid);
  if (right - left > 44) {
    context.fillStyle = colors.ink;
    context.textAlign = 'left';
    context.fillText(text, left + 5, top + LANE / 2 - 1);
  }
}

function cross(left, top) {
  if (left < LABEL || left > view.width) return;
  context.strokeStyle = colors.kill;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(left - 4, top - 4); context.lineTo(left + 4, top + 4);
  context.moveTo(left + 4, top - 4); context.lineTo(left - 4, top + 4);
  context.stroke();
}

function drawMark(mark, top) {
  const place = x(mark.at);
  if (place < LABEL || place > view.width) return;
  const isBad = !['push', 'message', 'bound', 'resumed', 'thawed'].includes(mark.kind);
  context.fillStyle = isBad ? colors.kill : mark.kind === 'push' ? colors.focus : colors.faint;
  context.beginPath();
  const middle = top + LANE / 2 - 2, size = mark === hovered ? 7 : 5;
  context.moveTo(place, middle - size); context.lineTo(place + size, middle);
  context.lineTo(place, middle + size); context.lineTo(place - size, middle);
  context.fill();
}

function drawKills() {
  context.fillStyle = colors.kill;
  context.globalAlpha = 0.45;
  let last = -9;
  for (const kill of kills) {
    const place = Math.round(x(kill));
    if (place < LABEL || place > view.width || place === last) continue;
    context.fillRect(place, AXIS, 1, view.height - AXIS);
    last = place;
  }
  context.globalAlpha = 1;
}

function drawBars() {
  const from = view.start, to = timeAt(view.width), height = Math.max(3, view.row - 2);
  const first = Math.max(0, Math.floor(view.scroll / view.row));
  const last = Math.min(rows.length, Math.ceil((view.scroll + view.height - TOP) / view.row));
  for (let row = first; row < last; row += 1) {
    const bars = rows[row].bars, top = TOP + row * view.row - view.scroll;
    for (let index = firstFrom(bars, from); index < bars.length && bars[index].bound <= to; index += 1) {
      const bar = bars[index], left = Math.max(LABEL, x(bar.bound)), right = x(bar.until);
      if (bar.isPoint) { drawPoint(bar, top + height / 2); continue; }
      context.fillStyle = right - left > 7 ? colors[bar.outcome + 'Fill'] : colors[bar.outcome];
      context.fillRect(left, top, Math.max(2, right - left), height);
      for (const failure of bar.failures) {
        context.fillStyle = colors.kill;
        context.fillRect(x(failure), top, 2, height);
      }
      if (bar.outcome === 'parked' || bar.outcome === 'quarantined') drawReason(bar, left, top, right - left, height);
      if (bar.due !== undefined) drawDue(bar, top, height);
    }
  }
  for (const bar of new Set([hovered, selected])) {
    if (!bar || bar.row === undefined || bar.hidden) continue;
    const left = x(bar.bound), top = TOP + bar.row * view.row - view.scroll;
    outline(left, top, Math.max(2, x(bar.until) - left), height);
  }
}

// MARK: Drawing a store

function drawPoint(bar, middle) {
  context.fillStyle = colors[bar.outcome];
  context.beginPath();
  context.arc(x(bar.ended), middle, 4, 0, 2 * Math.PI);
  context.fill();
}

/** The reason in the bar, as far as there is room. */
function drawReason(bar, left, top, width, height) {
  if (!bar.reason || width < 60) return;
  context.save();
  context.beginPath();
  context.rect(left + 4, top, width - 8, height);
  context.clip();
  context.fillStyle = colors.paper;
  context.fillRect(left + 4, top + 1, Math.min(width - 8, context.measureText(bar.reason).width + 8), height - 2);
  context.fillStyle = colors.ink;
  context.textAlign = 'left';
  context.fillText(bar.reason, left + 8, top + height / 2 + 1);
  context.restore();
}

/** A triangle at the time at which a runner calls or expires the handler. */
function drawDue(bar, top, height) {
  const place = x(bar.due);
  if (place < LABEL || place > view.width) return;
  context.fillStyle = colors.focus;
  context.beginPath();
  context.moveTo(place - 5, top); context.lineTo(place + 5, top); context.lineTo(place, top + height);
  context.fill();
}

/** A line from each handler to the one that waits for it, and one at the present. */
function drawLinks() {
  const middle = handler => TOP + (handler.row + 0.5) * view.row - view.scroll;
  context.strokeStyle = colors.faint;
  context.lineWidth = 1;
  for (const child of handlers) {
    const parent = byId.get(child.parent);
    if (!parent || child.hidden || parent.hidden) continue;
    const from = middle(child), to = middle(parent);
    if (Math.max(from, to) < TOP || Math.min(from, to) > view.height) continue;
    const left = x(child.until), right = x(parent.until);
    context.beginPath();
    context.moveTo(left, from);
    context.quadraticCurveTo(Math.max(left, right) + 24, (from + to) / 2, right, to);
    context.stroke();
  }
  context.fillStyle = colors.focus;
  if (x(now) >= LABEL) context.fillRect(Math.round(x(now)), AXIS, 1, view.height - AXIS);
}

/** The names of the groups, over what goes on to the left of the time in view. */
function drawLabels() {
  context.fillStyle = colors.paper;
  context.fillRect(0, 0, LABEL - 4, view.height);
  context.textAlign = 'left';
  rows.forEach((row, index) => {
    const top = TOP + index * view.row - view.scroll;
    if (row.label === undefined || top < AXIS || top > view.height) return;
    context.fillStyle = colors.line;
    context.fillRect(0, top - 2, view.width, 1);
    context.save();
    context.beginPath();
    context.rect(0, top, LABEL - 10, view.row);
    context.clip();
    context.fillStyle = colors.ink;
    context.fillText(row.label, 8, top + view.row / 2);
    context.restore();
  });
}

function outline(left, top, width, height) {
  context.strokeStyle = colors.focus;
  context.lineWidth = 2;
  context.strokeRect(left - 2, top - 2, width + 4, height + 4);
}

// MARK: Words

const DAY = 8.64e7;
const date = time => new Date(data.since + time).toISOString().replace('T', ' ');

function seconds(time, step) {
  if (isStore) return step >= DAY ? date(time).slice(0, 10) : step >= 6e4 ? date(time).slice(5, 16) : date(time).slice(11, step < 1000 ? 23 : 19);
  const digits = step < 10 ? 3 : step < 100 ? 2 : step < 1000 ? 1 : 0;
  return (time / 1000).toFixed(digits) + ' s';
}

const moment = time => isStore ? date(time).slice(0, 23) + ' UTC' : '+' + (time / 1000).toFixed(3) + ' s';
const lasted = time => time < 1000 ? time + ' ms' : !isStore || time < 6e4 ? (time / 1000).toFixed(2) + ' s'
  : time < 3.6e6 ? (time / 6e4).toFixed(1) + ' min' : time < DAY ? (time / 3.6e6).toFixed(1) + ' h' : (time / DAY).toFixed(1) + ' d';
const processName = index => index === null || !data.processes[index] ? 'a process that is not known'
  : data.processes[index].role + ' (process ' + data.processes[index].pid + ')';

/** Formats JSON. A text with an escape stays as it is, because the escape stands for a character that must stay visible. */
function pretty(text) {
  if (text.includes('\\u')) return text;
  try { return JSON.stringify(JSON.parse(text), null, 1).replace(/\n\s*/g, ' '); } catch { return text; }
}

/** Fills the panel with a heading and pairs, always as text and never as markup. */
function tell(title, pairs) {
  panel.replaceChildren();
  const heading = document.createElement('h2');
  heading.textContent = title;
  const list = document.createElement('dl');
  for (const [name, value] of pairs) {
    const term = document.createElement('dt'), description = document.createElement('dd');
    term.textContent = name;
    if (value instanceof Node) description.append(value); else description.textContent = value;
    list.append(term, description);
  }
  panel.append(heading, list);
}

function code(text) {
  const box = document.createElement('pre');
  box.textContent = text;
  return box;
}

function link(handler, text) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'link';
  button.textContent = text;
  button.addEventListener('click', () => { off.clear(); syncLegend(); pack(); select(handler); });
  return button;
}

/** Links to other handlers, for the panel. */
function links(others) {
  const box = document.createElement('span');
  for (const other of others.slice(0, 30)) box.append(link(other, '#' + other.id), ' ');
  if (others.length > 30) box.append('and ' + (others.length - 30) + ' more');
  return box;
}

/** The pairs of a handler of a store. */
function stored(handler) {
  const pairs = [];
  if (handler.key !== undefined) pairs.push(['key', handler.key]);
  if (handler.ended === null) {
    pairs.push(['arguments', code(pretty(handler.args))], ['bound', moment(handler.bound)]);
    pairs.push(['ended', 'not yet'], ['why', handler.why]);
    if (handler.due !== undefined) pairs.push(['due', moment(handler.due)]);
    pairs.push(['waits for', lasted(now - handler.bound)]);
  } else pairs.push(['bound', 'the store does not keep that'], ['ended', moment(handler.ended)]);
  pairs.push(['outcome', WORDS[handler.outcome] + (handler.reason ? ' (' + handler.reason + ')' : '')]);
  const children = handlers.filter(other => other.parent === handler.id), parent = byId.get(handler.parent);
  if (children.length) pairs.push(['joins', links(children)]);
  if (parent) pairs.push(['joined by', links([parent])]);
  return pairs;
}

function inRun(handler) {
  const pairs = [
    ['arguments', code(pretty(handler.args))],
    ['bound', moment(handler.bound) + ' in ' + processName(handler.boundBy)],
  ];
  if (handler.ended === null) pairs.push(['ended', 'not in this run']);
  else pairs.push(['ended', moment(handler.ended) + ' in ' + processName(handler.endedBy)]);
  pairs.push(['outcome', WORDS[handler.outcome] + (handler.reason ? ' (' + handler.reason + ')' : '')]);
  pairs.push(['lasted', lasted(handler.until - handler.bound)]);
  const survived = kills.filter(kill => kill > handler.bound && kill < handler.until).length;
  pairs.push(['kills', survived === 0 ? 'none meanwhile' : survived === 1 ? 'one process was killed meanwhile'
    : survived + ' processes were killed meanwhile']);
  for (const failure of handler.failures) pairs.push(['failed', moment(failure)]);
  return pairs;
}

function tellHandler(handler) {
  const pairs = isStore ? stored(handler) : inRun(handler);
  const chain = chains.get(handler.trace);
  if (chain.length > 1) {
    const box = document.createElement('span');
    for (const other of chain.slice(0, 30)) {
      if (other === handler) box.append('#' + other.id + ' '); else box.append(link(other, '#' + other.id), ' ');
    }
    if (chain.length > 30) box.append('and ' + (chain.length - 30) + ' more');
    pairs.push(['chain', box]);
  }
  tell('#' + handler.id + ' ' + handler.name, pairs);
}

function tellProcess(process) {
  const fate = { killed: 'killed with SIGKILL', exited: 'ended by itself', running: 'still ran' };
  tell(process.role + ', process ' + process.pid, [
    ['started', moment(process.start)], ['ended', moment(process.end)],
    ['lasted', lasted(process.end - process.start)], ['fate', fate[process.fate] || process.fate],
  ].concat((process.frozen || []).map(([from, to]) => ['frozen', moment(from) + ' to ' + moment(to)])));
}

function tellNothing() {
  if (isStore) return tell(handlers.length + ' handlers', [
    ['bars', 'a handler that has not ended, from bound to now'],
    ['points', 'the end of a handler; the store keeps no more of it'],
    ['triangles', 'the time at which a handler is due'],
    ['lines', 'from a handler to the one that waits for it; down the page, the time of the report'],
    ['lanes', 'the handlers of a chain, or those of one name'],
    ['more', 'point at a bar, tap it, or go there with the arrow keys'],
  ]);
  tell(handlers.length + ' handlers in ' + data.processes.length + ' processes', [
    ['bars', 'a handler, from bound to ended, whichever processes came and went'],
    ['lines', 'a process was killed: ' + kills.length + ' times'],
    ['hatching', 'the process was stopped'],
    ['red notch', 'a call of the handler failed and was made again'],
    ['server', 'diamonds: a push, a session that was bound, resumed or lost, a broken line'],
    ['more', 'point at a bar, tap it, or go there with the arrow keys'],
  ]);
}

// MARK: Choosing

function select(handler, keepsView) {
  selected = handler;
  if (handler) {
    if (!keepsView) reveal(handler);
    tellHandler(handler);
    history.replaceState(null, '', '#handler=' + handler.id);
  } else {
    tellNothing();
    history.replaceState(null, '', '#');
  }
  redraw();
}

const shown = () => handlers.filter(handler => !handler.hidden && (!matches || matches.has(handler)));

function stepBy(count) {
  const list = shown();
  if (!list.length) return;
  const found = list.indexOf(selected), index = found >= 0 ? found : count > 0 ? -1 : list.length;
  select(list[Math.min(Math.max(index + count, 0), list.length - 1)]);
}

function stepRow(count) {
  if (!selected || selected.hidden) return stepBy(1);
  for (let row = selected.row + count; row >= 0 && row < rows.length; row += count) {
    const bars = rows[row].bars.filter(bar => !matches || matches.has(bar));
    if (!bars.length) continue;
    const middle = (selected.bound + selected.until) / 2;
    const distance = bar => Math.max(bar.bound - middle, middle - bar.until, 0);
    return select(bars.reduce((best, bar) => distance(bar) < distance(best) ? bar : best));
  }
}

/** The object at a point of the canvas: a handler, a process, a mark, or null; `reach` in pixels. */
function at(left, top, reach) {
  if (left < LABEL - 4) return null;
  if (top < TOP - 4) return inLane(LANES[Math.floor((top - AXIS) / LANE)], left, reach);
  const middle = Math.floor((top - TOP + view.scroll) / view.row);
  for (let away = 0; away * view.row <= reach; away += 1) {
    for (const row of away ? [middle - away, middle + away] : [middle]) {
      const bar = rows[row] && nearest(rows[row].bars, left, reach);
      if (bar) return bar;
    }
  }
  return null;
}

function nearest(bars, left, reach) {
  let best = null, least = reach + 1;
  for (let index = firstFrom(bars, timeAt(left - reach)); index < bars.length; index += 1) {
    const away = Math.max(x(bars[index].bound) - left, left - Math.max(x(bars[index].until), x(bars[index].bound) + 2), 0);
    if (away < least) { best = bars[index]; least = away; }
    if (x(bars[index].bound) > left + reach) break;
  }
  return best;
}

function inLane(role, left, reach) {
  if (role === 'server') {
    const away = mark => Math.abs(x(mark.at) - left);
    const mark = data.marks.reduce((best, mark) => !best || away(mark) < away(best) ? mark : best, null);
    return mark && away(mark) <= Math.max(6, reach) ? mark : null;
  }
  return data.processes.find(process =>
    process.role === role && left >= x(process.start) - reach && left <= Math.max(x(process.end), x(process.start) + 2) + reach) || null;
}

function tellAny(thing) {
  if (!thing) { if (selected) tellHandler(selected); else tellNothing(); }
  else if (thing.outcome) tellHandler(thing);
  else if (thing.role) tellProcess(thing);
  else tell(thing.text, [['at', moment(thing.at)]]);
}

// MARK: Search and filter

let matches = null;
function search(goes) {
  const text = find.value.trim().toLowerCase();
  const number = /^#?\d+$/.test(text) ? Number(text.replace('#', '')) : null;
  if (!text) matches = null;
  else if (number !== null && byId.has(number)) matches = new Set([byId.get(number)]);
  else {
    matches = new Set(handlers.filter(handler =>
      handler.name.toLowerCase().includes(text) || (handler.key || '').toLowerCase().includes(text) || handler.args.toLowerCase().includes(text)));
  }
  element('found').textContent = matches ? matches.size + ' found' : '';
  if (goes && matches && matches.size) {
    const first = shown()[0] || [...matches][0];
    if (first.hidden) { off.clear(); syncLegend(); pack(); }
    select(first);
  }
}

function syncLegend() {
  for (const box of element('legend').querySelectorAll('input')) box.checked = !off.has(box.value);
}

function makeLegend() {
  for (const outcome of OUTCOMES) {
    const count = handlers.reduce((sum, handler) => sum + (handler.outcome === outcome), 0);
    if (!count && OUTCOMES.indexOf(outcome) >= OUTCOMES.indexOf('waiting')) continue;
    const label = document.createElement('label'), box = document.createElement('input');
    const swatch = document.createElement('canvas');
    box.type = 'checkbox'; box.value = outcome; box.checked = true;
    swatch.className = 'swatch'; swatch.width = 22; swatch.height = 12; swatch.dataset.outcome = outcome;
    label.append(box, swatch, WORDS[outcome] + ' ' + count);
    box.addEventListener('change', () => {
      if (box.checked) off.delete(outcome); else off.add(outcome);
      pack();
      redraw();
    });
    element('legend').append(label);
  }
}

function paintLegend() {
  for (const swatch of document.querySelectorAll('.swatch')) {
    const brush = swatch.getContext('2d');
    brush.fillStyle = colors[swatch.dataset.outcome + 'Fill'];
    brush.fillRect(0, 0, 22, 12);
  }
}

// MARK: Pointers and keys

const pointers = new Map();
let moved = 0, pinch = 0;

canvas.addEventListener('pointerdown', event => {
  try { canvas.setPointerCapture(event.pointerId); } catch { /* A pointer that is gone already. */ }
  pointers.set(event.pointerId, event);
  moved = 0;
  pinch = spread();
});

canvas.addEventListener('pointermove', event => {
  const before = pointers.get(event.pointerId);
  if (!before) {
    hovered = at(event.offsetX, event.offsetY, 3);
    tellAny(hovered);
    return redraw();
  }
  pointers.set(event.pointerId, event);
  moved += Math.abs(event.offsetX - before.offsetX) + Math.abs(event.offsetY - before.offsetY);
  if (pointers.size === 2) {
    const now = spread();
    if (pinch > 0 && now > 0) zoom(now / pinch, [...pointers.values()].reduce((sum, each) => sum + each.offsetX, 0) / 2);
    pinch = now;
  } else if (pointers.size === 1 && moved > 4) {
    view.start -= (event.offsetX - before.offsetX) / view.scale;
    view.scroll -= event.offsetY - before.offsetY;
    redraw();
  }
});

for (const name of ['pointerup', 'pointercancel']) {
  canvas.addEventListener(name, event => {
    const isTap = pointers.size === 1 && moved <= 4 && name === 'pointerup';
    pointers.delete(event.pointerId);
    pinch = spread();
    if (!isTap) return;
    const thing = at(event.offsetX, event.offsetY, event.pointerType === 'mouse' ? 3 : 14);
    hovered = thing;
    if (!thing || thing.outcome) select(thing, true); else { tellAny(thing); redraw(); }
  });
}
canvas.addEventListener('pointerleave', () => { if (!pointers.size) { hovered = null; tellAny(null); redraw(); } });

function spread() {
  const [first, second] = [...pointers.values()];
  return second ? Math.hypot(first.offsetX - second.offsetX, first.offsetY - second.offsetY) : 0;
}

canvas.addEventListener('wheel', event => {
  event.preventDefault();
  if (event.ctrlKey || event.metaKey) return zoom(Math.exp(-event.deltaY / 200), event.offsetX);
  view.start += (event.shiftKey ? event.deltaY : event.deltaX) / view.scale;
  if (!event.shiftKey) view.scroll += event.deltaY;
  redraw();
}, { passive: false });

const middle = () => selected && !selected.hidden ? x((selected.bound + selected.until) / 2) : (LABEL + view.width) / 2;
const KEYS = {
  ArrowLeft: () => stepBy(-1), ArrowRight: () => stepBy(1), ArrowUp: () => stepRow(-1), ArrowDown: () => stepRow(1),
  Home: () => stepBy(-Infinity), End: () => stepBy(Infinity), '+': () => zoom(1.6, middle()), '=': () => zoom(1.6, middle()),
  '-': () => zoom(1 / 1.6, middle()), '0': fit, Escape: () => select(null),
  PageUp: () => { view.scroll -= (view.height - TOP) * 0.9; redraw(); },
  PageDown: () => { view.scroll += (view.height - TOP) * 0.9; redraw(); },
};
canvas.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
document.addEventListener('keydown', event => {
  if (event.key === '/' && document.activeElement !== find) { event.preventDefault(); find.focus(); }
});
element('tools').addEventListener('submit', event => { event.preventDefault(); search(true); canvas.focus(); });
find.addEventListener('input', () => search(true));
element('previous').addEventListener('click', () => stepBy(-1));
element('next').addEventListener('click', () => stepBy(1));
element('in').addEventListener('click', () => zoom(1.6, middle()));
element('out').addEventListener('click', () => zoom(1 / 1.6, middle()));
element('fit').addEventListener('click', fit);

// MARK: The start

function resize() {
  const box = canvas.getBoundingClientRect();
  view.width = box.width;
  view.height = box.height;
  if (isGrouped) LABEL = Math.min(200, Math.round(box.width * 0.35));
  canvas.width = Math.round(box.width * devicePixelRatio);
  canvas.height = Math.round(box.height * devicePixelRatio);
  if (box.width) draw();
}

function recolor() { readColors(); paintLegend(); redraw(); }

function fromAddress() {
  const match = /^#handler=(\d+)$/.exec(location.hash);
  const handler = match && byId.get(Number(match[1]));
  if (!handler) return;
  // Wide enough to be seen, together with the events around it.
  if (view.width) view.scale = Math.max(view.scale, Math.min(1, 60 / Math.max(1, handler.until - handler.bound)));
  select(handler);
}

document.documentElement.classList.toggle('store', isStore);
document.title = data.title;
element('title').textContent = data.title;
element('verdict').textContent = data.verdict;
element('verdict').classList.toggle('bad', !data.is_good);
element('summary').textContent = data.summary;
makeLegend();
pack();
recolor();
tellNothing();
new ResizeObserver(resize).observe(canvas);
resize();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolor);
addEventListener('hashchange', fromAddress);
fromAddress();
