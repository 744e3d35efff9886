// The chain holds: a browser reaches a server of ours and shows what it said.
import assert from 'node:assert/strict';
import { withPage } from './browser.mjs';

await withPage(async page => {
  const response = await page.goto(process.env.URR_URL);
  assert.equal(response.status(), 200);
  assert.match(await page.textContent('body'), new RegExp(process.env.URR_EXPECT));
});
