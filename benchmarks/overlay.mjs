// CPU of the overlay's arithmetic in Pyodide: node overlay.mjs --pyodide DIR --repository DIR --rows 64 --wanted 15
// Prints the median milliseconds of 50 calls of `titen_core.ranking.similar_to`.
import path from 'node:path';
import { parseArgs } from 'node:util';

const named = Object.fromEntries(['pyodide', 'repository', 'rows', 'wanted'].map((name) => [name, { type: 'string' }]));
const { values: options } = parseArgs({ options: named });
const { loadPyodide } = await import(path.resolve(options.pyodide, 'pyodide.mjs'));
const pyodide = await loadPyodide();
pyodide.mountNodeFS('/repository', path.resolve(options.repository));
console.log(
  pyodide.runPython(`
import math, random, statistics, sys, time
from array import array
sys.dont_write_bytecode = True
sys.path.insert(0, "/repository")
from titen_core.ranking import similar_to
from titen_core.sql.vectors import encode_int8

chance = random.Random(1)
def vector():
    values = [chance.gauss(0, 1) for _ in range(1024)]
    length = math.sqrt(sum(value * value for value in values))
    return array("f", [value / length for value in values])

query, kept = vector(), [(row, encode_int8(vector())) for row in range(${Number(options.rows)})]
spent = []
for _ in range(60):
    started = time.perf_counter()
    similar_to(query, kept, ${Number(options.wanted)})
    spent.append((time.perf_counter() - started) * 1000)
round(statistics.median(spent[10:]), 2)
`),
);
