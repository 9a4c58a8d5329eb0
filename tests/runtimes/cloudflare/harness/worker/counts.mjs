// Counts what the platform would: the D1 statements this isolate sent, each of a batch by itself.
// `waiting`: how many `waitUntil`s are not done, so that a test knows when a request is over.
import { env } from 'cloudflare:workers';

export const COUNTS_PATH = '/__harness/counts';
export const counts = { d1_queries: 0, waiting: 0 };

const database = Object.getPrototypeOf(env.DB);
const statement = Object.getPrototypeOf(env.DB.prepare('SELECT 1'));

for (const name of ['all', 'first', 'raw', 'run']) count(statement, name, () => 1);
count(database, 'batch', (statements) => statements.length);

function count(prototype, name, amount) {
  const method = prototype[name];
  prototype[name] = function (...args) {
    counts.d1_queries += amount(...args);
    return method.apply(this, args);
  };
}
