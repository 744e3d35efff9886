// room.js - what the pages share: two languages, a quiet voice, and asking again without hurry.
export const $ = id => document.getElementById(id);
export const put = (id, text) => { $(id).textContent = text; };
export const eventId = location.pathname.split('/')[2];

// A browser may refuse storage; the page then merely forgets.
export const keep = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem(key);
    value === null ? localStorage.removeItem(key) : localStorage.setItem(key, value);
  } catch { /* forgotten */ }
  return null;
};

const words = {
  en: {
    lang: '한국어', ahead: 'people ahead of you', nobody: 'You are next', wait: 'Estimated wait', nextTitle: 'What happens next',
    next1: 'Keep this page open. A reload, a locked phone or a lost network does not cost your place.',
    under1: 'under a minute', min: '{0}–{1} min', hours: '{0}–{1} hours', unknown: 'not known yet',
    sayAhead: '{0} people ahead of you. Estimated wait: {1}.',
    offline: 'You are offline. Your place is kept; we go on as soon as you are back.',
    shaky: 'The connection is shaky. Your place is kept; we are trying again.', busyTitle: 'One moment, please',
    busy: 'The line is catching its breath. Nobody loses a place, and this page goes on by itself.',
    full: 'The line is full. This page tries again by itself.',
    soldTitle: 'Sold out', soldText: 'All tickets are gone, so you need not wait any longer. Thank you for coming.', closedTitle: 'This line is closed',
    unknownTitle: 'Nothing here', unknownText: 'There is no such event, or it is over.',
  },
  ko: {
    lang: 'English', ahead: '명이 내 앞에 있습니다', nobody: '다음 차례입니다', wait: '예상 대기 시간', nextTitle: '다음 단계',
    next1: '이 페이지를 열어 두세요. 새로고침하거나 화면을 잠가도, 연결이 끊겨도 순서는 유지됩니다.',
    under1: '1분 미만', min: '{0}~{1}분', hours: '{0}~{1}시간', unknown: '아직 알 수 없음',
    sayAhead: '내 앞에 {0}명. 예상 대기 시간 {1}.',
    offline: '오프라인 상태입니다. 순서는 유지되며, 연결되면 바로 이어집니다.',
    shaky: '연결이 불안정합니다. 순서는 유지되며, 다시 시도하고 있습니다.', busyTitle: '잠시만 기다려 주세요',
    busy: '대기열이 잠시 숨을 고르고 있습니다. 순서는 유지되며 자동으로 이어집니다.',
    full: '대기열이 가득 찼습니다. 자동으로 다시 시도합니다.',
    soldTitle: '매진되었습니다', soldText: '모든 표가 판매되어 더 기다리지 않으셔도 됩니다. 와 주셔서 감사합니다.', closedTitle: '대기열이 닫혔습니다',
    unknownTitle: '찾을 수 없습니다', unknownText: '없는 공연이거나 이미 종료되었습니다.',
  },
};
export const addWords = more => { for (const l in more) Object.assign(words[l], more[l]); };

export let lang = keep('urr-lang') || (/^ko/i.test(navigator.language) ? 'ko' : 'en');
if (!words[lang]) lang = 'en';
export const t = (key, ...values) => (words[lang][key] ?? key).replace(/\{(\d)\}/g, (_, i) => values[i]);
export const number = n => n.toLocaleString(lang);

// Puts the page into its language, now and after each switch.
export function speak(redraw) {
  const all = () => {
    document.documentElement.lang = lang;
    for (const e of document.querySelectorAll('[data-t]')) e.textContent = words[lang][e.dataset.t] ?? '';
    $('lang').lang = lang === 'ko' ? 'en' : 'ko';
    redraw();
  };
  $('lang').onclick = () => { keep('urr-lang', lang = $('lang').lang); all(); };
  all();
}

export const say = text => { if ($('say').textContent !== text) $('say').textContent = text; };

// One call of the API. A network failure and an answer that means "later" are thrown, with `retry`
// in seconds where the server said when.
// A phone's clock may be minutes off.
let skew = 0;
export const now = () => Date.now() + skew;
export class Later extends Error {
  constructor(kind, retry) { super(kind); this.kind = kind; this.retry = retry; }
}
export async function judge(response) {
  const date = Date.parse(response.headers.get('Date')), { status } = response;
  if (date && Math.abs(date - now()) > 3000) skew = date - Date.now();
  if (status !== 429 && status < 500) return response;
  const { error } = await response.json().catch(() => ({}));
  const full = ['QUEUE_FULL', 'WAIT_TOO_LONG'].includes(error?.code);
  throw new Later(full ? 'full' : 'busy', +response.headers.get('Retry-After') || error?.retry_after || 5);
}
export async function call(method, path, { headers, signal } = {}, body = {}) {
  const quit = new AbortController(), stop = () => quit.abort(), limit = setTimeout(stop, 10000);
  signal?.addEventListener('abort', stop);
  try {
    const response = await judge(await fetch(path, method === 'GET' ? { headers, cache: 'no-store', signal: quit.signal }
      : { method, headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body), signal: quit.signal }));
    return { status: response.status, ok: response.ok, data: await response.json().catch(() => ({})) };
  } finally {
    clearTimeout(limit);
  }
}

// The server's nextPoll, within bounds, and not all at once.
export const soon = seconds => Math.min(60, Math.max(1, seconds || 3)) * (.9 + Math.random() * .3);

// Runs `step` again and again until it returns null; it returns the seconds to wait. Waking phones,
// tabs and networks make it run at once, but never before the time a server asked for.
export function keepAsking(step, trouble) {
  let timer, running, waking, ended, troubled, fails = 0, notBefore = 0, heard = 0, aborter;
  const complain = kind => { if (!ended) trouble(troubled = kind); };
  const fine = () => {
    heard = Date.now();
    fails = 0;
    if (troubled) complain(null);
  };
  const run = async () => {
    clearTimeout(timer);
    if (running || ended) return;
    running = true;
    aborter = new AbortController();
    let wait;
    try {
      wait = await step(aborter.signal, fine);
      fine();
    } catch (error) {
      const asked = error.retry;
      wait = waking ? Math.random() * .5 : asked ? asked * (1 + Math.random() * .3) : Math.min(30, 2 ** fails++) * (.5 + Math.random());
      if (asked) notBefore = Date.now() + asked * 1000;
      if (!waking) complain(navigator.onLine ? error.kind || 'shaky' : 'offline');
    }
    running = waking = false;
    if (wait === null) ended = true;
    else if (!ended) timer = setTimeout(run, wait * 1000);
  };
  const wake = () => {
    if (document.hidden || Date.now() < notBefore || Date.now() - heard < 3000) return;
    clearTimeout(timer);
    if (running) waking = true, aborter.abort();
    else timer = setTimeout(run, Math.random() * 500);
  };
  document.addEventListener('visibilitychange', wake);
  addEventListener('pageshow', e => { if (e.persisted) location.reload(); });
  addEventListener('online', () => { heard = 0; wake(); });
  addEventListener('offline', () => { running ? aborter.abort() : complain('offline'); });
  run();
  return { now: () => { if (Date.now() >= notBefore) run(); }, end: () => { ended = true; clearTimeout(timer); aborter.abort(); } };
}

// Honest: a range, and coarser the longer it is.
export function range(seconds) {
  if (seconds == null) return t('unknown');
  if (seconds < 60) return t('under1');
  const m = seconds / 60, step = m < 12 ? 1 : m < 60 ? 5 : 30;
  const low = Math.max(1, Math.floor(m * .8 / step) * step), high = Math.max(low + step, Math.ceil(m * 1.25 / step) * step);
  return step < 30 ? t('min', low, high) : t('hours', number(low / 60), number(high / 60));
}

// The big number, the way and the wait. The number runs to its new value; the dot never goes back.
let shown, at = 0, saidAhead, saidAt = 0, frame;
function countTo(n) {
  if (n === shown) return;
  const from = shown ?? n, start = performance.now();
  const quick = document.hidden || matchMedia('(prefers-reduced-motion: reduce)').matches;
  shown = n;
  cancelAnimationFrame(frame);
  const tick = time => {
    const part = quick ? 1 : Math.min(1, (time - start) / 700), text = number(Math.round(from + (n - from) * part));
    put('ahead', text);
    $('ahead').classList.toggle('long', text.length > 6);
    if (part < 1) frame = requestAnimationFrame(tick);
  };
  tick(start);
}

export function drawWait(ahead, first, seconds) {
  $('word').hidden = true;
  $('wait').hidden = false;
  at = Math.max(at, first > 0 ? 1 - ahead / first : 0);
  $('way').style.setProperty('--at', at);
  $('way').setAttribute('aria-valuenow', Math.round(at * 100));
  put('seconds', range(seconds));
  put('aheadLabel', ahead ? t('ahead') : t('nobody'));
  countTo(ahead);
  // Spoken at the start, then when the number has fallen by a quarter, and at most every 20 s.
  const near = ahead <= 3 && ahead !== saidAhead;
  if (saidAhead === undefined || near || (ahead <= saidAhead * .75 && Date.now() - saidAt > 20000)) {
    say(ahead ? t('sayAhead', number(ahead), range(seconds)) : t('nobody'));
    saidAhead = ahead;
    saidAt = Date.now();
  }
}

// A message instead of the wait: sign, title, text, and perhaps a way on.
export function drawWord(sign, title, text, label, action) {
  const lost = $('wait').contains(document.activeElement);
  $('wait').hidden = true;
  $('word').hidden = false;
  put('sign', sign);
  put('wordTitle', title);
  put('wordText', text);
  $('go').hidden = !label;
  put('go', label || '');
  $('go').href = typeof action === 'string' ? action : '#';
  $('go').onclick = typeof action === 'function' ? e => { e.preventDefault(); action(); } : null;
  say(`${title}. ${text}`);
  if (lost) $('wordTitle').focus();
}

// Sold out is said in our words; any other reason is the operator's own.
export function drawClosed(reason) {
  const sold = /^sold[ _-]?out$/i.test(reason);
  drawWord(sold ? '◇' : '■', t(sold ? 'soldTitle' : 'closedTitle'), sold ? t('soldText') : reason || '');
  document.title = t(sold ? 'soldTitle' : 'closedTitle');
}

// A calm line above, or the whole card while nothing was shown yet.
export function drawTrouble(kind) {
  const waiting = !$('wait').hidden;
  $('wait').classList.toggle('still', !!kind);
  $('note').hidden = !kind || !waiting;
  if (!kind) return;
  if (waiting) say($('note').textContent = t(kind));
  else drawWord('…', t('busyTitle'), t(kind));
}
