// Starts the staged Worker in workerd and says so in one JSON line: {"worker": url, "control": url}.
//
//   node serve.mjs --app build/worker --modules python_modules --backend http://127.0.0.1:9 \
//                  --persist DIR [--port 0] [--vars '{"NAME": "value"}'] [--without AI]
//
// `--backend` answers what workerd's Ai and Vectorize bindings ask. POST {statements: [[sql, params]]} to
// `control` runs one D1 batch: migrations and the first key have no other way in.
import http from 'node:http';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Miniflare, convertV4MiniflareOptions, Log, LogLevel } from 'miniflare';
import { workerModules } from './modules.mjs';

const { values: options } = parseArgs({
  options: {
    app: { type: 'string' },
    modules: { type: 'string' },
    backend: { type: 'string' },
    persist: { type: 'string' },
    port: { type: 'string', default: '0' },
    vars: { type: 'string', default: '{}' },
    date: { type: 'string', default: '2026-11-01' },
    without: { type: 'string', multiple: true, default: [] },
  },
});

const remote = { remoteProxyConnectionString: new URL(options.backend) };
const bindings = { ai: { binding: 'AI', ...remote }, vectorize: { VECTORIZE: { index_name: 'titen-memory', ...remote } } };
for (const name of options.without) delete bindings[name === 'AI' ? 'ai' : 'vectorize'];

const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: '127.0.0.1',
    port: Number(options.port),
    cf: false,
    log: new Log(LogLevel.WARN),
    modules: workerModules(options.app, options.modules),
    compatibilityDate: options.date,
    unsafeEvalBinding: 'UNSAFE_EVAL',
    unsafeTriggerHandlers: true,
    bindings: JSON.parse(options.vars),
    d1Databases: { DB: 'titen' },
    resourcePersistencePath: path.resolve(options.persist),
    ...bindings,
  }),
);

const worker = await miniflare.ready;
const database = await miniflare.getD1Database('DB');
const control = http.createServer(runBatch).listen(0, '127.0.0.1');
await new Promise((resolve) => control.once('listening', resolve));
console.log(JSON.stringify({ worker: worker.href, control: `http://127.0.0.1:${control.address().port}/` }));

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.removeAllListeners(signal); // miniflare's own would end the process before it is disposed of
  process.once(signal, async () => {
    control.close();
    control.closeAllConnections();
    await miniflare.dispose();
    process.exit(0);
  });
}

async function runBatch(request, response) {
  const chunks = await collect(request);
  const { statements } = JSON.parse(Buffer.concat(chunks));
  try {
    const answers = await database.batch(
      statements.map(([sql, params]) => (params.length ? database.prepare(sql).bind(...params) : database.prepare(sql))),
    );
    answer(response, 200, answers.map(({ results }) => results));
  } catch (failure) {
    answer(response, 500, String(failure));
  }
}

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

function answer(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
