// vwr.js - Tier 1: a number for an anonymous visitor, kept through reloads, until it is served.
import { $, addWords, call, drawClosed, drawTrouble, drawWait, drawWord, eventId, keep, keepAsking, number, put, soon, speak, t } from './room.js';

addWords({
  en: {
    title: 'Waiting room', sub: 'Many people came at once. Everyone gets in by number.', coming: 'Getting your number',
    fact1: 'Your number', fact2: 'Now serving', next2: 'When your number is served, you are taken to the event.',
    inTitle: 'Your number is up', inText: 'Taking you to the event.', go: 'Continue',
  },
  ko: {
    title: '대기실', sub: '많은 분이 함께 오셨습니다. 번호 순서대로 입장합니다.', coming: '번호를 받는 중',
    fact1: '내 번호', fact2: '현재 번호', next2: '번호가 되면 공연 페이지로 이동합니다.',
    inTitle: '입장할 차례입니다', inText: '공연 페이지로 이동합니다.', go: '계속',
  },
});

const KEY = `urr-vwr-${eventId}`, onward = `/events/${eventId}`;
const api = name => `/vwr-api/vwr/${name}/${eventId}`;
let mine = null, draw = () => {};
try { mine = JSON.parse(keep(KEY)); } catch { /* assigned anew */ }

const anon = keep('urr-anon-id') || [...crypto.getRandomValues(new Uint8Array(16))].map(b => b.toString(16).padStart(2, '0')).join('');
keep('urr-anon-id', anon);

function show(drawing, waiting) {
  $('next').hidden = !waiting;
  (draw = drawing)();
}

// Nothing more to ask: the room is over for this visitor.
function end(drawing) {
  keep(KEY, null);
  show(drawing);
  return null;
}

function letIn(delay) {
  setTimeout(() => location.replace(onward), delay);
  document.title = `✓ ${t('inTitle')}`;
  return end(() => drawWord('✓', t('inTitle'), t('inText'), t('go'), onward));
}

function wait(data) {
  const ahead = Math.max(0, data.position - data.servingCounter - 1);
  mine = { first: ahead, ...mine };
  show(() => {
    drawWait(ahead, mine.first, data.estimatedWait);
    put('fact1', number(data.position));
    put('fact2', number(data.servingCounter));
    document.title = `${number(ahead)} · ${t('title')}`;
  }, true);
}

async function step(signal) {
  const known = mine?.requestId;
  const { status, ok, data } = known
    ? await call('GET', `${api('check')}/${encodeURIComponent(known)}?userId=${anon}`, { signal })
    : await call('POST', api('assign'), { signal }, { userId: anon });
  // No room, no wait.
  if (status === 404 && !known) return letIn(0);
  if (status === 404) return keep(KEY, mine = null), 0;
  const closed = status === 410 ? data.error.message : data.closed;
  if (closed) return end(() => drawClosed(closed));
  if (!ok) throw new Error('refused');
  if (data.admitted) return letIn(1500);
  if (!known) mine = { requestId: data.requestId };
  wait(data);
  keep(KEY, JSON.stringify(mine));
  return soon(known ? data.nextPoll : 1);
}

speak(() => draw());
keepAsking(step, kind => { drawTrouble(kind); if (!kind) draw(); });
