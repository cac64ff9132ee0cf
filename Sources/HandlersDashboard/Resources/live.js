// Asks the server, and brings what is shown up to date without moving what a person points at.
import { $, h, parse, root, setClock, many } from './core.js';

const tokenKey = `handlers-dashboard-token:${root}`;
export class Refused extends Error {
  constructor(status, fault) {
    super(fault?.message ?? `The server answered with ${status}.`);
    [this.status, this.code, this.hint] = [status, fault?.code, fault?.hint];
  }
}
let memory = null;
export const token = {
  get value() { try { return localStorage.getItem(tokenKey) ?? memory; } catch { return memory; } },
  set value(text) {
    memory = text;
    try { text === null ? localStorage.removeItem(tokenKey) : localStorage.setItem(tokenKey, text); } catch { /* Only this page has it. */ }
  },
};

/** Answers by address, so that an unchanged one costs nothing. */
const known = new Map();

export async function ask(path, { body, signal } = {}) {
  const headers = {};
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const old = body === undefined ? known.get(path) : undefined;
  if (old) headers['If-None-Match'] = old.tag;
  const answer = await fetch(`${root}/api/v1/${path}`, {
    method: body === undefined ? 'GET' : 'POST', headers, body: body === undefined ? undefined : JSON.stringify(body),
    signal, cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer',
  });
  if (answer.headers.has('X-Store-Time')) setClock(answer.headers.get('X-Store-Time'));
  if (answer.status === 304 && old) return old.data;
  const text = await answer.text();
  let data = null;
  try { data = parse(text); } catch { /* Only an answer that is no JSON of ours. */ }
  if (!answer.ok || data === null) throw new Refused(answer.status, data?.error);
  const tag = answer.headers.get('ETag');
  if (body === undefined && tag) {
    known.delete(path);
    known.set(path, { tag, data });
    if (known.size > 24) known.delete(known.keys().next().value);
  }
  return data;
}
export const forget = () => known.clear();

// MARK: Patching

const keyOf = (node) => node.nodeType === 1 ? node.getAttribute('data-key') : null;
/** Whether a person works in a list: its rows must not move. */
export const isHeld = (list) => list.matches(':hover') || list.contains(document.activeElement) || list.querySelector('input:checked') !== null;

/** Makes `old` equal to `fresh`, and keeps its elements. Returns how many new rows were held back. */
export function patch(old, fresh, force = false) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return 0; }
  if (old.nodeType === 3) { if (old.data !== fresh.data) old.data = fresh.data; return 0; }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  return old.hasAttribute('data-list') ? patchList(old, fresh, force) : patchChildren(old, fresh, force);
}

function patchChildren(old, fresh, force) {
  let held = 0;
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((child, index) => {
    if (index < before.length) held += patch(before[index], child, force);
    else old.append(child);
  });
  before.slice(after.length).forEach((child) => child.remove());
  return held;
}

function patchList(old, fresh, force) {
  const rows = new Map([...old.children].map((row) => [keyOf(row), row]));
  const wanted = [...fresh.children];
  const keys = new Set(wanted.map(keyOf));
  const isEqual = rows.size === wanted.length && wanted.every((row) => rows.has(keyOf(row)));
  if (!isEqual && !force && isHeld(old)) {
    let news = 0;
    for (const row of wanted) {
      const shown = rows.get(keyOf(row));
      if (shown) patch(shown, row); else news += 1;
    }
    for (const [key, row] of rows) row.classList.toggle('gone', !keys.has(key));
    return news;
  }
  for (const [key, row] of rows) if (!keys.has(key)) row.remove();
  let place = old.firstElementChild;
  for (const row of wanted) {
    const shown = rows.get(keyOf(row));
    if (!shown) { row.classList.add('changed'); old.insertBefore(row, place); continue; }
    patch(shown, row, force);
    if (shown === place) place = place.nextElementSibling; else old.insertBefore(shown, place);
  }
  return 0;
}

export function showNews(count) {
  const place = $('#news');
  const words = count ? `Show ${many(count, 'new row')}` : '';
  if (place.textContent === words) return;
  place.replaceChildren(...(count ? [h('button', { type: 'button', 'data-do': 'news' }, words)] : []));
}
export function tell(words) { $('#told').textContent = words; }
