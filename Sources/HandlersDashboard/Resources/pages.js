// The pages of lists: each asks for what it shows, and makes elements of the answer.
import { meter, throughput } from './charts.js';
import { bdi, cut, empty, h, handlerLink, json, link, many, now, number, query, section, sign, span, state, table, time, visible } from './core.js';

export const spans = { '1h': ['1 hour', 3600e3], '24h': ['24 hours', 86400e3], '7d': ['7 days', 7 * 86400e3] };
const lastWords = (since) => (since === '1h' ? 'hour' : spans[since][0]);
export const button = (words, act, more = {}) => h('button', { type: 'button', 'data-do': act, ...more }, words);
export const nameLink = (name, more = {}) => link(`/handlers${query({ ...more, name })}`, bdi(name, 120));
const title = (words, ...side) => h('div.head', h('h1', words), side.length ? h('div.side', side) : null);
const more = (data, at) => data.next && h('p', link(`${at.path}${query({ ...at.all, after: data.next })}`, 'Next page'),
  data.searched ? ` – searched ${number(data.searched)} handlers so far` : '');

// MARK: Overview

function trouble(kind, strong, words, to, label) {
  return h('li.trouble', { class: kind, 'data-key': strong.key }, h('strong', h('span.state', { class: strong.state }, sign(strong.state), strong.words)), h('p', words), to && link(to, label));
}

function troubles(data) {
  const found = [];
  const late = data.oldestDueAt ? now() - Date.parse(data.oldestDueAt) : 0;
  let isToldLate = late <= 60e3;
  const addOverdue = () => {
    if (isToldLate) return;
    isToldLate = true;
    found.push(trouble(null, { key: 'overdue', state: 'timeout', words: 'Overdue' },
      ['The oldest handler has been due for ', time(data.oldestDueAt, 'age'), '. ', data.nodes.length ? 'No runner calls it.' : 'No process has the store open.'], '/nodes', 'Show nodes'));
  };
  for (const broken of data.broken) {
    const isLost = broken.state === 'quarantined';
    const names = broken.names.map(({ handler, count }, index) => [index ? ', ' : '', nameLink(handler, { state: broken.state }), ` ${number(count)}`]);
    if (!isLost) addOverdue();
    found.push(trouble(isLost ? null : 'warn', { key: broken.state, state: broken.state, words: `${number(broken.count)} ${broken.state}` },
      [names, isLost ? '. They failed for good and wait for a person.' : '. No program that ran here knows them.'], `/handlers?state=${broken.state}`, 'Show them'));
  }
  addOverdue();
  for (const node of data.nodes.filter((one) => ['dead', 'late', 'stopped'].includes(one.state))) {
    found.push(trouble('warn', { key: `node${node.slot}`, state: 'error', words: `${node.pid ? 'Process' : 'Node'} ${visible(node.pid ?? node.slot)} is ${visible(node.state)}` },
      node.state === 'stopped' ? 'It holds what it runs until it goes on or ends.' : 'Others take over what it ran.', '/nodes', 'Show nodes'));
  }
  for (const lane of data.lanes.slice(0, 5)) {
    found.push(trouble('warn', { key: `lane${lane.lane}`, state: lane.isPaused ? 'paused' : 'timeout', words: lane.isPaused ? 'Lane paused' : 'Lane stands still' },
      [bdi(lane.lane, 80), ': ', many(lane.waiting, 'handler'), ` wait${lane.waiting === 1 ? 's' : ''}: `, lane.why ? bdi(lane.why) : 'nothing starts', '.'], `/lanes/${encodeURIComponent(lane.lane)}`, 'Show the lane'));
  }
  if (data.lanes.length > 5) found.push(trouble('warn', { key: 'lanes', state: 'timeout', words: `${number(data.lanes.length - 5)} more lanes` }, 'stand still, too.', '/lanes', 'Show lanes'));
  for (const timer of data.missed.slice(0, 5)) {
    found.push(trouble('warn', { key: `timer${timer.row}`, state: 'timeout', words: 'Timer missed its time' },
      [nameLink(timer.handler), ' ', bdi(timer.rule, 120), ' was due ', time(timer.next[0]), '.'], '/timers', 'Show timers'));
  }
  return found;
}

const overview = {
  title: () => 'Overview',
  load: (at) => ({ activity: `activity${query({ since: spans[at.all.since] ? at.all.since : '1h' })}` }),
  view({ summary: data, activity }, at) {
    const found = troubles(data);
    const { counts, hour } = data;
    const isEmpty = !counts.waiting && !counts.running && !data.broken.length && !hour.ended && !activity.rows.length;
    const since = spans[at.all.since] ? at.all.since : '1h';
    const late = data.oldestDueAt ? Date.parse(data.oldestDueAt) - now() : null;
    return [
      h('div.verdict', h('span.state', { class: found.length ? 'quarantined' : 'result' }, h('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' }, sign(found.length ? 'quarantined' : 'result').firstChild)),
        h('h1', found.length ? `${many(found.length, 'thing')} need${found.length === 1 ? 's' : ''} a look` : isEmpty ? 'Nothing is stored here yet' : 'Nothing needs you')),
      found.length ? h('ul.troubles', { 'data-list': 'What is wrong' }, found)
        : isEmpty ? empty('This store is empty.', 'A handler appears here as soon as a program binds one: a callback with its arguments that is called later, also by another process.',
          'If you expected something, compare the path of the store above with that of your program.')
          : h('p.calm', 'No handler is quarantined, parked or overdue, no lane stands still and no timer missed its time.'),
      section(h('h2.hidden', 'Now'), h('dl.tiles',
        tile('wait', link('/handlers?state=pending', number(counts.waiting))), tile('run', link('/handlers?state=running', number(counts.running))),
        tile(late !== null && late < 0 ? 'the oldest has been due' : data.oldestDueAt ? 'the next is due' : 'is due', data.oldestDueAt ? time(data.oldestDueAt, late < 0 ? 'age' : 'ago') : 'nothing', late !== null && late < -60e3),
        tile('ended in the last hour', number(hour.ended)), tile('failed for good in the last hour', number(hour.failed), hour.failed > 0),
        tile('from due to called, 99 of 100', hour.waitP99Milliseconds === null || hour.waitP99Milliseconds === undefined ? 'none' : `≤ ${span(hour.waitP99Milliseconds)}`))),
      section(h('div.head', h('h2', 'Throughput'), sinceTabs('/', since)), activity.rows.length
        ? throughput(activity.series, activity.periodMilliseconds, spans[since][1])
        : empty(`Nothing happened in the last ${lastWords(since)}.`, 'Statistics of seven days are kept. A process stores its counts every 10 s.')),
      h('div.pair',
        section('Names that fail', data.failing.length
          ? table('Names that fail', [{ title: 'handler', cell: (row) => nameLink(row.handler) }, { title: 'failed for good, 24 h', kind: 'num', cell: (row) => number(row.count) }], data.failing, (row) => row.handler)
          : empty('No handler failed for good in the last 24 hours.')),
        section('Who has it open', nodeTable(data.nodes))),
    ];
  },
};
const tile = (words, value, isBad) => h('div.tile', { class: isBad ? 'bad' : null }, h('dt', words), h('dd', value));
const sinceTabs = (path, since, rest = {}) => h('ul.tabs', { 'aria-label': 'Time' }, Object.entries(spans).map(([key, [words]]) =>
  h('li', h('a', { ...attributes(link(path + query({ ...rest, since: key }))), 'aria-current': key === since ? 'true' : null }, words))));
const attributes = (node) => Object.fromEntries([...node.attributes].map(({ name, value }) => [name, value]));

// MARK: Handlers

export const filterNames = ['state', 'name', 'key', 'lane', 'chain', 'older'];
export function filters(at) {
  const chosen = {};
  for (const [key, value] of Object.entries(at.all)) if (value && (filterNames.includes(key) || key.startsWith('arg.'))) chosen[key] = value;
  return chosen;
}
const states = [[null, 'All'], ['quarantined', 'Quarantined'], ['parked', 'Parked'], ['running', 'Running'], ['pending', 'Waiting']];
const field = (words, name, value, hint) => h('label.field', h('span', words), h('input', { name, value: value ?? '', placeholder: hint, autocomplete: 'off', spellcheck: 'false' }));

export const handlerColumns = (canPick) => [
  canPick && { title: h('span.hidden', 'Select'), label: 'select', kind: 'pick', cell: (row) => h('input', { type: 'checkbox', 'data-pick': row.row, 'aria-label': `Select handler ${row.row}` }) },
  { title: 'row', kind: 'tight', cell: (row) => handlerLink(row.row) },
  { title: 'handler', cell: (row) => h('span', handlerLink(row.row, h('span.name', bdi(row.handler, 160))), h('span.version', `@${row.version}`), row.key && h('span.dim', ' key ', bdi(row.key, 80))) },
  { title: 'state', kind: 'tight', cell: (row) => state(row.state) },
  { title: 'why it has not ended', label: 'why', cell: (row) => h('div.why.clip', { title: cut(visible(row.why), 1000) }, bdi(row.why, 300)) },
  { title: 'age', kind: 'num', cell: (row) => time(row.startedAt ?? row.boundAt, 'age') },
  { title: 'attempts', kind: 'num', cell: (row) => number(row.attempts) },
  { title: 'arguments', cell: (row) => h('div.preview.clip.mono', cut(visible(json(row.arguments)), 160)) },
].filter(Boolean);

const handlers = {
  title: (at) => (at.all.name ? `Handlers ${at.all.name}` : 'Handlers'),
  load: (at) => ({ data: `handlers${query({ ...filters(at), after: at.all.after, limit: 50 })}` }),
  view({ data, summary }, at) {
    const chosen = filters(at);
    const counts = { ...summary.counts, pending: summary.counts.waiting };
    const args = Object.entries(chosen).filter(([key]) => key.startsWith('arg.'));
    const isFiltered = Object.keys(chosen).length > 0;
    const acts = actsFor(at.all.state).filter((act) => summary.actions.includes(act));
    return [
      title('Handlers', h('p.lead', 'that have not ended, the oldest first')),
      h('ul.tabs', { 'aria-label': 'State' }, states.map(([key, words]) => h('li', h('a', { ...attributes(link(`/handlers${query({ ...chosen, state: key })}`)), 'aria-current': (at.all.state ?? null) === key ? 'true' : null }, key && sign2(key), words,
        key && h('span.count', { class: ['quarantined', 'parked'].includes(key) && counts[key] ? 'bad' : null }, number(counts[key])))))),
      h('details.more', { open: isFiltered && !(at.all.state && Object.keys(chosen).length === 1) || matchMedia('(min-width: 901px)').matches }, h('summary', 'Filters'),
        h('form.filters', { 'data-form': 'filters', role: 'search', 'aria-label': 'Filters' },
        field('Name', 'name', chosen.name, 'shop.thank or mail.*'), field('Key', 'key', chosen.key), field('Lane', 'lane', chosen.lane), field('Chain', 'chain', chosen.chain, 'its first row'),
        field('Bound longer ago than', 'older', chosen.older, '90s, 15m, 36h, 7d'), field('Argument', 'argument', args.map(([key, value]) => `${key.slice(4)}=${value}`).join(' '), 'order=1003'),
        h('div.side', h('button', { type: 'submit', class: 'primary' }, 'Filter'), isFiltered && link('/handlers', 'Show all')))),
      data.rows.length ? table('Handlers', handlerColumns(acts.length > 0), data.rows, (row) => row.row)
        : isFiltered ? empty('No handler meets these filters.', data.next ? 'Not all of them were searched yet; the next page goes on.' : noneOf(at.all.state), h('p', link('/handlers', 'Show all handlers')))
          : empty('No handler waits.', 'All handlers that were bound have ended, or none was bound yet. What ended is on the page of activity.'),
      more(data, { ...at, all: chosen }),
      data.rows.length && acts.length ? h('div.bulk', { role: 'group', 'aria-label': 'Change handlers' }, h('p', { id: 'picked' }, 'Select rows, or change all that meet the filters.'),
        acts.map((act) => button(`${actWords[act].verb}…`, 'bulk', { 'data-act': act, class: act === 'discard' || act === 'invalidate' ? 'danger' : null }))) : null,
    ];
  },
};
const sign2 = (kind) => h('span.state', { class: kind }, sign(kind));
const noneOf = (kind) => ({
  quarantined: 'No handler is quarantined. When one fails for good it appears here, and on the overview.', parked: 'No handler is parked: the programs that ran here know all of them.',
  running: 'No process runs an async handler at this moment.',
})[kind] ?? 'Names are compared exactly; mail.* finds all that start with mail.';
export const actWords = {
  requeue: { verb: 'Requeue', done: 'requeued', words: 'A runner calls them again with their stored call.', one: 'A runner calls it again with its stored call.' },
  'run-now': { verb: 'Run now', done: 'called', words: 'A runner calls them now instead of at their time.', one: 'A runner calls it now instead of at its time.' },
  invalidate: { verb: 'Invalidate', done: 'invalidated', words: 'They end. What was bound for that case runs.', one: 'It ends. What was bound for that case runs.' },
  discard: { verb: 'Discard', done: 'discarded', words: 'They end, and nothing runs. This cannot be undone.', one: 'It ends, and nothing runs. This cannot be undone.' },
  pause: { verb: 'Pause', done: 'paused', words: 'It is not called until somebody resumes it.' },
  resume: { verb: 'Resume', done: 'resumed', words: 'It is called again at its times.' },
};
export const actsFor = (kind) => ({ quarantined: ['requeue', 'invalidate', 'discard'], parked: ['requeue', 'invalidate', 'discard'], pending: ['run-now', 'invalidate', 'discard'], running: ['invalidate', 'discard'] })[kind] ?? ['requeue', 'run-now', 'invalidate', 'discard'];

// MARK: Timers, lanes, nodes

const timers = {
  title: () => 'Timers',
  load: (at) => ({ data: `timers${query({ after: at.all.after })}` }),
  view({ data, summary }, at) {
    return [title('Timers', h('p.lead', 'that are called again and again')), data.rows.length ? table('Timers', [
      { title: 'row', kind: 'tight', cell: (row) => handlerLink(row.row) },
      { title: 'handler', cell: (row) => [h('span.name', bdi(row.handler, 160)), row.key && h('span.dim', ' key ', bdi(row.key, 80))] },
      { title: 'rule', cell: (row) => bdi(row.rule, 200) },
      { title: 'state', kind: 'tight', cell: (row) => (row.isPaused ? state('paused') : isMissed(row) ? state('timeout', 'missed') : state(row.state)) },
      { title: 'next', kind: 'tight', cell: (row) => (row.isPaused || !row.next.length ? '–' : time(row.next[0])) },
      { title: 'then', cell: (row) => (row.next.length > 1 ? h('details', h('summary', `${row.next.length - 1} more times`), h('ol.list', row.next.slice(1).map((one) => h('li', time(one, 'clock'))))) : '') },
      summary.actions.length > 0 && { title: h('span.hidden', 'Changes'), label: 'change', cell: (row) => h('div.side', [row.isPaused ? 'resume' : 'pause', 'run-now'].filter((act) => summary.actions.includes(act)).map((act) => button(actWords[act].verb, 'one', { 'data-act': act, 'data-row': row.row, 'data-name': row.handler, 'aria-label': `${actWords[act].verb} timer ${row.row}` }))) },
    ].filter(Boolean), data.rows, (row) => row.row)
      : empty('No timer is called again and again.', 'A program makes one with a period ("every 5 minutes") or a calendar ("at 9 on workdays in Berlin"). Handlers that wait for a single time are on the page of handlers.'), more(data, at)];
  },
};
const isMissed = (row) => !row.isPaused && row.next.length > 0 && now() - Date.parse(row.next[0]) > 60e3;

export const laneColumns = [
  { title: 'lane', cell: (row) => link(`/lanes/${encodeURIComponent(row.lane)}`, h('span.name', bdi(row.lane, 120))) },
  { title: 'places', cell: (row) => (row.concurrency ? [meter(row.running, row.concurrency, `${row.running} of ${row.concurrency} places`), `${number(row.running)} of ${number(row.concurrency)}`] : `${number(row.running)}, no limit`) },
  { title: 'rate', kind: 'tight', cell: (row) => (row.rateCount ? `${number(row.rateCount)} in ${span(row.rateMilliseconds)}` : 'no limit') },
  { title: 'waiting', kind: 'num', cell: (row) => number(row.waiting) },
  { title: 'away', kind: 'num', cell: (row) => number(row.away) },
  { title: 'why nothing starts', label: 'why', cell: (row) => (row.isPaused ? [state('paused'), row.why && [' ', bdi(row.why)]] : row.why ? h('span.why', bdi(row.why)) : '') },
];
const lanes = {
  title: () => 'Lanes',
  load: (at) => ({ data: `lanes${query({ after: at.all.after })}` }),
  view({ data }, at) {
    return [title('Lanes', h('p.lead', 'limit how many handlers run at once and how many start in a time')), data.rows.length ? table('Lanes', laneColumns, data.rows, (row) => row.lane)
      : empty('No lane has limits or handlers.', 'A program puts handlers in a lane to limit how many run at the same time, such as four at once to one mail server.'), more(data, at)];
  },
};

const lane = {
  title: (at) => `Lane ${at.id}`,
  load: (at) => ({ data: `lanes/${encodeURIComponent(at.id)}`, rows: `handlers${query({ lane: at.id, after: at.all.after, limit: 50 })}` }),
  view({ data, rows, summary }, at) {
    const one = data.lane;
    const may = (act) => summary.actions.includes(act);
    return [
      title(['Lane ', bdi(one.lane)], may(one.isPaused ? 'resume-lane' : 'pause-lane') && button(one.isPaused ? 'Resume the lane…' : 'Pause the lane…', 'lane', { 'data-act': one.isPaused ? 'resume' : 'pause', 'data-name': one.lane }),
        may('limit-lane') && button('Change limits…', 'limits', { 'data-name': one.lane, 'data-concurrency': one.concurrency, 'data-count': one.rateCount, 'data-rate': one.rateMilliseconds })),
      h('p.sentence', one.isPaused ? [state('paused'), '. '] : null, one.why ? ['The next handler does not start: ', bdi(one.why), '.'] : one.waiting ? 'Handlers start as places become free.' : 'Nothing waits in this lane.'),
      h('dl.tiles', tile('run', number(one.running)), tile('places', one.concurrency ? number(one.concurrency) : 'no limit'), tile('starts', one.rateCount ? `${number(one.rateCount)} in ${span(one.rateMilliseconds)}` : 'no limit'), tile('wait', number(one.waiting)), tile('wait for a time or a repair', number(one.away))),
      section('In this lane', rows.rows.length ? table('Handlers of the lane', handlerColumns(false), rows.rows, (row) => row.row) : empty('No handler is in this lane.', 'Its limits stay until the program removes them.'), more(rows, at)),
    ];
  },
};

const nodeTable = (nodes) => (nodes.length ? table('Processes and nodes', [
  { title: 'process', kind: 'tight', cell: (row) => (row.pid ? `process ${visible(row.pid)}` : `node ${visible(row.slot)}`) },
  { title: 'state', kind: 'tight', cell: (row) => state({ running: 'result', alive: 'result', stopped: 'paused', late: 'timeout', dead: 'error' }[row.state] ?? 'invalidated', visible(row.state)) },
  { title: 'runs', cell: (row) => (row.handler ? handlerLink(row.handler) : '') },
  { title: 'where', cell: (row) => [row.application && bdi(row.application, 80), row.address && h('span.dim', ' ', bdi(row.address, 80)), row.clockAhead && Math.abs(row.clockAhead) > 1000 ? h('span.fault', ` clock ${span(row.clockAhead)} ${row.clockAhead > 0 ? 'ahead' : 'behind'}`) : null].filter(Boolean) },
], nodes, (row) => `${row.slot}`) : empty('No process has this store open.', 'Nothing is called until a program opens it. This page only reads it.'));
const nodes = {
  title: () => 'Nodes',
  load: () => ({ data: 'nodes' }),
  view: ({ data }) => [title('Nodes', h('p.lead', 'processes and machines that have the store open')), nodeTable(data.rows)],
};

// MARK: Accounts, activity, events, repairs

const accounts = {
  title: () => 'Accounts',
  load: () => ({ data: 'accounts' }),
  view: ({ data }) => [title('Accounts'), data.rows.length ? table('Accounts', [
    { title: 'account', cell: (row) => link(`/accounts/${encodeURIComponent(row.jid)}`, h('span.name', bdi(row.jid, 160))) },
    { title: 'session', kind: 'tight', cell: sessionState },
    { title: 'owner', cell: (row) => ownerWords(row.ownership) },
    { title: 'handlers that wait for it', label: 'waiting', kind: 'num', cell: (row) => number(row.requests) },
    { title: 'outbox', kind: 'num', cell: (row) => number(row.outbox) },
    { title: 'last known alive', label: 'alive', kind: 'num', cell: (row) => (row.session.age === null || row.session.age === undefined ? '–' : `${span(row.session.age)} ago`) },
  ], data.rows, (row) => row.jid) : empty('No account is stored here.', 'An XMPP account appears when a program opens one on this store. A store of handlers alone has none.')],
};
const sessionState = (row) => (row.session.hasStream ? state('result', 'has a stream') : row.session.isResumable ? state('paused', 'can be resumed') : state('invalidated', row.session.number ? 'ended' : 'none yet'));
const ownerWords = (owner) => (owner.pid ? `process ${visible(owner.pid)} (${visible(owner.owner ?? '')})` : owner.slot ? `node ${visible(owner.slot)}` : 'nobody');
const account = {
  title: (at) => `Account ${at.id}`,
  load: (at) => ({ data: `accounts/${encodeURIComponent(at.id)}` }),
  view({ data }) {
    const one = data.account;
    const { session } = one;
    return [title(bdi(one.jid)), h('p.sentence', sessionState(one), data.requests.length ? [`. ${many(one.requests, 'handler')} wait${one.requests === 1 ? 's' : ''} for answers, the oldest for ${span(data.requests[0].age)}.`] : '. No handler waits for an answer.'),
      h('dl.tiles', tile('owner', ownerWords(one.ownership)), tile('epoch', number(one.ownership.epoch)), tile('session', number(session.number)), tile('received', number(session.received)), tile('acknowledged', number(session.acknowledged)), tile('resumed', number(session.timesResumed))),
      section('Requests that wait', data.requests.length ? table('Requests', [
        { title: 'to', cell: (row) => bdi(row.peer ?? 'the own account', 120) }, { title: 'handler', cell: (row) => handlerLink(row.row, bdi(row.handler, 120)) },
        { title: 'id', cell: (row) => h('span.mono', bdi(row.id, 80)) }, { title: 'age', kind: 'num', cell: (row) => span(row.age) },
      ], data.requests, (row) => row.row) : empty('No request waits for its answer.')),
      section('Outbox', h('p.lead', 'Stanzas that the server has not acknowledged. Their text is never shown.'), data.outbox.length ? table('Outbox', [
        { title: 'number', kind: 'tight', cell: (row) => `${row.seq}` }, { title: 'kind', cell: (row) => visible(row.kind) }, { title: 'size', kind: 'num', cell: (row) => `${number(row.bytes)} B` },
        { title: 'age', kind: 'num', cell: (row) => span(row.age) }, { title: 'handler', cell: (row) => (row.handler ? bdi(row.handler, 120) : '') },
      ], data.outbox, (row) => `${row.seq}`) : empty('Everything that was sent is acknowledged.'))];
  },
};

const most = (value) => (value === null || value === undefined ? '' : `≤ ${span(value)}`);
const activity = {
  title: () => 'Activity',
  load: (at) => ({ data: `activity${query({ since: spans[at.all.since] ? at.all.since : '1h', name: at.all.name })}` }),
  view({ data }, at) {
    const since = spans[at.all.since] ? at.all.since : '1h';
    return [title(at.all.name ? ['Activity of ', bdi(at.all.name, 120)] : 'Activity', at.all.name && link(`/activity${query({ since })}`, 'All names')),
      sinceTabs('/activity', since, { name: at.all.name }),
      data.rows.length ? [throughput(data.series, data.periodMilliseconds, spans[since][1]), table('Activity by name', [
        { title: 'handler', cell: (row) => link(`/activity${query({ since, name: row.handler })}`, h('span.name', bdi(row.handler, 160))) },
        { title: 'bound', kind: 'num', cell: (row) => number(row.bound) }, { title: 'ended', kind: 'num', cell: (row) => number(row.ended) },
        { title: 'failed', kind: 'num', cell: (row) => (row.failed ? h('span.count.bad', number(row.failed)) : '0') }, { title: 'retried', kind: 'num', cell: (row) => number(row.retried) },
        { title: 'due to called, half', label: 'wait half', kind: 'num', cell: (row) => most(row.waitP50Milliseconds) }, { title: '99 of 100', label: 'wait 99 %', kind: 'num', cell: (row) => most(row.waitP99Milliseconds) },
        { title: 'runs, half', label: 'run half', kind: 'num', cell: (row) => most(row.runP50Milliseconds) }, { title: '99 of 100', label: 'run 99 %', kind: 'num', cell: (row) => most(row.runP99Milliseconds) },
      ], data.rows, (row) => row.handler)] : empty(`Nothing happened in the last ${lastWords(since)}.`, 'Statistics of seven days are kept, in parts of ten minutes. A process stores its counts every 10 s and when it closes the store.')];
  },
};

const events = {
  title: () => 'Events',
  load: () => ({ data: 'events' }),
  view: ({ data, summary }) => [title('Events', summary.actions.includes('signal') && button('Give a signal…', 'signal')), h('p.lead', 'Events are stored until the program consumes them.'), data.rows.length ? table('Events', [
    { title: 'event', cell: (row) => h('span.name', bdi(row.event, 160)) }, { title: 'not consumed', kind: 'num', cell: (row) => number(row.count) },
  ], data.rows, (row) => row.event) : empty('All events are consumed.', 'If this number grows, no program reads the events of the store.')],
};

export const repairColumns = [
  { title: 'when', kind: 'tight', cell: (row) => time(row.at) }, { title: 'who', cell: (row) => [h('span.name', bdi(row.by, 100)), h('span.dim', ` by ${{ command: 'command', dashboard: 'dashboard', program: 'program' }[row.way] ?? visible(row.way)}`)] },
  { title: 'did', kind: 'tight', cell: (row) => visible(row.action) },
  { title: 'to', cell: (row) => [row.row && [handlerLink(row.row), ' '], bdi(row.name, 120), row.stateBefore && h('span.dim', ` was ${visible(row.stateBefore)}`)] },
  { title: 'because', cell: (row) => (row.because ? bdi(row.because) : h('span.dim', 'no reason given')) },
];
const repairs = {
  title: () => 'Repairs',
  load: (at) => ({ data: `repairs${query({ before: at.all.before })}` }),
  view: ({ data }, at) => [title('Repairs', h('p.lead', 'who changed what by hand, and why')), data.rows.length ? table('Repairs', repairColumns, data.rows, (row) => row.number) : empty('Nobody has changed anything by hand.', 'Each requeue, discard, pause and signal is stored here in the same transaction as the change, for 90 days.'),
    data.next && h('p', link(`/repairs${query({ before: data.next })}`, 'Older repairs'))],
};

export const lists = { overview, handlers, timers, lanes, lane, nodes, accounts, account, activity, events, repairs };
export { title };
