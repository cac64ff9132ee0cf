// The pages of one handler and of its chain.
import { graph, track, tree } from './charts.js';
import { bdi, chainLink, cut, empty, h, handlerLink, json, link, many, now, number, query, section, span, state, table, time, visible } from './core.js';
import { actsFor, actWords, button, nameLink, repairColumns, title } from './pages.js';

const fact = (words, value) => value !== null && value !== undefined && value !== '' && value !== false && [h('dt', words), h('dd', value)];
const copied = (text) => h('div.copy', h('code', text), button('Copy', 'copy', { 'data-text': text, 'aria-label': `Copy: ${text}` }));
/** A word for a shell. */
const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

const failureColumns = [
  { title: 'attempt', kind: 'num', cell: (row) => number(row.attempt) }, { title: 'failed', kind: 'tight', cell: (row) => time(row.at) },
  { title: 'ran for', kind: 'num', cell: (row) => (row.runMilliseconds === null || row.runMilliseconds === undefined ? '' : span(row.runMilliseconds)) },
  { title: 'process', kind: 'num', cell: (row) => `slot ${row.slot}` }, { title: 'error', cell: (row) => bdi(row.error, 1024) },
];

function gone(at) {
  return [title(`Handler ${visible(at.id)}`), empty('There is no such handler.', 'It never existed, or it has ended and its ending was forgotten since: endings are kept for a time that the program sets.',
    h('p', link('/handlers', 'Show the handlers that have not ended')))];
}

export const handler = {
  title: (at) => `Handler ${at.id}`,
  load: (at) => ({ data: `handlers/${encodeURIComponent(at.id)}` }),
  view({ data, summary }, at) {
    const { handler: one, ending } = data;
    if (!one && !ending) return gone(at);
    const shown = one ?? ending;
    const acts = one ? actsFor(one.state).filter((act) => summary.actions.includes(act)) : [];
    const store = word(summary.store);
    return [
      title([bdi(shown.handler, 200), one && h('span.version', `@${one.version}`)], one ? state(one.state) : state(ending.outcome)),
      h('p.sentence', one ? ['Handler ', one.row, ' ', bdi(one.why, 2000), '.'] : ['Handler ', ending.row, ' has ended ', time(ending.endedAt), ending.reason ? [' (', bdi(ending.reason), ')'] : null, '.']),
      acts.length ? h('div.side', acts.map((act) => button(`${actWords[act].verb}…`, 'one', { 'data-act': act, 'data-row': one.row, 'data-name': one.handler, class: act === 'discard' || act === 'invalidate' ? 'danger' : act === 'requeue' ? 'primary' : null })),
        one.key && summary.actions.includes('signal') && button('Signal…', 'signal', { 'data-key': one.key })) : null,
      h('div.pair',
        section('Facts', h('div.box', h('dl.facts',
          fact('row', shown.row), fact('chain', chainLink(shown.chain)), fact('name', nameLink(shown.handler)), fact('key', shown.key && bdi(shown.key)),
          fact('bound', one && [time(one.boundAt), h('span.dim', ' ', time(one.boundAt, 'clock'))]), fact('due', one?.dueAt && [time(one.dueAt), h('span.dim', ' ', time(one.dueAt, 'clock'))]),
          fact('started', one?.startedAt && [time(one.startedAt), h('span.dim', ' ', time(one.startedAt, 'clock'))]), fact('ended', ending && [time(ending.endedAt), h('span.dim', ' ', time(ending.endedAt, 'clock'))]),
          fact('attempts', one && number(one.attempts)), fact('processes that died in it', one && one.deaths > 0 && number(one.deaths)),
          fact('lane', data.lane && [link(`/lanes/${encodeURIComponent(data.lane.lane)}`, bdi(data.lane.lane)), data.lane.orderKey && [' in the order of ', bdi(data.lane.orderKey)]]),
          fact('timer', data.timer && bdi(data.timer.rule)), fact('last error', one?.reason && bdi(one.reason, 2000))))),
        section(one ? 'Arguments' : 'Result', h('div.box.mono', one ? [tree(one.arguments), data.argumentBytes > 65536 && h('p.dim', `${number(data.argumentBytes)} B are stored; the first part is shown.`)]
          : ending.result === null || ending.result === undefined ? h('p.dim', 'It returned nothing.') : tree(ending.result)))),
      data.children.length || data.parents.length ? section('Joins', h('div.box',
        data.children.length ? [h('p', one ? 'It waits for:' : 'It waited for:'), h('ul.list', data.children.map((child) => h('li', { 'data-key': child.row }, state(child.outcome ?? child.state), ' ', handlerLink(child.row, child.row, ' ', bdi(child.handler)))))] : null,
        data.parents.length ? [h('p', 'These wait for it:'), h('ul.list', data.parents.map((parent) => h('li', { 'data-key': parent.row }, handlerLink(parent.row, parent.row, ' ', bdi(parent.handler)))))] : null)) : null,
      data.journal.length ? section('Journal', journal(data.journal)) : null,
      section('Failures', data.failures.length ? [h('p.lead', 'The last five at most, the newest first.'), table('Failures', failureColumns, data.failures, (row) => row.at + row.attempt)] : empty('It has not failed.', 'An error of a call appears here with its attempt, also when the call is tried again.')),
      section('Changes by hand', data.repairs.length ? table('Changes by hand', repairColumns.filter((column) => column.title !== 'to'), data.repairs, (row) => row.number) : empty('Nobody has changed it by hand.')),
      one ? section('On the command line', h('div.box', ['show', ...actsFor(one.state)].map((act) => copied(`pushwake handler ${act} ${one.row} --store ${store}`)))) : null,
    ];
  },
};

const isFinal = (entry) => entry.value !== null && entry.value !== undefined || entry.error;
function journal(entries) {
  return table('Journal', [
    { title: 'line', kind: 'num', cell: (row) => number(row.position) }, { title: 'operation', cell: (row) => h('span.name', bdi(row.operation, 160)) },
    { title: 'started', kind: 'tight', cell: (row) => time(row.at) },
    { title: 'state', kind: 'tight', cell: (row) => (row.error ? state('error', 'failed') : isFinal(row) ? state('result', 'done') : state('running', 'waits')) },
    { title: 'result', cell: (row) => (row.error ? bdi(row.error) : isFinal(row) ? h('span.mono', cut(visible(json(row.value)), 400)) : row.waiter ? ['waits for the handler ', handlerLink(row.waiter)] : 'waits') },
  ], entries, (row) => `${row.position}`);
}

export const chain = {
  title: (at) => `Chain ${at.id}`,
  load: (at) => ({ data: `chains/${encodeURIComponent(at.id)}${query({ after: at.all.after })}` }),
  view({ data, summary }, at) {
    const items = data.rows;
    if (!items.length) return gone(at);
    const times = items.flatMap((item) => [item.boundAt, item.startedAt, item.endedAt]).filter(Boolean).map((value) => Date.parse(value)).filter(Number.isFinite);
    const open = items.filter((item) => !item.outcome);
    const start = Math.min(...times);
    const end = open.length ? Math.max(now(), ...times) : Math.max(...times);
    const broken = open.filter((item) => ['quarantined', 'parked'].includes(item.state));
    const first = items.find((item) => item.row === at.id) ?? items[0];
    return [
      title(['Chain of ', handlerLink(at.id, bdi(first.handler, 160))], open.length && summary.actions.includes('invalidate') && button('Cancel the chain…', 'chain', { 'data-row': at.id, class: 'danger' })),
      h('p.sentence', `${many(items.length, 'handler')}${data.next ? ' so far' : ''}, ${number(items.length - open.length)} ended`, broken.length ? [', ', h('span.fault', `${number(broken.length)} wait for a person or a program`)] : open.length ? ', none is broken' : '', '. ',
        `It ${open.length ? 'has taken' : 'took'} ${span(end - start)}.`, data.limitAt ? [' Its time is over ', time(data.limitAt), '.'] : null),
      graph(items, data.joins) && section('What waits for what', graph(items, data.joins)),
      section('Timeline', h('div.head', h('span.dim', time(new Date(start).toISOString(), 'clock')), h('span.dim', open.length ? 'now' : time(new Date(end).toISOString(), 'clock'))), table('Handlers of the chain', [
        { title: 'row', kind: 'tight', cell: (item) => handlerLink(item.row) },
        { title: 'handler', cell: (item) => h('span.name', bdi(item.handler, 120)) },
        { title: 'state', kind: 'tight', cell: (item) => state(item.outcome ?? item.state) },
        { title: 'from bound to ended', label: 'time', cell: (item) => track(item, start, end) },
        { title: 'how', cell: (item) => (item.outcome ? ['ended ', time(item.endedAt), item.reason && [' (', bdi(item.reason, 120), ')']] : h('div.why.clip', bdi(item.why, 300))) },
      ], items, (item) => item.row), data.next && h('p', link(`/chains/${encodeURIComponent(at.id)}${query({ after: data.next })}`, 'Next handlers'))),
      data.journals.map((one) => section(h('h2', 'Journal of the workflow ', handlerLink(one.row)), journal(one.entries))),
    ];
  },
};
