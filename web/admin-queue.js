// admin-queue.js - the operator's page: one event at a time, its figures each second, its switches.
import { $, addWords, call, keepAsking, number, put, range, speak, t } from './room.js';

addWords({
  en: {
    rooms: 'Waiting rooms', signIn: 'This page needs the admin role. Sign in, or paste a token.', open: 'Open', eventId: 'Event id', name: 'Title', add: 'Add event',
    waiting: 'Waiting', inside: 'Inside', rate: 'Let in per second', drain: 'Empty in', peak: 'Two minutes. Top: {0} people, {1} per second.', room: 'Waiting room (Tier 1)', paused: 'Pause admission',
    most: 'Most people inside', opensAt: 'Opens at', set: 'Set', close: 'Close the line', reopen: 'Open again', clear: 'Send everybody away', reason: 'Reason, shown to all', cancel: 'Cancel',
    closeText: 'All who wait are told at once.', clearText: '{0} people lose their place for good.', off: 'Turn the waiting room off', offText: 'New visitors need no number any more.', closed: 'Closed',
  },
  ko: {
    rooms: '대기실 관리', signIn: '관리자 권한이 필요합니다. 로그인하거나 토큰을 입력하세요.', open: '열기', eventId: '공연 ID', name: '제목', add: '공연 추가',
    waiting: '대기', inside: '입장', rate: '초당 입장', drain: '소진까지', peak: '2분. 최대 {0}명, 초당 {1}명.', room: '대기실(1단계)', paused: '입장 일시 중지',
    most: '최대 입장 인원', opensAt: '시작 시각', set: '적용', close: '대기열 닫기', reopen: '다시 열기', clear: '모두 내보내기', reason: '모두에게 보이는 사유', cancel: '취소',
    closeText: '기다리는 모두에게 바로 알립니다.', clearText: '{0}명이 순서를 잃습니다.', off: '대기실 끄기', offText: '새 방문자는 번호가 필요 없습니다.', closed: '닫힘',
  },
});

const TOKEN = 'urr-admin-token', queue = '/api/queue/admin', vwr = '/api/admin/vwr';
let token = sessionStorage.getItem(TOKEN), events = [], view = null, asked = 0, history = [];
let event = decodeURIComponent(location.hash.slice(1));

const ask = (method, path, body) => call(method, path, { headers: token ? { Authorization: `Bearer ${token}` } : {} }, body);

// What was read before a change had ended says nothing about it: the switches would flicker.
let changes = 0;
async function change(method, path, body) {
  changes++;
  const answer = await ask(method, path, body).catch(error => ({ data: { error: error.message } }));
  tell(answer.ok ? '' : answer.data.error?.message || answer.data.error);
  changes++;
  refresh();
}
function tell(text) {
  $('note').hidden = !text;
  put('note', text);
}

const make = (tag, text, ...inside) => {
  const element = document.createElement(tag);
  element.append(text, ...inside);
  return element;
};
const title = e => (e.title === 'Unknown' ? e.eventId : e.title);
function drawEvents() {
  $('events').replaceChildren(...events.map(e => {
    const button = make('button', title(e), make('span', number(e.queueSize)));
    button.setAttribute('aria-current', e.eventId === event);
    button.onclick = () => choose(e.eventId);
    return make('li', button);
  }));
}
function choose(id) {
  location.hash = event = id;
  history = [];
  view = null;
  drawEvents();
  refresh();
}

const path = (values, top) => 'M' + values.map((v, i) => `${120 - values.length + i},${(100 - 98 * v / top).toFixed(1)}`).join('L');
function drawChart() {
  const people = Math.max(10, ...history.flatMap(h => [h.w, h.a])), rate = Math.max(1, ...history.map(h => h.r));
  for (const [key, top] of [['w', people], ['a', people], ['r', rate]])
    document.querySelector(`path.${key}`).setAttribute('d', path(history.map(h => h[key]), top));
  put('peak', t('peak', number(people), number(+rate.toFixed(1))));
}

const unlessEditing = (id, set) => { if (document.activeElement !== $(id)) set($(id)); };
function draw() {
  drawEvents();
  if ($('ask').open) return;
  $('panel').hidden = !view;
  if (!view) return;
  const rate = history.at(-1)?.r || 0;
  put('name', `${title(view)} · ${event}`);
  put('state', view.closed ? `${t('closed')}: ${view.closedReason}` : '');
  put('waiting', number(view.queueSize));
  put('inside', `${number(view.currentUsers)} / ${number(view.threshold)}`);
  put('rate', number(+rate.toFixed(1)));
  put('drain', view.queueSize === 0 ? '–' : rate > 0 ? range(view.queueSize / rate) : '∞');
  unlessEditing('threshold', e => { e.value = view.threshold; });
  unlessEditing('opensAt', e => { e.value = view.opensAt ? new Date(view.opensAt - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16) : ''; });
  $('room').checked = view.roomActive;
  $('paused').checked = view.paused;
  put('close', t(view.closed ? 'reopen' : 'close'));
  drawChart();
}

// One look: the list every fifth time, the chosen event always.
async function look() {
  if (asked++ % 5 === 0) {
    const list = await ask('GET', queue);
    $('signIn').hidden = list.ok;
    $('desk').hidden = !list.ok;
    if (!list.ok) return 3600;
    events = list.data.events;
    if (!event && events.length) event = events[0].eventId;
  }
  if (event) {
    const before = changes, answer = await ask('GET', `${queue}/${event}`);
    if (changes !== before || changes % 2) return .1;
    view = answer.ok ? answer.data : null;
    if (view) history = [...history, { w: view.queueSize, a: view.currentUsers, r: view.admittedPerSecond }].slice(-120);
  }
  draw();
  return 1;
}
let refresh = () => {};

function confirm(title, text, why, then) {
  $('askTitle').textContent = $('yes').textContent = title;
  put('askText', text);
  $('askWhy').hidden = !why;
  $('why').required = why;
  $('why').value = '';
  $('ask').returnValue = '';
  $('ask').onclose = () => { $('ask').returnValue === 'yes' ? then($('why').value) : draw(); };
  $('ask').showModal();
}

const onSubmit = (id, then) => $(id).addEventListener('submit', e => { e.preventDefault(); then(); });
onSubmit('signIn', () => { sessionStorage.setItem(TOKEN, token = $('token').value.trim()); asked = 0; refresh(); });
onSubmit('add', async () => {
  const id = $('newId').value;
  await change('POST', `${queue}/register/${id}`, { title: $('newTitle').value });
  $('add').reset();
  asked = 0;
  choose(id);
});
onSubmit('limit', () => change('PUT', `${queue}/threshold/${event}?threshold=${+$('threshold').value}`));
onSubmit('opening', () => change('POST', `${queue}/settings/${event}`, { opensAt: $('opensAt').value ? Date.parse($('opensAt').value) : 0 }));
$('room').onchange = e => {
  if (e.target.checked) change('POST', `${vwr}/activate/${event}`);
  else confirm(t('off'), t('offText'), false, () => change('POST', `${vwr}/deactivate/${event}`));
};
$('paused').onchange = e => change('POST', `${queue}/${e.target.checked ? 'pause' : 'resume'}/${event}`);
$('close').onclick = () => {
  if (view.closed) change('POST', `${queue}/open/${event}`);
  else confirm(t('close'), t('closeText'), true, reason => change('POST', `${queue}/close/${event}`, { reason }));
};
$('clear').onclick = () => confirm(t('clear'), t('clearText', number(view.queueSize + view.currentUsers)), false, () => change('POST', `${queue}/clear/${event}`));
speak(draw);
refresh = keepAsking(look, kind => tell(kind ? t(kind) : '')).now;
