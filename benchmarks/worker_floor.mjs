// A Worker without Python: answers /healthz, and for any other request makes the calls of one plan.
//
//   node worker_floor.mjs --miniflare DIR --persist DIR --backend URL --plan FILE
//
// The plan is a JSON list of {d1: [[sql, params]…]}, {ai: [model, inputs]} and {vectorize: options}; a query
// is made with the vector of the last `ai`. Prints {"worker": url} once it answers.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';

const named = Object.fromEntries(['miniflare', 'persist', 'backend', 'plan'].map((name) => [name, { type: 'string' }]));
const { values: options } = parseArgs({ options: named });
const require = createRequire(path.join(path.resolve(options.miniflare), 'package.json'));
const { Miniflare, convertV4MiniflareOptions, Log, LogLevel } = require('miniflare');

const script = `
const plan = ${readFileSync(options.plan, 'utf8')};
export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === '/healthz') return Response.json({ data: { status: 'ok' } });
    await request.text();
    let vector, answers = [];
    for (const call of plan) {
      if (call.ai) [vector] = (await env.AI.run(...call.ai)).data;
      else if (call.vectorize) answers.push(await env.VECTORIZE.query(vector, call.vectorize));
      else answers.push(await rows(env.DB, call.d1));
    }
    return Response.json({ data: answers.length });
  },
};
async function rows(database, statements) {
  const prepared = statements.map(([sql, values]) => database.prepare(sql).bind(...values));
  return prepared.length === 1 ? prepared[0].all() : database.batch(prepared);
}
`;

const remote = { remoteProxyConnectionString: new URL(options.backend) };
const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: '127.0.0.1',
    port: 0,
    cf: false,
    log: new Log(LogLevel.WARN),
    modules: [{ type: 'ESModule', path: 'floor.mjs', contents: script }],
    compatibilityDate: '2026-11-01',
    d1Databases: { DB: 'titen' },
    resourcePersistencePath: path.resolve(options.persist),
    ai: { binding: 'AI', ...remote },
    vectorize: { VECTORIZE: { index_name: 'titen-memory', ...remote } },
  }),
);
console.log(JSON.stringify({ worker: (await miniflare.ready).href }));
process.once('SIGTERM', async () => {
  await miniflare.dispose();
  process.exit(0);
});
