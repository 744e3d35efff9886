// browser.mjs - what every browser test starts from: Chromium from the distribution, driven by
// playwright-core, which brings no browser of its own. A script gets the page's address in URR_URL.
import { createRequire } from 'node:module';

const require = createRequire(process.env.URR_NODE_MODULES + '/');
const { chromium } = require('playwright-core');

// withBrowser(async browser => …): the browser ends with the test.
export async function withBrowser(test) {
  const browser = await chromium.launch({
    executablePath: process.env.URR_CHROMIUM || '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  try {
    await test(browser);
  } finally {
    await browser.close();
  }
}

// withPage(async page => …): any error, also one in the page's own scripts, ends with exit code 1.
export async function withPage(test) {
  await withBrowser(async browser => {
    const broken = [];
    const page = await browser.newPage();
    page.on('pageerror', error => broken.push(error));
    await test(page);
    if (broken.length > 0) throw broken[0];
  });
}
