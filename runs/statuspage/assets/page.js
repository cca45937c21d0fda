// Puts the frames that the service sends on the page. Whatever comes from the database goes through textContent: it is text, not markup.

import { Chart } from './charts.js';

const byId = id => document.getElementById(id);
const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

const count = value => [number.format(value), ''];
const rate = value => [value < 10 ? fine.format(value) : number.format(value), '/s'];
const mean = value => [value < 100 ? fine.format(value) : number.format(value), ''];
const time = seconds => {
  if (seconds === 0) return ['0', 'ms'];
  if (seconds < 0.001) return [fine.format(seconds * 1e6), 'µs'];
  if (seconds < 1) return [fine.format(seconds * 1e3), 'ms'];
  return [fine.format(seconds), 's'];
};

const charts = {
  updates: new Chart('updates', 'Action updates', 'Changes of actions that have reached the watches of the runs followed', rate),
  added: new Chart('added', 'Keys added', 'Announcements that writers have left to the pump', rate),
  delivered: new Chart('delivered', 'Keys delivered', 'Announcements that PostgreSQL has taken', rate),
  pending: new Chart('pending', 'Keys pending', 'Different keys that wait for delivery or are in flight', count),
  batch: new Chart('batch', 'Batch size', 'Keys in a statement, mean of the last seconds', mean),
  delay: new Chart('delay', 'Delay', 'From a key’s being added to its delivery, mean of the last seconds', time),
  oldest: new Chart('oldest', 'Oldest waiting', 'Age of the key that waits longest', time),
  lag: new Chart('lag', 'Lag', 'From the statement at the server until its notifications are heard here, of the last one', time),
  behind: new Chart('behind', 'Watchers behind', 'Subscribers that have less room than there is to tell them', count),
  reconnects: new Chart('reconnects', 'Reconnects', 'Of pump and listener, since the start of the service', count),
};
byId('charts').append(...Object.values(charts).map(chart => chart.element));

// Rates are over the frames of the last few seconds: long enough to be calm, short enough to be live.
const WINDOW = 3000;
let history = [];

function showNotify(frame) {
  const channels = frame.notify.channels ?? [];
  const sum = field => channels.reduce((total, channel) => total + channel[field], 0);
  const sender = frame.notify.sender, listener = frame.notify.listener;
  const now = {
    at: frame.at, updates: frame.actionUpdates, added: sum('added'), delivered: sum('delivered'), waited: sum('waitedSeconds'),
    statements: sender?.statements ?? 0,
  };
  // Counts that fall are another process', behind the same address.
  if (history.length && (now.added < history.at(-1).added || now.updates < history.at(-1).updates)) history = [];
  history.push(now);
  while (history.length > 2 && history[0].at < now.at - WINDOW) history.shift();
  const then = history[0];
  const since = field => now[field] - then[field];
  const perSecond = field => now.at > then.at ? since(field) * 1000 / (now.at - then.at) : null;
  const pump = value => sender ? value : null;

  charts.updates.add(frame.at, perSecond('updates'));
  charts.added.add(frame.at, pump(perSecond('added')));
  charts.delivered.add(frame.at, pump(perSecond('delivered')));
  charts.pending.add(frame.at, pump(sum('pending')));
  charts.batch.add(frame.at, since('statements') > 0 ? since('delivered') / since('statements') : null);
  charts.delay.add(frame.at, since('delivered') > 0 ? since('waited') / since('delivered') : null);
  charts.oldest.add(frame.at, pump(channels.reduce((most, channel) => Math.max(most, channel.oldestAgeSeconds), 0)));
  charts.lag.add(frame.at, listener.received > 0 ? listener.lagSeconds : null);
  charts.behind.add(frame.at, listener.behind);
  charts.reconnects.add(frame.at, Math.max(0, (sender?.connects ?? 0) - 1) + Math.max(0, listener.connects - 1));

  pill('mode', 'quiet', `notify: ${frame.notify.mode}`);
  pill('listening', listener.error ? 'bad' : 'good', listener.error ? 'not listening' : 'listening');

  const problems = [...frame.failures];
  for (const channel of channels) {
    if (channel.failures > 0) {
      problems.push(`${channel.channel} cannot be sent for ${time(channel.failingForSeconds ?? 0).join(' ')}, ${channel.failures} attempts failed, ` +
        `${number.format(channel.pending)} keys wait: ${channel.lastError}`);
    }
  }
  if (listener.error) problems.push(listener.error);
  showProblems(problems);
}

function pill(id, kind, text) {
  const element = byId(id);
  element.hidden = false;
  element.className = 'pill ' + kind;
  element.textContent = text;
}

let shownProblems = '';
function showProblems(problems) {
  const all = problems.join('\n');
  if (all === shownProblems) return; // a screen reader reads out what is put here
  shownProblems = all;
  byId('problems').replaceChildren(...problems.map(problem => {
    const item = document.createElement('li');
    item.textContent = problem;
    return item;
  }));
}

// fillBar makes a bar of one part for each phase that there is.
function fillBar(bar, counts, names) {
  const parts = counts.map((n, phase) => [n, phase]).filter(([n]) => n > 0);
  while (bar.children.length > parts.length) bar.lastChild.remove();
  while (bar.children.length < parts.length) bar.append(document.createElement('span'));
  parts.forEach(([n, phase], i) => {
    bar.children[i].className = 'fill' + phase;
    bar.children[i].style.flexGrow = n;
    bar.children[i].title = `${names[phase]}: ${number.format(n)}`;
  });
}

function showPhases(prefix, counts, names) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  byId(prefix + '-total').textContent = number.format(total);
  fillBar(byId(prefix + '-bar'), counts, names);
  byId(prefix + '-legend').replaceChildren(...counts.flatMap((n, phase) => {
    if (n === 0) return [];
    const item = document.createElement('li');
    item.dataset.phase = names[phase];
    const swatch = item.appendChild(document.createElement('i'));
    swatch.className = 'fill' + phase;
    item.append(names[phase], ' ');
    item.appendChild(document.createElement('b')).textContent = number.format(n);
    return [item];
  }));
}

function showFollowed(runs, names) {
  const list = byId('followed');
  byId('none').hidden = runs.length > 0;
  while (list.children.length > runs.length) list.lastChild.remove();
  while (list.children.length < runs.length) list.append(emptyRun());
  runs.forEach((run, i) => {
    const item = list.children[i];
    const total = run.actions.reduce((sum, n) => sum + n, 0);
    item.dataset.run = run.name;
    item.dataset.phase = names[run.phase] ?? String(run.phase);
    item.querySelector('.name').textContent = run.name;
    item.querySelector('.where').textContent = `${run.project} / ${run.domain}`;
    item.querySelector('.phase').textContent = item.dataset.phase;
    item.querySelector('.counts').textContent = number.format(total) + (run.truncated ? ' and more' : '') + (total === 1 ? ' action' : ' actions') +
      run.actions.map((n, phase) => n > 0 ? ` · ${number.format(n)} ${names[phase]}` : '').join('');
    fillBar(item.querySelector('.bar'), run.actions, names);
  });
}

function emptyRun() {
  const item = document.createElement('li');
  const head = item.appendChild(document.createElement('div'));
  head.className = 'head';
  for (const part of ['name', 'where', 'phase']) head.appendChild(document.createElement('span')).className = part;
  item.appendChild(document.createElement('div')).className = 'bar';
  item.appendChild(document.createElement('div')).className = 'counts';
  return item;
}

function show(frame) {
  showPhases('runs', frame.runs, frame.phases);
  showPhases('actions', frame.actions, frame.phases);
  showFollowed(frame.followed, frame.phases);
  showNotify(frame);
  byId('clock').textContent = new Date(frame.at).toLocaleTimeString();
}

// The browser itself connects again when the connection breaks; not after an answer that is no stream, as a service gives that is starting.
function connect() {
  const events = new EventSource('/status/events');
  events.onopen = () => pill('live', 'good', 'live');
  events.onmessage = message => show(JSON.parse(message.data));
  events.onerror = () => {
    pill('live', 'bad', 'connecting again');
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}
connect();
