// Routes, the loop that asks while the page is visible, and the keyboard.
import { changeLane, changeLimits, changeMatching, changeRows, closeDialog, giveSignal, showKeys, submitDialog } from './acts.js';
import { $, bdi, empty, h, many, number, query, root, tick } from './core.js';
import { ask, patch, Refused, showNews, tell, token } from './live.js';
import { chain, handler } from './handler.js';
import { filterNames, lists } from './pages.js';

const routes = [
  [/^\/$/, lists.overview, '/'], [/^\/handlers$/, lists.handlers, '/handlers'], [/^\/handlers\/([^/]+)$/, handler, '/handlers'], [/^\/chains\/([^/]+)$/, chain, '/handlers'],
  [/^\/timers$/, lists.timers, '/timers'], [/^\/lanes$/, lists.lanes, '/lanes'], [/^\/lanes\/([^/]+)$/, lists.lane, '/lanes'], [/^\/accounts$/, lists.accounts, '/accounts'],
  [/^\/accounts\/([^/]+)$/, lists.account, '/accounts'], [/^\/nodes$/, lists.nodes, '/nodes'], [/^\/activity$/, lists.activity, '/activity'], [/^\/events$/, lists.events, '/events'], [/^\/repairs$/, lists.repairs, '/repairs'],
];
const pages = [['/', 'Overview', 'o'], ['/handlers', 'Handlers', 'h'], ['/timers', 'Timers', 't'], ['/lanes', 'Lanes', 'l'], ['/accounts', 'Accounts', 'a'], ['/nodes', 'Nodes', 'n'], ['/activity', 'Activity', 'v'], ['/events', 'Events', 'e'], ['/repairs', 'Repairs', 'r']];
const main = $('#main');
let at = null;
let visit = 0;
let shown = -1;
let lastAnswer = null;
let actions = [];
let timer = null;
let asking = null;

function place() {
  const path = decodePath(location.pathname.slice(root.length) || '/');
  for (const [pattern, page, nav] of routes) {
    const found = pattern.exec(path);
    if (found) return { page, nav, path, id: found[1] === undefined ? null : decodePath(found[1]), all: Object.fromEntries(new URLSearchParams(location.search)) };
  }
  return { page: missing, nav: null, path, id: null, all: {} };
}
const decodePath = (text) => { try { return text.includes('%2F') || text.includes('%2f') ? text : decodeURIComponent(text); } catch { return text; } };
const missing = { title: () => 'No such page', load: () => ({}), view: () => [h('h1', 'No such page'), empty('There is no page at this address.', 'Choose one from the list of pages.')] };

// MARK: Showing

function navigation() {
  $('#pages').replaceChildren(...pages.map(([path, words]) => h('a', { href: root + path, 'data-page': true, 'aria-current': at?.nav === path ? 'page' : null }, words,
    path === '/handlers' ? h('span.count', { id: 'broken' }) : null)));
}
function frame(summary) {
  actions = summary.actions;
  $('#store').textContent = summary.store.split('/').pop();
  $('#brand').title = summary.store;
  $('#role').textContent = summary.role === 'operator' ? `Operator${summary.by ? ` ${summary.by}` : ''}` : 'Read only';
  const broken = summary.counts.quarantined + summary.counts.parked;
  const count = $('#broken');
  if (count) { count.textContent = broken ? number(broken) : ''; count.className = broken ? 'count bad' : 'count'; count.title = broken ? `${number(broken)} quarantined or parked` : ''; }
}
function show(content, force) {
  const fresh = h('div.page', content);
  const old = $('.page', main);
  if (shown === visit && old) return patch(old, fresh, force);
  main.replaceChildren(fresh);
  shown = visit;
  return 0;
}
function live(kind, words) {
  const place = $('#live');
  place.className = kind;
  if (place.textContent !== words) place.textContent = words;
  main.classList.toggle('stale', kind === 'off');
  const old = $('.notice', main);
  if (kind !== 'off') return old?.remove();
  if (!old) main.prepend(h('p.notice', { role: 'alert' }, 'The server does not answer. What you see is old', lastAnswer ? `, from ${new Date(lastAnswer).toLocaleTimeString('en-GB')}` : '', '. The page goes on by itself when it answers again.'));
}

// MARK: Asking

async function refresh(force = false) {
  if (asking) asking.abort();
  const control = asking = new AbortController();
  const [current, mine] = [at, visit];
  clearTimeout(timer);
  const started = performance.now();
  let pause = 1000;
  try {
    const wanted = Object.entries({ ...current.page.load(current), summary: 'summary' });
    const limit = setTimeout(() => control.abort('late'), 10000);
    const answers = await Promise.all(wanted.map(([, path]) => ask(path, { signal: control.signal }))).finally(() => clearTimeout(limit));
    if (mine !== visit) return;
    const data = Object.fromEntries(wanted.map(([key], index) => [key, answers[index]]));
    frame(data.summary);
    showNews(show(current.page.view(data, current), force));
    picked();
    lastAnswer = Date.now();
    live('on', 'Live');
    // A server that needs long is asked more rarely.
    pause = Math.min(15000, Math.max(1000, (performance.now() - started) * 10));
  } catch (error) {
    if (mine !== visit || control.signal.aborted && control.signal.reason !== 'late') return;
    if (error instanceof Refused) {
      lastAnswer = Date.now();
      live('on', 'Live');
      if (error.status === 401) return signIn(error);
      show([h('h1', current.page.title(current)), h('p.notice', { role: 'alert' }, bdi([error.message, error.hint].filter(Boolean).join(' '), 1000))]);
      pause = 3000;
    } else if (error instanceof TypeError || control.signal.aborted) {
      live('off', 'No answer');
      pause = 2000;
    } else throw error;
  } finally {
    if (asking === control) asking = null;
  }
  if (mine === visit && document.visibilityState === 'visible') timer = setTimeout(refresh, pause);
}

function signIn(error) {
  actions = [];
  $('#live').className = '';
  $('#live').textContent = 'Signed out';
  if ($('#code')) return;
  visit += 1;
  show([h('h1', 'Open the page from the terminal'), h('p.lead', 'The command that serves this page prints an address with a code that works once, for a minute. Open that address, or type the code here. Press Enter in the terminal for a new one.'),
    h('form.filters', { 'data-form': 'code' }, h('label.field', h('span', 'Code'), h('input', { id: 'code', name: 'code', autocomplete: 'off', spellcheck: 'false', required: true })), h('div.side', h('button', { type: 'submit', class: 'primary' }, 'Open'))),
    h('p.fault', { id: 'refused', role: 'alert' }, error?.code === 'no-session' ? '' : error?.message ?? '')]);
}
async function enter(code) {
  token.value = null;
  try {
    token.value = (await ask('session', { body: { code } })).token;
    go(location.href, true);
  } catch (error) { signIn(error); if ($('#refused')) $('#refused').textContent = [error.message, error.hint].filter(Boolean).join(' '); }
}

// MARK: Going

function go(address, isKept = false) {
  if (!isKept) history.pushState(null, '', address);
  visit += 1;
  at = place();
  showNews(0);
  navigation();
  document.title = `${at.page.title(at)} – Handlers`;
  $('#pages').classList.remove('open');
  $('#menu').setAttribute('aria-expanded', 'false');
  if (!isKept) { scrollTo(0, 0); main.focus({ preventScroll: true }); tell(document.title); }
  if (shown === -1) show(h('p.lead', 'Reading the store…'));
  refresh();
}

const actsByName = {
  news: () => refresh(true),
  close: closeDialog,
  one: (data) => changeRows(data.act, [{ row: data.row, handler: data.name }]),
  bulk: (data) => bulk(data.act),
  chain: (data) => changeMatching('invalidate', { all: { chain: data.row } }),
  lane: (data) => changeLane(data.act, data.name),
  limits: (data) => changeLimits(data),
  signal: (data) => giveSignal(data.key),
  copy: async (data, node) => {
    try { await navigator.clipboard.writeText(data.text); node.textContent = 'Copied'; } catch {
      // Without a secure context there is no clipboard: the text is selected instead.
      getSelection().selectAllChildren(node.previousElementSibling);
      node.textContent = 'Selected';
    }
    setTimeout(() => { node.textContent = 'Copy'; }, 1500);
  },
};
const chosen = () => [...document.querySelectorAll('input[data-pick]:checked')].map((box) => ({ row: box.dataset.pick, handler: $('.name', box.closest('tr'))?.textContent }));
function bulk(act) { const rows = chosen(); if (rows.length) changeRows(act, rows); else changeMatching(act, at); }
function picked() {
  const place = $('#picked');
  if (!place) return;
  const count = chosen().length;
  const words = count ? `${many(count, 'handler')} selected` : 'Select rows, or change all that meet the filters.';
  if (place.textContent !== words) place.textContent = words;
  place.parentElement.classList.toggle('active', count > 0);
}

document.addEventListener('click', (event) => {
  const act = event.target.closest('[data-do]');
  if (act) return void actsByName[act.dataset.do]?.(act.dataset, act);
  const anchor = event.target.closest('a[data-page]');
  if (!anchor || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const address = anchor.getAttribute('href');
  if (new URL(address, location.href).origin === location.origin) go(address);
});
document.addEventListener('change', (event) => { if (event.target.matches('input[data-pick]')) picked(); });
document.addEventListener('submit', async (event) => {
  const form = event.target;
  const kind = form.getAttribute('data-form');
  event.preventDefault();
  if (form.id === 'jump') return find($('#find').value.trim());
  const values = Object.fromEntries(new FormData(form));
  if (kind === 'code') return enter(values.code.trim());
  if (kind === 'dialog') { if (await submitDialog(form)) { for (const box of document.querySelectorAll('input[data-pick]')) box.checked = false; refresh(true); } return; }
  if (kind === 'filters') {
    const wanted = { state: at.all.state };
    for (const name of filterNames) if (values[name]) wanted[name] = values[name].trim();
    for (const part of values.argument?.match(/\S+=(?:"[^"]*"|\S*)/g) ?? []) { const split = part.indexOf('='); wanted[`arg.${part.slice(0, split)}`] = part.slice(split + 1).replace(/^"(.*)"$/, '$1'); }
    go(`${root}/handlers${query(wanted)}`);
  }
});
async function find(text) {
  if (!text) return;
  if (/^\d{1,19}$/.test(text)) return go(`${root}/handlers/${text}`);
  try {
    const answer = await ask(`handlers${query({ key: text, limit: 1 })}`);
    if (answer.rows.length) return go(`${root}/handlers/${encodeURIComponent(answer.rows[0].row)}`);
  } catch { /* The page of handlers says what is wrong. */ }
  go(`${root}/handlers${query({ name: text.endsWith('*') ? text : `${text}*` })}`);
}
$('#menu').addEventListener('click', () => { const isOpen = $('#pages').classList.toggle('open'); $('#menu').setAttribute('aria-expanded', String(isOpen)); });
addEventListener('popstate', () => go(location.href, true));
document.addEventListener('visibilitychange', () => { clearTimeout(timer); if (document.visibilityState === 'visible') refresh(); else asking?.abort(); });
setInterval(() => { if (document.visibilityState === 'visible') tick(); }, 1000);

// MARK: Keys

let isGoing = 0;
function step(by) {
  const rows = [...document.querySelectorAll('tbody[data-list] tr')];
  if (!rows.length) return;
  const old = rows.findIndex((row) => row.classList.contains('at'));
  const next = rows[Math.min(rows.length - 1, Math.max(0, old + by))];
  rows[old]?.classList.remove('at');
  next.classList.add('at');
  $('a, input, button', next)?.focus({ preventScroll: true });
  next.scrollIntoView({ block: 'nearest' });
}
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('#dialog').open) return;
  const isTyping = event.target.matches('input:not([type=checkbox]), textarea, select');
  if (event.key === 'Escape') { document.activeElement.blur(); $('tr.at')?.classList.remove('at'); return; }
  if (isTyping) return;
  if (Date.now() - isGoing < 1500) {
    isGoing = 0;
    const page = pages.find(([, , key]) => key === event.key);
    if (page) { event.preventDefault(); return go(root + page[0]); }
  }
  const row = document.activeElement.closest?.('tr') ?? $('tr.at');
  const act = { r: 'requeue', i: 'invalidate', d: 'discard' }[event.key];
  if (event.key === 'g') isGoing = Date.now();
  else if (event.key === '/') { event.preventDefault(); $('#find').focus(); }
  else if (event.key === '?') showKeys(actions.length > 0);
  else if (event.key === 'j') step(1);
  else if (event.key === 'k') step(-1);
  else if (event.key === 'x' && row) $('input[data-pick]', row)?.click();
  else if (event.key === 'Enter' && row && !document.activeElement.matches('a, button, input, summary')) $('a[data-page]', row)?.click();
  else if (act && document.querySelector(`[data-do][data-act="${act}"]`)) {
    const one = document.querySelector(`[data-do=one][data-act="${act}"]`);
    if (one) one.click();
    else if (chosen().length) bulk(act);
    else if (row && $('input[data-pick]', row)) changeRows(act, [{ row: $('input[data-pick]', row).dataset.pick, handler: $('.name', row)?.textContent }]);
  }
});

const code = /^#code=([\w-]{8,64})$/.exec(location.hash)?.[1];
if (location.hash) history.replaceState(null, '', location.pathname + location.search);
if (code) { at = place(); navigation(); enter(code); } else go(location.href, true);
