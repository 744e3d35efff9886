// queue.js - Tier 2: joins, follows by stream or by polling, and moves on when let in.
import { $, Later, addWords, call, drawClosed, drawTrouble, drawWait, drawWord, eventId, judge, keep, keepAsking, lang, now, number, put, say, soon, speak, t } from './room.js';

addWords({
  en: {
    title: 'Waiting line', coming: 'Joining the line', fact1: 'Your position', fact2: 'Behind you', fact3: 'Inside now',
    next2: 'When it is your turn, you are taken to the seats.', next3: 'Inside you have a few minutes to choose and pay.',
    sound: 'Sound when it is my turn', leave: 'Leave the line', askTitle: 'Leave the line?', askText: 'Your place is lost. Coming back means starting at the end.',
    stay: 'Stay', leaveNow: 'Leave', leftTitle: 'You have left the line', leftText: 'You can join again at the end.', again: 'Join again',
    lostTitle: 'You are no longer in line', lostText: 'Your turn has ended, or the line was cleared.',
    inTitle: 'You’re in', inText: 'Taking you to the seats. They are open to you until {0}.', go: 'Choose seats', ahead1: '{0} ahead',
    signTitle: 'Sign in first', signText: 'Your place belongs to your account.', sign: 'Sign in',
    opens: 'Opens in {0} (at {1}). You are in line already.', paused: 'Nobody is let in for a moment. Your place is kept.', failed: 'That did not work. Please try again.',
  },
  ko: {
    title: '대기열', coming: '대기열에 들어가는 중', fact1: '내 순번', fact2: '내 뒤', fact3: '현재 입장',
    next2: '차례가 되면 좌석 페이지로 이동합니다.', next3: '입장 후 몇 분 안에 좌석을 고르고 결제하세요.',
    sound: '내 차례에 소리로 알림', leave: '대기열 나가기', askTitle: '대기열에서 나갈까요?', askText: '순서를 잃습니다. 다시 오면 맨 뒤에서 시작합니다.',
    stay: '계속 기다리기', leaveNow: '나가기', leftTitle: '대기열에서 나왔습니다', leftText: '맨 뒤에서 다시 줄을 설 수 있습니다.', again: '다시 줄 서기',
    lostTitle: '대기열에 없습니다', lostText: '입장 시간이 끝났거나 대기열이 비워졌습니다.',
    inTitle: '입장하세요', inText: '좌석 페이지로 이동합니다. {0}까지 이용할 수 있습니다.', go: '좌석 선택', ahead1: '앞에 {0}명',
    signTitle: '먼저 로그인하세요', signText: '순서는 계정에 묶여 있습니다.', sign: '로그인',
    opens: '{0} 후 시작 ({1}). 이미 줄을 서 있습니다.', paused: '잠시 입장이 멈췄습니다. 순서는 유지됩니다.', failed: '다시 시도해 주세요.',
  },
});

const PLACE = `urr-place-${eventId}`, FIRST = `urr-first-${eventId}`, LEFT = `urr-left-${eventId}`;
const seats = `/events/${eventId}/seats`, api = name => `/api/queue/${name}/${eventId}`;
let joined = false, view = {}, draw = () => {};

const proof = () => (keep(PLACE) ? { 'X-Queue-Place': keep(PLACE) } : {});
const forget = () => [PLACE, FIRST].forEach(key => keep(key, null));
const name = () => (/^(Unknown)?$/.test(view.eventInfo?.title ?? '') ? eventId : view.eventInfo.title);
const time = ms => new Date(ms - now() + Date.now()).toLocaleTimeString(lang, { hour: '2-digit', minute: '2-digit' });
const clock = s => [s / 3600, s / 60 % 60, s % 60].map(n => String(Math.floor(n)).padStart(2, '0')).join(':').replace(/^00:/, '');

function show(drawing, waiting) {
  $('next').hidden = $('tools').hidden = !waiting;
  (draw = drawing)();
}

function end(sign, about, label, action) {
  forget();
  show(() => drawWord(sign, t(`${about}Title`), t(`${about}Text`), label && t(label), action));
  document.title = `${t(`${about}Title`)} · ${name()}`;
  return null;
}

function drawQueued() {
  const opens = view.opensAt || 0, left = Math.ceil((opens - now()) / 1000);
  put('title', name());
  put('sub', view.eventInfo?.artist || '');
  drawWait(view.peopleAhead, +keep(FIRST), left > 0 || view.paused ? null : view.estimatedWait);
  put('fact1', number(view.position));
  put('fact2', number(view.peopleBehind));
  put('fact3', [view.currentUsers, view.threshold].filter(n => n >= 0).map(number).join(' / '));
  $('opens').hidden = left <= 0 && !view.paused;
  put('opens', left > 0 ? t('opens', clock(left), time(opens)) : t('paused'));
  document.title = `${t('ahead1', number(view.peopleAhead))} · ${name()}`;
}

// Two soft notes; a browser lets them sound only after a touch, which the switch is.
let audio;
const wakeAudio = () => { audio ??= new AudioContext(); audio.resume(); };
function chime() {
  if (!$('sound').checked || !audio) return;
  [523, 784].forEach((pitch, i) => {
    const note = audio.createOscillator(), loud = audio.createGain(), from = audio.currentTime + i * .22;
    note.frequency.value = pitch;
    loud.gain.setValueAtTime(.18, from);
    loud.gain.exponentialRampToValueAtTime(.001, from + .9);
    note.connect(loud).connect(audio.destination);
    note.start(from);
    note.stop(from + .9);
  });
}

function letIn(until) {
  forget();
  chime();
  show(() => drawWord('✓', t('inTitle'), t('inText', time(until)), t('go'), seats));
  document.title = `✓ ${t('inTitle')} · ${name()}`;
  const go = () => location.assign(seats);
  // Who looks away finds the good news when looking back, but the slot must not lie idle.
  setTimeout(go, document.hidden ? 45000 : 2500);
  document.addEventListener('visibilitychange', () => setTimeout(go, 2500));
  return null;
}

// What the server said, by any way. Null: nothing more to ask.
function take(data) {
  view = { ...view, paused: false, ...data };
  if (data.place) keep(PLACE, data.place);
  if (data.status === 'active') return letIn(data.expiresAt);
  if (data.status === 'not_in_queue') return end('↺', 'lost', 'again', again);
  if (data.status === 'closed') {
    forget();
    show(() => drawClosed(data.reason));
    return null;
  }
  joined = true;
  if (!(+keep(FIRST) >= view.peopleAhead)) keep(FIRST, view.peopleAhead);
  show(drawQueued, true);
  return soon(view.nextPoll);
}

function refused(status, to) {
  if (status === 401) return end('→', 'sign', 'sign', `/login?next=${encodeURIComponent(location.pathname)}`);
  if (status === 404) return end('?', 'unknown');
  if (status === 403 && /^\/\w/.test(to)) return location.assign(to), null;
  if (!keep(PLACE)) throw new Later('busy', 10);
  // Somebody else's place, or one that is too old.
  return forget(), 1;
}

async function look(method, what, signal) {
  const { ok, status, data } = await call(method, api(what), { headers: proof(), signal });
  return ok ? take(data) : refused(status, data.redirectTo);
}

// Reads server-sent events with fetch: EventSource hides a 503 and its Retry-After. An unchanged
// position is told again every 15 s, so that a longer silence means something.
let streamFails = 0, streamFrom = 0;
async function stream(signal, heard) {
  const quit = new AbortController(), stop = () => quit.abort();
  signal.addEventListener('abort', stop);
  let silence = setTimeout(stop, 8000), news = false;
  try {
    const response = await judge(await fetch(api('stream'), { headers: { Accept: 'text/event-stream', ...proof() }, cache: 'no-store', signal: quit.signal }));
    if (!/event-stream/.test(response.headers.get('Content-Type'))) throw new Error('no stream');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = '';;) {
      const { done, value } = await reader.read();
      if (done) break;
      clearTimeout(silence);
      silence = setTimeout(stop, 20000);
      const parts = (text += value.replace(/\r/g, '')).split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        const data = part.split('\n').filter(l => l.startsWith('data:')).map(l => l.slice(5)).join('\n');
        const event = /^event: ?(.*)$/m.exec(part)?.[1];
        if (!data) continue;
        news = true;
        heard();
        // The poll that follows claims it and brings the cookie.
        if (event === 'admitted') return 0;
        if (take({ status: event === 'closed' ? event : 'queued', ...JSON.parse(data) }) === null) return null;
      }
    }
  } catch (error) {
    if (error instanceof Later || signal.aborted) throw error;
  } finally {
    clearTimeout(silence);
    stop();
  }
  // A stream that never spoke is not for this network: poll, and try again much later.
  streamFails = news ? 0 : streamFails + 1;
  if (!news) streamFrom = Date.now() + Math.min(300, 15 * 2 ** streamFails) * 1000;
  return soon(1);
}

// A poll comes between two streams: it claims, and tells the newest also where streams fail.
let fresh = false;
async function step(signal, heard) {
  if (fresh && joined && Date.now() >= streamFrom) {
    fresh = false;
    return stream(signal, heard);
  }
  const wait = await (joined ? look('GET', 'status', signal) : look('POST', 'check', signal));
  fresh = true;
  return wait === null || !joined || Date.now() < streamFrom ? wait : 0;
}

const left = () => { finish(); end('↩', 'left', 'again', again); };
function again() {
  sessionStorage.removeItem(LEFT);
  location.reload();
}
$('sound').checked = keep('urr-sound') === 'on';
if ($('sound').checked) addEventListener('pointerdown', wakeAudio, { once: true });
$('sound').onchange = e => { keep('urr-sound', e.target.checked ? 'on' : null); if (e.target.checked) wakeAudio(); };
$('leave').onclick = () => { $('ask').returnValue = ''; $('ask').showModal(); };
$('ask').onclose = async () => {
  if ($('ask').returnValue !== 'leave') return;
  const answer = await call('POST', api('leave'), { headers: proof() }).catch(() => ({}));
  if (!answer.ok) return say($('note').textContent = t('failed')), $('note').hidden = false;
  sessionStorage.setItem(LEFT, '1');
  left();
};
setInterval(() => { if (draw === drawQueued && !$('opens').hidden) draw(); }, 1000);
speak(() => draw());
let finish = () => {};
if (sessionStorage.getItem(LEFT)) left();
else finish = keepAsking(step, kind => { drawTrouble(kind); if (!kind) draw(); }).end;
