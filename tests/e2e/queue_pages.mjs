// The waiting room's pages in a browser, against a running urr-queue. All cases but the last run side
// by side, each with an event and people of its own; prints one JSON line per case. Reads URR_URL,
// URR_URRCTL and JWT_SECRET (tokens), URR_TEST_CONTROL (stops Redis), URR_SHOTS (where pictures go),
// URR_CASE (only that one).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { withBrowser } from './browser.mjs';

const base = process.env.URR_URL;
const WAIT = 30000; // for anything: the machine may be busy

const tokens = {};
const token = (user, role = 'user') => (tokens[user + role] ??=
  execFileSync(process.env.URR_URRCTL, ['token', '--user', user, '--role', role], { encoding: 'utf8' }).trim());
const control = action => execFileSync(process.env.URR_TEST_CONTROL, [action, 'redis']);

async function api(user, method, path, body, role) {
  const response = await fetch(base + path, {
    method, headers: { Authorization: `Bearer ${token(user, role)}`, 'Content-Type': 'application/json' },
    body: method === 'GET' ? undefined : JSON.stringify(body ?? {}),
  });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
  return response.json();
}
const admin = (method, path, body) => api('root', method, path, body, 'admin');
const look = event => admin('GET', `/api/queue/admin/${event}`);

async function until(what, condition) {
  for (const end = Date.now() + WAIT; Date.now() < end; await new Promise(done => setTimeout(done, 50))) {
    const result = await condition();
    if (result) return result;
  }
  throw new Error(`in vain: ${what}`);
}

// An event with one slot, which `holder` has, and `queue` more people in line.
async function fullHouse(event, queue = 0, settings = {}) {
  await admin('POST', `/api/queue/admin/register/${event}`, { title: `Show ${event}`, artist: 'The Band', threshold: 1, ...settings });
  for (const user of ['holder', ...Array.from({ length: queue }, (_, i) => `early${i}`)])
    await api(`${event}-${user}`, 'POST', `/api/queue/check/${event}`);
}
const leave = (event, user) => api(`${event}-${user}`, 'POST', `/api/queue/leave/${event}`);
const shown = (page, id) => page.locator(`#${id}`).textContent();
const is = (page, id, text) => until(`#${id} says ${text}`, async () => text.test(await shown(page, id)));
const seats = (page, event) => page.waitForURL(`${base}/events/${event}/seats`, { timeout: WAIT });

// visit(event, options): a page of the fan `event`-me; what the pages lead to is answered here.
let open;
async function visit(event, { path = `/queue/${event}`, user = `${event}-me`, role, before, ...options } = {}) {
  const context = await open({ locale: 'en-US', ...options });
  if (user) await context.addCookies([{ name: 'access_token', value: token(user, role), url: base, httpOnly: true, sameSite: 'Strict' }]);
  await context.route('**/events/**', route => route.fulfill({ contentType: 'text/html', body: '<title>onward</title>' }));
  const page = await context.newPage();
  page.asked = [];
  page.on('request', request => page.asked.push(new URL(request.url()).pathname));
  await before?.(page);
  await page.goto(base + path);
  return page;
}
const polls = page => page.asked.filter(path => path.startsWith('/api/queue/status/')).length;

const cases = {
  async goes_on_after_20_s_offline(event) {
    await fullHouse(event, 1);
    const page = await visit(event);
    await is(page, 'ahead', /^1$/);
    await page.context().setOffline(true);
    await is(page, 'note', /^You are offline\. Your place is kept/);
    await new Promise(done => setTimeout(done, 20000));
    await leave(event, 'early0');
    await page.context().setOffline(false);
    await is(page, 'aheadLabel', /^You are next$/);
    await until('the note is gone', async () => !await page.isVisible('#note'));
    await leave(event, 'holder');
    await seats(page, event);
  },

  async admitted_by_push(event) {
    await fullHouse(event, 2);
    const page = await visit(event);
    await is(page, 'ahead', /^2$/);
    await is(page, 'title', /^Show /);
    assert.equal(await shown(page, 'fact1'), '3');
    assert.equal(await shown(page, 'fact3'), '1 / 1');
    assert.match(await shown(page, 'say'), /^2 people ahead of you/);
    await until('a stream', () => page.asked.includes(`/api/queue/stream/${event}`));
    const before = polls(page);
    await leave(event, 'early0');
    await is(page, 'ahead', /^1$/);
    await leave(event, 'early1');
    await is(page, 'aheadLabel', /^You are next$/);
    assert.match(await page.title(), /^0 ahead · Show /);
    assert.equal(polls(page), before, 'positions came by push');
    await leave(event, 'holder');
    await is(page, 'wordTitle', /^You’re in$/);
    assert.match(await page.title(), /^✓ You’re in/);
    assert.equal(polls(page), before + 1, 'one call to claim it');
    const cookie = (await page.context().cookies()).find(c => c.name === 'urr-entry-token');
    assert.ok(cookie?.httpOnly && cookie.sameSite === 'Strict');
    await seats(page, event);
  },

  async a_reload_keeps_the_place(event) {
    await fullHouse(event, 1);
    const page = await visit(event);
    await is(page, 'ahead', /^1$/);
    await api(`${event}-late`, 'POST', `/api/queue/check/${event}`);
    const place = await page.evaluate(key => localStorage.getItem(key), `urr-place-${event}`);
    assert.match(place, /^p\./);
    await page.reload();
    await is(page, 'ahead', /^1$/);
    await is(page, 'fact2', /^1$/);
    assert.equal((await look(event)).queueSize, 3);
  },

  async polls_where_streams_are_blocked(event) {
    await fullHouse(event);
    const page = await visit(event, { before: page => page.route('**/api/queue/stream/**', route => route.abort()) });
    await is(page, 'aheadLabel', /^You are next$/);
    await until('polls', () => polls(page) >= 3);
    await leave(event, 'holder');
    await seats(page, event);
  },

  async works_by_keyboard_alone(event) {
    await fullHouse(event, 1);
    const page = await visit(event);
    await is(page, 'ahead', /^1$/);
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.t || '');
    const tabTo = async id => {
      for (let i = 0; i < 12 && await focused() !== id; i++) await page.keyboard.press('Tab');
      assert.equal(await focused(), id);
    };
    await tabTo('sound');
    assert.equal(await page.isChecked('#sound'), false, 'no sound unless asked for');
    await page.keyboard.press('Space');
    assert.equal(await page.isChecked('#sound'), true);
    await tabTo('leave');
    await page.keyboard.press('Enter');
    assert.equal(await focused(), 'stay', 'the harmless answer comes first');
    await page.keyboard.press('Escape');
    assert.equal(await focused(), 'leave', 'back where one was');
    assert.equal((await look(event)).queueSize, 2, 'still in line');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'leaveNow');
    await page.keyboard.press('Enter');
    await is(page, 'wordTitle', /^You have left the line$/);
    assert.equal((await look(event)).queueSize, 1);
    await page.reload();
    await is(page, 'wordTitle', /^You have left the line$/);
    assert.equal((await look(event)).queueSize, 1, 'a reload does not join again');
    await tabTo('go');
    await page.keyboard.press('Enter');
    await is(page, 'ahead', /^1$/);
  },

  async fits_a_phone_in_korean(event) {
    await fullHouse(event, 1);
    for (const colorScheme of ['light', 'dark']) {
      const page = await visit(event, { locale: 'ko-KR', colorScheme, viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true });
      await is(page, 'ahead', /^1$/);
      assert.equal(await page.getAttribute('html', 'lang'), 'ko');
      assert.match(await page.textContent('main'), /예상 대기 시간.*내 순번.*대기열 나가기/s);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'no sideways scrolling');
      for (const target of await page.locator('button:visible, a:visible, label:visible').all()) {
        const { height, width } = await target.boundingBox();
        assert.ok(height >= 44 && width >= 44, `${await target.textContent()} is ${width} x ${height}`);
      }
      await page.screenshot({ path: join(process.env.URR_SHOTS, `queue-phone-ko-${colorScheme}.png`), fullPage: true });
      await page.click('#lang');
      await page.reload();
      await is(page, 'aheadLabel', /^people ahead of you$/);
    }
  },

  async a_screen_reader_is_not_shouted_at(event) {
    await fullHouse(event, 9);
    const page = await visit(event);
    await is(page, 'ahead', /^9$/);
    await page.evaluate(() => {
      window.said = [];
      new MutationObserver(() => said.push(document.getElementById('say').textContent)).observe(document.getElementById('say'), { childList: true });
    });
    for (let i = 0; i < 6; i++) {
      await leave(event, `early${i}`);
      await is(page, 'ahead', new RegExp(`^${8 - i}$`));
    }
    const said = await page.evaluate(() => window.said);
    assert.ok(said.length <= 2, said.join(' | '));
  },

  async sold_out_is_told_to_those_who_wait(event) {
    await fullHouse(event, 1);
    const page = await visit(event);
    await is(page, 'ahead', /^1$/);
    await admin('POST', `/api/queue/admin/close/${event}`, { reason: 'sold_out' });
    await is(page, 'wordTitle', /^Sold out$/);
    assert.match(await shown(page, 'say'), /^Sold out/);
    assert.equal(await page.isVisible('#leave'), false);
  },

  async counts_down_to_the_opening(event) {
    await fullHouse(event, 0, { opensAt: Date.now() + 3600000, threshold: 5 });
    const page = await visit(event);
    await is(page, 'opens', /^Opens in 59:\d\d \(at .*\)\. You are in line already\.$/);
    const first = await shown(page, 'opens');
    await until('a second passes', async () => await shown(page, 'opens') !== first);
    assert.equal(await shown(page, 'seconds'), 'not known yet');
    await admin('PUT', `/api/queue/admin/settings/${event}`, { opensAt: null });
    await seats(page, event);
  },

  async a_stranger_is_asked_to_sign_in(event) {
    await fullHouse(event);
    const page = await visit(event, { user: null });
    await is(page, 'wordTitle', /^Sign in first$/);
    assert.equal(await page.getAttribute('#go', 'href'), `/login?next=%2Fqueue%2F${event}`);
    const unknown = await visit('no-such-event', { user: 'somebody' });
    await is(unknown, 'wordTitle', /^Nothing here$/);
  },

  async the_first_room_keeps_a_number_until_it_is_served(event) {
    await admin('POST', `/api/queue/admin/register/${event}`, { vwrBatch: 0 });
    await admin('POST', `/api/admin/vwr/activate/${event}`);
    const KEY = `urr-vwr-${event}`, kept = page => page.evaluate(key => localStorage.getItem(key), KEY);
    const sent = await visit(event, { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 });
    await sent.waitForURL(`${base}/vwr/${event}`, { timeout: WAIT });
    await is(sent, 'fact1', /^1$/);
    const page = await visit(event, { path: `/vwr/${event}`, user: null });
    await is(page, 'fact1', /^2$/);
    await is(page, 'ahead', /^1$/);
    const number = JSON.parse(await kept(page)).requestId;
    await page.reload();
    await is(page, 'fact1', /^2$/);
    assert.equal(JSON.parse(await kept(page)).requestId, number);
    await page.evaluate(key => localStorage.setItem(key, '{"requestId":"forged"}'), KEY);
    await page.reload();
    await is(page, 'fact1', /^3$/);
    await sent.screenshot({ path: join(process.env.URR_SHOTS, 'vwr-phone.png'), fullPage: true });
    await admin('POST', `/api/admin/vwr/advance/${event}`, { batchSize: 3 });
    for (const each of [page, sent]) await each.waitForURL(`${base}/events/${event}`, { timeout: WAIT });
    assert.ok((await page.context().cookies()).some(c => c.name === 'urr-vwr-token'));
    assert.equal(await (await visit(event, { path: `/vwr/${event}`, user: null })).evaluate(key => localStorage.getItem(key), KEY), null);
    await sent.goto(`${base}/queue/${event}`);
    await seats(sent, event);
  },

  async without_a_first_room_nobody_waits_in_it(event) {
    await admin('POST', `/api/queue/admin/register/${event}`);
    const page = await visit(event, { path: `/vwr/${event}`, user: null });
    await page.waitForURL(`${base}/events/${event}`, { timeout: WAIT });
  },

  async an_operator_steers(event) {
    await fullHouse(event, 2);
    const fan = await visit(event), path = `/admin/queue#${event}`;
    const page = await visit(event, { path, user: 'root', role: 'admin', viewport: { width: 1280, height: 900 } });
    await is(page, 'waiting', /^[23]$/);
    await is(page, 'inside', /^1 \/ 1$/);
    await page.locator('#room').check();
    await until('the room is on', async () => (await look(event)).roomActive);
    await page.locator('#room').uncheck();
    await page.locator('#ask button[value=""]').click();
    await until('the switch is back', () => page.isChecked('#room'));
    assert.equal((await look(event)).roomActive, true, 'not without a confirmation');
    await page.locator('#room').uncheck();
    await page.click('#yes');
    await until('the room is off', async () => !(await look(event)).roomActive);
    await page.locator('#paused').check();
    await is(fan, 'opens', /^Nobody is let in for a moment/);
    await page.fill('#threshold', '3');
    await page.press('#threshold', 'Enter');
    await is(page, 'inside', /^1 \/ 3$/);
    await page.locator('#paused').uncheck();
    await is(page, 'inside', /^3 \/ 3$/);
    await until('a line in the chart', async () => /L/.test(await page.getAttribute('path.w', 'd')));
    await page.screenshot({ path: join(process.env.URR_SHOTS, 'admin.png'), fullPage: true });
    await page.click('#close');
    await page.fill('#why', 'The band is ill');
    await page.click('#yes');
    await is(fan, 'wordText', /^The band is ill$/);
    await is(page, 'state', /The band is ill$/);
    const other = await visit(event, { path, user: `${event}-me` });
    await other.waitForSelector('#signIn', { timeout: WAIT });
    assert.equal(await other.isVisible('#desk'), false);
    await other.fill('#token', token('root', 'admin'));
    await other.press('#token', 'Enter');
    await is(other, 'inside', /^3 \/ 3$/);
  },
};

// Alone and last: it takes Redis away from everybody.
async function calm_while_redis_is_away(event) {
  await fullHouse(event, 1);
  const page = await visit(event);
  await is(page, 'ahead', /^1$/);
  control('kill');
  await page.evaluate(() => dispatchEvent(new Event('online'))); // else it asks after 20 s of silence
  await is(page, 'note', /Nobody loses a place|Your place is kept/);
  assert.equal(await shown(page, 'ahead'), '1', 'what was known stays');
  const late = await visit(event, { user: `${event}-late` });
  await is(late, 'wordTitle', /^One moment, please$/);
  await late.screenshot({ path: join(process.env.URR_SHOTS, 'redis-away.png'), fullPage: true });
  control('start');
  await until('the note is gone', async () => !await page.isVisible('#note'));
  await is(page, 'ahead', /^1$/);
  await is(late, 'ahead', /^2$/);
}

await withBrowser(async browser => {
  const violations = [], contexts = [];
  open = async options => {
    const context = await browser.newContext(options);
    context.on('console', message => {
      if (/Content Security Policy|Trusted/.test(message.text())) violations.push(message.text());
    });
    context.on('weberror', error => violations.push(String(error.error())));
    contexts.push(context);
    return context;
  };
  const run = async (name, test) => {
    const start = Date.now();
    const error = await test(name.replace(/_/g, '-').slice(0, 40) + process.pid).then(() => null, e => e.stack);
    console.log(JSON.stringify({ name, error, ms: Date.now() - start }));
  };
  // Five at a time: more only wait for each other. The one that mostly waits comes first.
  const list = Object.entries(cases).filter(([name]) => !process.env.URR_CASE || name === process.env.URR_CASE);
  const lane = async () => { for (let next; (next = list.shift());) await run(...next); };
  await Promise.all([lane(), lane(), lane(), lane(), lane()]);
  for (const context of contexts.splice(0)) await context.close();
  await run('calm_while_redis_is_away', calm_while_redis_is_away);
  await run('no_page_breaks_its_policy', async () => assert.deepEqual(violations, []));
});
