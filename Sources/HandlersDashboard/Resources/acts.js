// The dialogs in which a person changes something. The server checks the role, counts again and stores who did it and why.
import { $, bdi, h, many, number, query } from './core.js';
import { ask, forget, tell } from './live.js';
import { actWords, filters } from './pages.js';

const dialog = $('#dialog');
let perform = null;

function open(heading, parts, verb, isDangerous, act) {
  perform = act;
  dialog.replaceChildren(h('form', { method: 'dialog', 'data-form': 'dialog' }, h('h2', { id: 'dialog-title' }, heading), parts,
    h('p.fault', { id: 'fault', role: 'alert' }),
    h('div.end', h('button', { type: 'button', 'data-do': 'close' }, 'Cancel'), verb && h('button', { type: 'submit', class: isDangerous ? 'danger' : 'primary' }, verb))));
  dialog.showModal();
}
const reason = (isNeeded) => h('label.field', h('span', isNeeded ? 'Reason, for the record (needed for more than 10)' : 'Reason, for the record'), h('textarea', { name: 'because', maxlength: 1000, required: isNeeded }));
const input = (words, name, more = {}) => h('label.field', h('span', words), h('input', { name, autocomplete: 'off', spellcheck: 'false', ...more }));

export function closeDialog() { perform = null; dialog.close(); }
export async function submitDialog(form) {
  const act = perform;
  if (!act) return closeDialog();
  const values = Object.fromEntries(new FormData(form));
  for (const control of form.elements) control.disabled = control.getAttribute('data-do') !== 'close';
  try {
    const words = await act(values, (progress) => { $('#fault', form).textContent = progress; });
    if (perform === act) closeDialog();
    tell(words);
    forget();
    return words;
  } catch (error) {
    for (const control of form.elements) control.disabled = false;
    $('#fault', form).textContent = [error.message, error.hint].filter(Boolean).join(' ');
    return null;
  }
}

const first = (rows) => h('ul', rows.slice(0, 5).map((row) => h('li', row.row, ' ', bdi(row.handler ?? row.name ?? '', 80))), rows.length > 5 && h('li', `and ${number(rows.length - 5)} more`));
const result = (answer, done) => `${many(answer.repaired, 'handler')} ${done}${answer.refused.length ? `; ${number(answer.refused.length)} could not be: ${answer.refused[0].reason}` : ''}`;

/** Changes chosen rows. */
export function changeRows(act, rows) {
  const { verb, done, ...say } = actWords[act];
  const words = rows.length === 1 ? say.one ?? say.words : say.words;
  const isDangerous = act === 'discard' || act === 'invalidate';
  const isCounted = act === 'discard' && rows.length > 1;
  open(`${verb} ${rows.length === 1 ? `handler ${rows[0].row}` : many(rows.length, 'handler')}?`, [h('p', words), first(rows), reason(rows.length > 10), isCounted && input(`Type ${rows.length} to go on`, 'typed', { inputmode: 'numeric', required: true, pattern: String(rows.length) })], verb, isDangerous,
    async ({ because }) => result(await ask('repairs', { body: { action: act, rows: rows.map((row) => row.row), expect: rows.length, because } }), done));
}

/** Changes all handlers that meet the filters, 1000 in one step. */
export async function changeMatching(act, at) {
  const { verb, words, done } = actWords[act];
  const filter = filters(at);
  open(`${verb} all that meet the filters?`, h('p', 'They are counted…'), null, false, null);
  let counted;
  try {
    counted = await ask(`count${query({ ...filter, action: act })}`);
  } catch (error) {
    return open(`${verb} all that meet the filters?`, h('p.fault', error.message), null, false, null);
  }
  const { count } = counted;
  if (!count) return open('Nothing to change', h('p', `No handler that meets the filters can be ${done}.`), null, false, null);
  const about = Object.keys(filter).length ? `that meet ${Object.entries(filter).map(([key, value]) => `${key} = ${value}`).join(', ')}` : 'in this store';
  open(`${verb} ${counted.isComplete ? '' : 'more than '}${many(count, 'handler')}?`, [h('p', words), h('p', bdi(`All ${about}. The first of them:`)), first(counted.first), reason(count > 10),
    input(`Type ${count} to go on`, 'typed', { inputmode: 'numeric', required: true, pattern: String(count) })], verb, act === 'discard' || act === 'invalidate',
  async ({ because }, progress) => {
    const total = { repaired: 0, refused: [] };
    let after = null;
    do {
      const answer = await ask('repairs', { body: { action: act, filter, after, because, ...(after === null ? { expect: count } : {}) } });
      total.repaired += answer.repaired;
      total.refused.push(...answer.refused);
      after = answer.next;
      progress(`${number(total.repaired)} of ${number(count)} ${done} so far`);
    } while (after !== null && after !== undefined && dialog.open);
    return result(total, done);
  });
}

export function changeLane(act, name) {
  open(`${act === 'pause' ? 'Pause' : 'Resume'} the lane?`, [h('p', bdi(name)), h('p', act === 'pause' ? 'Handlers that run go on; no other starts until somebody resumes the lane.' : 'Handlers start again as its limits allow.'), reason(false)], act === 'pause' ? 'Pause' : 'Resume', false,
    async ({ because }) => { await ask(`lanes/${encodeURIComponent(name)}`, { body: { action: act, because } }); return `the lane is ${act === 'pause' ? 'paused' : 'resumed'}`; });
}
export function changeLimits(data) {
  open('Change the limits of the lane', [h('p', bdi(data.name)), h('p', 'A program that sets its limits at its start sets its own again. An empty field is no limit.'),
    input('How many run at the same time', 'concurrency', { inputmode: 'numeric', pattern: '[1-9][0-9]*', value: data.concurrency ?? '' }), input('How many start', 'rateCount', { inputmode: 'numeric', pattern: '[1-9][0-9]*', value: data.count ?? '' }),
    input('in how many seconds', 'seconds', { inputmode: 'decimal', pattern: '[0-9]+([.][0-9]+)?', value: data.rate ? Number(data.rate) / 1000 : '' }), reason(false)], 'Change limits', false,
  async (values) => {
    const whole = (text) => (text ? Number(text) : null);
    await ask(`lanes/${encodeURIComponent(data.name)}`, { body: { action: 'limit', concurrency: whole(values.concurrency), rateCount: whole(values.rateCount), rateMilliseconds: values.seconds ? Math.round(Number(values.seconds) * 1000) : null, because: values.because } });
    return 'the limits are changed';
  });
}
export function giveSignal(key) {
  open('Give a signal', [h('p', 'The handler with this key is called with the value. If none has it, the signal waits for one.'), input('Key', 'key', { required: true, value: key ?? '' }), h('label.field', h('span', 'Value, as JSON'), h('textarea', { name: 'value', required: true, placeholder: '{"paid": true}' })), reason(false)], 'Give the signal', false,
    async (values) => {
      let value;
      try { value = JSON.parse(values.value); } catch { throw new Error('The value is no JSON: write "text" in quotes, or a number, true, null, [ ] or { }.'); }
      await ask('signals', { body: { key: values.key, value, because: values.because } });
      return 'the signal is given';
    });
}
export function showKeys(canChange) {
  const keys = [['/', 'find a handler'], ['g o', 'overview'], ['g h', 'handlers'], ['g t', 'timers'], ['g l', 'lanes'], ['g n', 'nodes'], ['g a', 'accounts'], ['g v', 'activity'], ['g e', 'events'], ['g r', 'repairs'],
    ['j k', 'next and previous row'], ['Enter', 'open the row'], ...(canChange ? [['x', 'select the row'], ['r', 'requeue'], ['i', 'invalidate'], ['d', 'discard']] : []), ['Esc', 'close, let go of the row'], ['?', 'this help']];
  open('Keys', h('dl.facts', keys.map(([key, words]) => [h('dt', key.split(' ').map((one) => h('kbd', one))), h('dd', words)])), null, false, null);
}
